"""Encodings, byte-order marks and line ends.

BC-002, BC-025: the steps of past sessions are in test_sessions.
BC-004, BC-023, BC-025: the viewer's step is added with the pages.
"""

import logging
from pathlib import Path
from typing import Any

import pytest

from coffer import paths
from memory.files import markdown
from memory.models import Document
from memory.services import stores
from tests.cases.steps import INPUTS, call, drop, fingerprint, hits, refused
from tests.conftest import Api


@pytest.mark.parametrize("text", ["half \ud83d end", "\ude00 half", "a\ud83d\ud83d\ude00b", "pair \ud83d\ude00 whole"])
def test_bc_002_half_a_surrogate_pair_becomes_one_replacement_character(text: str, api: Api) -> None:
    saved = call("remember", None, text=text, scope="global")
    data = Path(saved["path"]).read_bytes()
    assert data.decode()  # the file is UTF-8
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert markdown.parse(data).body == whole
    assert api.get(f"/memory_stores/global/facts/{saved['id']}").json()["text"] == whole
    sent = api.post("/memory_stores/global/facts", {"text": text, "title": text, "description": text})
    assert sent.status_code in (201, 422)


def test_bc_002_half_a_pair_in_a_query_a_scene_or_a_session_is_no_failure(repo: Path) -> None:
    assert hits("half \ud83d end", repo) == []
    assert call("set_handoff", repo, body="half \ud83d end")["status"] == "saved"
    assert call("resume", repo)["body"] == "half \ufffd end"


def test_bc_004_a_file_in_an_old_encoding_is_served_and_left_as_it_is(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    drop("knowledge/inbox/l1.md", b"---\ntitle: caf\xe9\n---\nmenu du caf\xe9 okapi\n")
    for number in range(3):
        drop(f"knowledge/inbox/good{number}.md", f"good number {number}\n")
    before = fingerprint(paths.memory())
    with caplog.at_level(logging.WARNING):
        found = [call("recall", None, query="okapi")["hits"] for _ in range(3)]
    assert [[hit["id"] for hit in one] for one in found] == [["l1"]] * 3
    assert found[0][0]["text"] == "menu du caf\N{REPLACEMENT CHARACTER} okapi"
    assert call("list_memory", None)["total"] == 4
    assert "line 2" in api.get("/memory_stores/global/facts/l1").json()["problem"]
    assert fingerprint(paths.memory()) == before
    assert sum("l1.md" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "gb18030", "shift_jis", "utf-7"])
def test_bc_004_no_encoding_stops_the_others(encoding: str, api: Api) -> None:
    drop("knowledge/inbox/odd.md", "---\ntitle: Größe 中文 テスト\n---\nzebu\n".encode(encoding, "replace"))
    drop("knowledge/inbox/good.md", "good zebu\n")
    assert set(hits("zebu")) == {"odd", "good"}
    assert api.get("/memory_stores/global/facts").json()["total"] == 2


def test_bc_023_a_byte_order_mark_is_no_text(api: Api) -> None:
    path = drop("knowledge/inbox/bom.md", b"\xef\xbb\xbf---\ntitle: Bom title\n---\nbody okapi\n")
    (hit,) = call("recall", None, query="okapi")["hits"]
    assert hit["text"] == "body okapi"
    assert call("list_memory", None)["facts"][0]["title"] == "Bom title"
    api.patch("/memory_stores/global/facts/bom", {"text": "body changed"})
    data = path.read_bytes()
    assert data.count(b"---") == 2
    assert b"title: Bom title" in data
    assert markdown.parse(data).body == "body changed"


@pytest.mark.parametrize("name", ["crlf", "mixed", "cr-only"])
def test_bc_025_line_ends_of_other_systems(name: str, api: Api) -> None:
    data = (INPUTS / "BC-025" / f"{name}.md").read_bytes()
    path = drop(f"knowledge/inbox/{name}.md", data)
    fact = api.get(f"/memory_stores/global/facts/{name}").json()
    assert fact["title"] != name
    assert "\r" not in fact["text"]
    assert hits(fact["text"].split()[-1]) == [name]
    generation = stores.get("global").generation
    assert "\r" not in call("recall", None, query=fact["text"])["hits"][0]["text"]
    assert path.read_bytes() == data
    changed = api.patch(f"/memory_stores/global/facts/{name}", {"text": "first\nsecond"}).json()
    assert changed["text"] == "first\nsecond"
    ends = path.read_bytes().replace(b"\r\n", b"")
    assert (b"\r" in ends) + (b"\n" in ends) + (b"\r\n" in path.read_bytes()) == 1
    assert stores.get("global").generation == generation + 1  # the edit alone, no other recall wrote anything


def test_bc_025_a_second_recall_indexes_nothing(wait_until_settled: Any) -> None:
    paths_ = [drop(f"knowledge/inbox/n{number}.md", f"okapi {number}\r\n") for number in range(3)]
    wait_until_settled(*paths_)
    hits("okapi")
    rows = list(Document.objects.values_list("id", "hashed_ns"))
    generation = stores.get("global").generation
    assert len(hits("okapi")) == 3
    assert list(Document.objects.values_list("id", "hashed_ns")) == rows
    assert stores.get("global").generation == generation


def test_bc_025_a_text_with_crlf_comes_back_with_lf(api: Api) -> None:
    saved = call("remember", None, text="one\r\ntwo\rthree", scope="global")
    assert api.get(f"/memory_stores/global/facts/{saved['id']}").json()["text"] == "one\ntwo\nthree"


def test_a_text_of_nothing_but_characters_that_are_left_out_is_empty() -> None:
    for text in ("\0", " \r\n\t", "\u2028\u2029"):
        assert refused("remember", None, text=text, scope="global").code == "MEMORY_REJECTED"
