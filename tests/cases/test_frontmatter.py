"""Frontmatter as people write it, and YAML's types.

BC-014, BC-020: the viewer's step is added with the pages; the session-start index is in test_hooks; INDEX.md is added
with the organizer. BC-016: an organizer's answer that begins with a block is added with the organizer.
"""

import json
import logging
from io import StringIO
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from coffer import paths
from tests.cases.steps import INPUTS, call, drop, drop_case, fingerprint, hits
from tests.conftest import Api

TEXTS = json.loads((INPUTS / "BC-018" / "texts.json").read_text(encoding="utf-8"))
TITLES = (INPUTS / "BC-022" / "titles.txt").read_text(encoding="utf-8").splitlines()


def test_bc_014_a_title_with_a_colon_is_read_and_kept(api: Api) -> None:
    (path,) = drop_case("BC-014")
    drop("knowledge/inbox/other.md", "another quokka\n")
    before = path.read_bytes()
    assert set(hits("quokka")) == {"colon", "other"}
    fact = api.get("/memory_stores/global/facts/colon").json()
    assert "never push tags by hand" in fact["title"]
    assert "line 2" in fact["problem"]
    assert path.read_bytes() == before
    changed = api.patch("/memory_stores/global/facts/colon", {"text": "A body about wombats."})
    assert changed.status_code == 200
    assert "title: Deploy: never push tags by hand" in path.read_text()
    assert hits("wombats") == ["colon"]


def test_bc_014_a_title_cannot_be_changed_in_a_block_that_is_no_yaml(api: Api) -> None:
    (path,) = drop_case("BC-014")
    before = path.read_bytes()
    answer = api.patch("/memory_stores/global/facts/colon", {"title": "New"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID")
    assert path.read_bytes() == before
    assert not (paths.store("global") / "superseded").exists()


def test_bc_015_one_bad_file_holds_nobody_back_and_each_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    files = drop_case("BC-015")
    before = fingerprint(paths.memory())
    with caplog.at_level(logging.WARNING):
        for path in files:
            word = path.read_text().split()[-1]
            assert path.stem in hits(word), path.name
        hits("anything")
    for path in files:
        named = sum(f"{path.name} " in message for message in caplog.messages)
        assert named == (0 if path.name == "good.md" else 1), path.name
    assert fingerprint(paths.memory()) == before


def test_bc_015_reindex_never_claims_a_clean_run() -> None:
    files = drop_case("BC-015")
    out = StringIO()
    with pytest.raises(SystemExit, match="1"):
        call_command("memory", "reindex", stdout=out)
    first, *named = out.getvalue().splitlines()
    assert first == f"{len(files)} files read, {len(files) - 1} with warnings."
    assert len(named) == len(files) - 1


def test_bc_016_an_edit_never_adds_a_second_block(api: Api) -> None:
    for path in drop_case("BC-016"):
        before = path.read_bytes()
        block = before.split(b"\n---\n")[0]
        url = f"/memory_stores/global/facts/{path.stem}"
        assert api.patch(url, {"text": "Corrected over REST."}).status_code == 200
        call_command("memory", "edit", "global", path.stem, "--text", "Corrected by command.", stdout=StringIO())
        assert api.get(url).json()["text"] == "Corrected by command."
        assert path.read_bytes().count(b"\n---\n") == 1
        assert path.read_bytes().startswith(b"---\n")
        if path.stem == "colon":
            assert path.read_bytes().startswith(block)


def test_bc_016_a_body_that_begins_with_a_block_stays_body(api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "First."}).json()
    url = f"/memory_stores/global/facts/{fact['id']}"
    changed = api.patch(url, {"text": "---\ntitle: evil\n---\nbody"}).json()
    assert changed["text"] == "---\ntitle: evil\n---\nbody"
    assert api.get(url).json()["id"] == fact["id"]


@pytest.mark.parametrize("text", TEXTS)
def test_bc_018_text_that_looks_like_frontmatter_comes_back_as_sent(text: str, api: Api) -> None:
    saved = call("remember", None, text=text, scope="global")
    fact = api.get(f"/memory_stores/global/facts/{saved['id']}").json()
    kept = text.rstrip()
    while kept.split("\n")[0].strip() == "":
        kept = kept.split("\n", 1)[1]  # documented: surrounding blank lines go
    assert fact["text"] == kept
    assert fact["metadata"]["actor"] == "agent"
    assert hits(text.rsplit(maxsplit=1)[-1]) == [saved["id"]]


@pytest.mark.parametrize("text", TEXTS)
def test_bc_018_no_word_of_such_a_file_is_lost(text: str) -> None:
    drop("knowledge/inbox/dropped.md", text)
    words = [word for word in text.replace("---", " ").split() if word.isalpha() and len(word) > 3]
    for word in words:
        assert hits(word) == ["dropped"], word


def test_bc_020_typed_values_are_the_strings_that_were_written(api: Api) -> None:
    drop_case("BC-020")
    answer = api.get("/memory_stores/global/facts?limit=200")
    facts = {fact["id"]: fact for fact in json.loads(answer.content, parse_constant=pytest.fail)["facts"]}
    assert len(facts) == 14
    titles = {stem: fact["title"] for stem, fact in facts.items()}
    assert titles == {
        "t01": "2026-10-24", "t02": "on", "t03": "1.10", "t04": "0123", "t05": "12:30:45", "t06": "1e3", "t07": "t07",
        "t08": "t08", "t09": "t09", "t10": "t10", "t11": "2026-10-24T10:00:00+02:00", "t12": ".inf",
        "t13": "thirteen", "t14": "fourteen",
    }  # fmt: skip
    assert facts["t13"]["description"] == "42"
    for number in range(1, 15):
        assert f"t{number:02}" in hits(f"ocelot{number:02}")
    assert {fact["id"]: fact["title"] for fact in call("list_memory", None)["facts"]} == titles


@pytest.mark.parametrize("value", ["2026-10-24", "[a, b]", "{a: 1}", "~", "true", "0001-01-01T00:00:00Z", "x" * 500])
def test_bc_020_the_same_for_every_other_key(value: str, api: Api) -> None:
    keys = ("id", "description", "metadata", "created_at", "updated_at", "tags")
    drop("knowledge/inbox/odd.md", "---\n" + "".join(f"{key}: {value}\n" for key in keys) + "---\nbody ocelot\n")
    (hit,) = call("recall", None, query="ocelot")["hits"]
    fact = api.get(f"/memory_stores/global/facts/{hit['id']}").json()
    assert fact["text"] == "body ocelot"
    assert call("list_memory", None)["total"] == 1


@pytest.mark.parametrize("title", TITLES)
def test_bc_022_an_independent_parser_reads_the_same_title(title: str, api: Api) -> None:
    saved = call("remember", None, text=title, scope="global")
    fact = api.get(f"/memory_stores/global/facts/{saved['id']}").json()
    block = Path(saved["path"]).read_text(encoding="utf-8").split("---\n")[1]
    values = yaml.safe_load(block)
    assert values["title"] == fact["title"]
    assert set(values) == {"id", "title", "description", "metadata", "created_at", "updated_at"}
    assert set(values["metadata"]) == {"actor", "origin_session_id"}
    assert all(isinstance(value, str) for key, value in values.items() if key != "metadata")


@pytest.mark.parametrize("title", [*TITLES, "two\nlines", "x" * 1000, "a: b # c", "\N{RIGHT-TO-LEFT OVERRIDE}x"])
def test_bc_022_so_does_a_title_that_was_given_and_one_that_was_changed(title: str, api: Api) -> None:
    fact = api.post("/memory_stores/global/facts", {"text": "t", "title": title, "description": title}).json()
    for _ in range(2):
        values = yaml.safe_load(Path(fact["path"]).read_text(encoding="utf-8").split("---\n")[1])
        assert (values["title"], values["description"]) == (fact["title"], fact["description"])
        fact = api.patch(f"/memory_stores/global/facts/{fact['id']}", {"title": title, "description": title}).json()
