"""What models and endpoints answer, and what must not come of it.

BC-135 and BC-136: reorganizing, merging stores and sweeping sessions are added with those. BC-136: after 401 the pass
ends, so that item 3 waits as well; a certificate that is not trusted and a port where nobody listens do not begin in
the middle of a pass, they are added with connections.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coffer import paths
from coffer.models import AuditEntry, LlmCall
from memory.files import markdown
from memory.models import Failure, Pass
from memory.services import archive
from tests.cases.steps import INPUTS, call, coffer, drop, fingerprint, hits
from tests.conftest import Api
from tests.fake_llm import KEY, FakeLlm, Reply, closes, fail, hung, raw
from tests.memory.librarian import answer, sensible

SLUGS = [
    "../../rules/rules", "../escape", "/etc/cron.d/x", "a/b", "..", "", "INDEX", "index", "inbox", ".hidden", "CON",
    "a\0b", "ä/ö", "x" * 300, "x.md", "%2e%2e%2fx",
]  # fmt: skip


def organize(api: Api, store: str = "global") -> dict[str, Any]:
    told = api.post(f"/memory_stores/{store}/organize")
    assert told.status_code == 200, told.content
    found: dict[str, Any] = told.json()
    return found


def knowledge() -> Path:
    return paths.store("global") / "knowledge"


@pytest.mark.parametrize("slug", SLUGS)
def test_bc_135_a_slug_that_is_no_plain_name_writes_nothing(
    slug: str, fake_llm: FakeLlm, api: Api, tmp_path: Path
) -> None:
    drop("rules/rules.md", "- A rule.\n")
    drop("knowledge/deploy.md", "# Deploy\n\nBy hand.\n")
    call("remember", None, text="The walrus build takes 30 minutes.", scope="global")
    before = fingerprint(paths.memory())
    fake_llm.answer(answer("The walrus build takes 30 minutes.", slug, topic_title="Walrus"))
    told = organize(api)
    assert (told["skipped"], told["drained"], told["waiting"]) == (1, 0, 1)
    assert fingerprint(paths.memory()) == before
    assert not list(tmp_path.rglob("escape*"))


def test_bc_135_an_existing_topic_is_not_replaced_by_one_of_its_name(fake_llm: FakeLlm, api: Api) -> None:
    drop("knowledge/deploy.md", "---\ntitle: Deploy\n---\n\nBy hand, about something else.\n")
    call("remember", None, text="The walrus build takes 30 minutes.", scope="global")
    title = "Deploy\n- [x](y.md)](http://evil)"
    fake_llm.answer(answer("The walrus build takes 30 minutes.", "deploy", topic_title=title, action="create"))
    assert organize(api)["drained"] == 1
    page = markdown.parse((knowledge() / "deploy.md").read_bytes())
    assert page.meta["title"] == "Deploy"
    assert page.body.startswith("By hand, about something else.\n")
    assert page.body.endswith("The walrus build takes 30 minutes.")
    call("remember", None, text="The okapi queue is drained at night.", scope="global")
    fake_llm.answer(answer("The okapi queue is drained at night.", "queue", topic_title=title))
    assert organize(api)["topics_created"] == 1
    assert len((knowledge() / "INDEX.md").read_text().splitlines()) == 2


FAILURES: dict[str, Callable[[], Any]] = {
    "500": lambda: fail(500, message=f"key {KEY} broke"),
    "429 with Retry-After": lambda: fail(429, retry_after=3600),
    "no answer in time": hung,
    "hangs up": closes,
    "HTML": lambda: raw(b"<!doctype html><h1>Welcome</h1>", content_type="text/html"),
    "stream cut": lambda: raw(b'data: {"choices":[{"index":0,"delta":{"content":"{\\"topic_sl'),
    "finish_reason length": lambda: Reply(content='{"topic_slug": "walrus", "mark', finish="length"),
    "no choices": lambda: raw(b'{"choices": []}'),
    "empty content": lambda: Reply(content=""),
    "not JSON": lambda: Reply(content="There are no facts."),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_bc_136_a_call_that_fails_is_no_answer(
    kind: str, fake_llm: FakeLlm, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    monkeypatch.setenv("COFFER_LLM_TIMEOUT", "1")
    ids = [call("remember", None, text=f"Walrus fact {word}.", scope="global")["id"] for word in ("A", "B", "C")]
    good = sensible(lambda _: "walrus")
    fake_llm.answer(good, FAILURES[kind](), good)
    told = organize(api)
    assert (told["drained"], told["skipped"], told["waiting"]) == (2, 1, 1)
    assert told["problems"][0]["id"] == ids[1]
    assert KEY not in json.dumps(told)
    text = (knowledge() / "walrus.md").read_text()
    assert ("Walrus fact A." in text, "Walrus fact B." in text, "Walrus fact C." in text) == (True, False, True)
    assert hits("Walrus fact B")[0] in (ids[1], "walrus")
    fake_llm.answer(good)
    assert organize(api)["drained"] == 1
    assert "Walrus fact B." in (knowledge() / "walrus.md").read_text()


def test_bc_136_a_failing_note_is_tried_again_and_not_for_ever(fake_llm: FakeLlm, api: Api) -> None:
    call("remember", None, text="Walrus fact.", scope="global")
    fake_llm.always("There are no facts.")
    assert [organize(api)["skipped"] for _ in range(5)] == [1, 1, 1, 0, 0]
    assert len(fake_llm.requests) == 3


def test_bc_136_a_refused_key_ends_the_pass_and_is_in_no_message(fake_llm: FakeLlm, api: Api) -> None:
    for word in ("A", "B", "C"):
        call("remember", None, text=f"Walrus fact {word}.", scope="global")
    fake_llm.answer(sensible(lambda _: "walrus"), fail(401, message=f"Incorrect API key provided: {KEY}"))
    told = organize(api)
    assert (told["drained"], told["waiting"]) == (1, 2)
    assert told["stopped"]
    rows = [str(vars(row)) for model in (AuditEntry, Failure, LlmCall, Pass) for row in model.objects.all()]
    assert KEY not in json.dumps(told) + "".join(rows)


def test_bc_136_a_port_where_nobody_listens_leaves_every_note(
    api: Api, monkeypatch: pytest.MonkeyPatch, fake_llm: FakeLlm
) -> None:
    fake_llm.close()
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    for word in ("A", "B", "C", "D"):
        call("remember", None, text=f"Walrus fact {word}.", scope="global")
    told = organize(api)
    assert (told["drained"], told["skipped"], told["waiting"]) == (0, 3, 4)
    assert "reached" in told["stopped"]
    assert not Failure.objects.exists()


def test_bc_016_a_block_in_an_answer_does_not_become_a_second_one(fake_llm: FakeLlm, api: Api) -> None:
    for file in sorted((INPUTS / "BC-016").glob("*.md")):
        drop(f"knowledge/{file.name}", file.read_bytes())
        drop(f"knowledge/inbox/{file.name}", file.read_bytes())
    call("remember", None, text="The walrus build takes 30 minutes.", scope="global")
    fake_llm.always(lambda request: answer(f"---\ntitle: Mine\nname: x\n---\n\n{request.user}", "walrus"))
    told = organize(api)
    assert told["drained"] == 3
    text = (knowledge() / "walrus.md").read_text()
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert "title: Mine" not in head
    assert not body.lstrip().startswith("---")
    assert "30 minutes" in body


def test_bc_047_a_secret_goes_out_masked_and_comes_back_whole(fake_llm: FakeLlm, api: Api) -> None:
    secret = "FAKE-hunter2-9x"
    api.post("/memory_stores/global/facts", {"text": f"The staging db password is {secret}"})
    fake_llm.always(sensible(lambda _: "staging"))
    assert organize(api)["drained"] == 1
    assert secret not in fake_llm.requests[0].user
    assert secret in (knowledge() / "staging.md").read_text()
    rows = [str(vars(row)) for model in (AuditEntry, Failure, LlmCall, Pass) for row in model.objects.all()]
    assert secret.lower() not in "".join(rows).lower()
    assert secret not in (paths.store("global") / "consolidation-log.md").read_text()
    assert api.delete("/memory_stores/global/facts/staging?forever=true").status_code == 204
    left = [path for path in paths.home().rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert left == []


def test_bc_105_organizing_on_a_full_disk_says_so_and_changes_nothing(fake_llm: FakeLlm, api: Api) -> None:
    drop("knowledge/walrus.md", "# Walrus\n\n" + "An old line of the walrus.\n" * 400)
    text = "The walrus build takes 30 minutes."
    call("remember", None, text=text, scope="global")
    fake_llm.always(sensible(lambda _: "walrus"))
    before = fingerprint(knowledge())
    # No bytecode: Python would keep what it wrote up to the limit.
    limited = ["bash", "-c", 'ulimit -f 8; PYTHONDONTWRITEBYTECODE=1 exec "$0" "$@"']
    done = coffer("organize", "global", before=limited, **fake_llm.environment)
    assert done.returncode == 1
    assert "space" in done.stderr + done.stdout
    assert fingerprint(knowledge()) == before
    assert not [path for path in paths.memory().rglob("*") if path.name.endswith(".tmp") or path.stat().st_size == 0]
    assert organize(api)["drained"] == 1
    assert (knowledge() / "walrus.md").read_text().rstrip().endswith(text)


def test_bc_121_copies_of_a_note_are_organized_one_by_one(fake_llm: FakeLlm, api: Api) -> None:
    saved = Path(call("remember", None, text="The walrus build takes 30 minutes.", scope="global")["path"])
    for name in ("a (1).md", "a 2.md", "a.sync-conflict-20260901-101500-ABCDEFG.md"):
        saved.with_name(name).write_bytes(saved.read_bytes())
    saved.with_name("._a.md").write_bytes(b"\0\1binary")
    drop("knowledge/a.md", saved.read_bytes())
    fake_llm.always(sensible(lambda _: "walrus"))
    assert organize(api)["drained"] == 4
    assert [path.name for path in (knowledge() / "inbox").iterdir()] == ["._a.md"]
    assert len([line for line in archive.listing(paths.store("global")) if "/inbox/" in line.path]) == 4
    assert "The walrus build" in (knowledge() / "walrus.md").read_text()


def test_bc_093_changelog_and_topic_tell_their_time_in_utc(fake_llm: FakeLlm) -> None:
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        call("remember", None, text=f"Said in {zone}.", scope="global")
        fake_llm.answer(answer(f"Said in {zone}.", "zones"))
        done = coffer("organize", "global", TZ=zone, **fake_llm.environment)
        assert done.returncode == 0, done.stderr
    log = (paths.store("global") / "consolidation-log.md").read_text().splitlines()
    stamps = [line.split()[1] for line in log]
    assert stamps == sorted(stamps)
    assert all(stamp.endswith("Z") for stamp in stamps)
    page = markdown.parse((knowledge() / "zones.md").read_bytes())
    day = page.meta["updated_at"][:10]
    assert f"## {day}" in page.body
