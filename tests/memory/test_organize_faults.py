"""Kills, other hands on the same files, full disks, endpoints that fail: nothing is lost, nothing is doubled."""

import errno
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from coffer import fs, paths
from coffer.errors import StorageFailed, StoreNotFound
from memory.files import markdown
from memory.models import Failure, Pass, Store
from memory.services import archive, facts, organize, passes, rules, stores, undo
from tests.cases.steps import foreign_lock
from tests.conftest import Api
from tests.factories import write_files
from tests.fake_llm import FakeLlm, Reply, Request, fail
from tests.memory.librarian import answer, asked, sensible
from tests.nursery import Nursery
from tests.processes import eventually
from tests.rounds import rounds

PORT = "Staging runs on port 8443, not 443."


@pytest.fixture
def store() -> Store:
    return stores.provision("global")


def folder() -> Path:
    return paths.store("global")


def inbox() -> list[Path]:
    return sorted((folder() / "knowledge" / "inbox").glob("*.md"))


def everything() -> str:
    """All that recall or a session could tell: notes, topics and rules."""
    found = [*(folder() / "knowledge").rglob("*.md"), *(folder() / "rules").glob("*.md")]
    return "\n".join(markdown.parse(path.read_bytes()).body for path in found if path.name != "INDEX.md")


def of_all_kinds(request: Request) -> dict[str, Any]:
    """Merges, new topics, rules and answers that are refused, by the number in the note."""
    question = asked(request)
    number = int(re.findall(r"\d+", question.note)[0])
    if number % 4 == 0:
        return answer(question.note, "", is_rule=True)
    if number % 4 == 1:
        return answer("Something else altogether.", f"topic-{number % 3}")
    return sensible(lambda note: f"topic-{number % 3}")(request)


@pytest.mark.hold
@pytest.mark.parametrize("round_", range(rounds(100)))
def test_a_worker_killed_at_any_moment_loses_no_note_and_doubles_none(
    round_: int, store: Store, nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(round_)
    texts = [f"Always count marker{number}x of note {number}." for number in range(12)]
    for text in texts:
        facts.remember(store, text, actor=chance.choice(["agent", "user"]))
    last, wait = chance.randrange(1, 12), chance.random() * 0.04
    killed = threading.Event()
    with FakeLlm() as llm:
        process = nursery.start("organize", folder=tmp_path, **llm.environment)

        def kill() -> None:
            process.kill()
            killed.set()

        def reply(request: Request) -> dict[str, Any]:
            if len(llm.requests) == last:
                threading.Timer(wait, kill).start()
            if len(llm.requests) == len(texts):  # it must not be done before
                killed.wait(60)
            return of_all_kinds(request)

        llm.always(reply)
        process.communicate(timeout=60)
        assert process.returncode == -9
        second = nursery.start("organize", folder=tmp_path, **llm.environment)
        out, error = second.communicate(timeout=60)
    assert out.splitlines()[-1].startswith(("organized", "empty")), error
    told = everything()
    assert {text: told.count(text) for text in texts} == dict.fromkeys(texts, 1)
    assert inbox() == []
    assert archive.open_lines(folder()) == []
    notes = {line.path for line in archive.listing(folder()) if "/inbox/" in line.path}
    assert len(notes) == len(texts)
    assert len(rules.listing(store)) == 3


def test_a_topic_that_a_person_edits_while_the_model_thinks_keeps_the_edit(store: Store, fake_llm: FakeLlm) -> None:
    write_files(folder(), {"knowledge/staging.md": "# Staging\n\nAsk Ann.\n\nNever on Fridays.\n"})
    facts.remember(store, PORT, actor="agent")

    def thinking(request: Request) -> dict[str, Any]:
        said = sensible(lambda _: "staging")(request)
        (folder() / "knowledge" / "staging.md").write_text("# Staging\n\nAsk Ben.\n\nNever on Fridays.\n")
        return said

    fake_llm.answer(thinking)
    assert organize.organize(store).appended == 1
    text = (folder() / "knowledge" / "staging.md").read_text()
    assert "Ask Ben." in text
    assert "Ask Ann." not in text
    assert text.count(PORT) == 1
    kept = [line.path for line in archive.listing(folder())]
    assert "knowledge/staging.md" in kept


def test_a_topic_that_is_deleted_while_the_model_thinks_does_not_come_back(store: Store, fake_llm: FakeLlm) -> None:
    write_files(folder(), {"knowledge/staging.md": "# Staging\n\nAsk Ann.\n"})
    facts.remember(store, PORT, actor="agent")

    def thinking(request: Request) -> dict[str, Any]:
        said = sensible(lambda _: "staging")(request)
        (folder() / "knowledge" / "staging.md").unlink()
        return said

    fake_llm.answer(thinking)
    assert organize.organize(store).drained == 1
    text = (folder() / "knowledge" / "staging.md").read_text()
    assert (PORT in text, "Ask Ann." in text) == (True, False)


@pytest.mark.parametrize("is_rule", [False, True])
def test_a_note_that_is_edited_while_the_model_thinks_waits_for_the_next_pass(
    store: Store, fake_llm: FakeLlm, is_rule: bool
) -> None:
    note = facts.remember(store, PORT, actor="agent")

    def thinking(request: Request) -> dict[str, Any]:
        facts.edit(store, note.id, text="Staging moved to port 9000.")
        return answer(PORT, "staging", is_rule=is_rule)

    fake_llm.answer(thinking)
    result = organize.organize(store)
    assert (result.drained, result.skipped, result.waiting) == (0, 1, 1)
    assert PORT not in everything()
    assert not Failure.objects.exists()
    fake_llm.answer(answer("Staging moved to port 9000.", "staging"))
    assert organize.organize(store).drained == 1


def test_a_note_that_is_deleted_while_the_model_thinks_stays_deleted(store: Store, fake_llm: FakeLlm) -> None:
    note = facts.remember(store, PORT, actor="agent")

    def thinking(request: Request) -> dict[str, Any]:
        facts.delete(store, note.id)
        return answer(PORT, "staging")

    fake_llm.answer(thinking)
    result = organize.organize(store)
    assert (result.drained, result.skipped) == (0, 0)
    assert PORT not in everything()


def test_a_full_disk_replaces_nothing_and_says_so(
    store: Store, fake_llm: FakeLlm, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(folder(), {"knowledge/staging.md": "# Staging\n\nAsk Ann.\n"})
    for text in (PORT, "Staging sleeps at night."):
        facts.remember(store, text, actor="agent")
    before = {path: path.read_bytes() for path in (folder() / "knowledge").rglob("*.md")}
    fake_llm.always(sensible(lambda _: "staging"))
    real = fs.os.open

    def full(path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & os.O_CREAT and "/memory/" in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(fs.os, "open", full)
        told = api.post("/memory_stores/global/organize")
    assert (told.status_code, told.json()["error"]["code"]) == (507, "STORAGE")
    assert "space" in told.json()["error"]["message"]
    assert len(fake_llm.requests) == 1
    assert {path: path.read_bytes() for path in (folder() / "knowledge").rglob("*.md")} == before
    assert "space" in Pass.objects.get().stopped
    assert api.post("/memory_stores/global/organize").json()["drained"] == 2
    assert PORT in everything()


def test_a_write_that_fails_after_the_topic_was_set_aside_puts_it_back(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(folder(), {"knowledge/staging.md": "# Staging\n\nAsk Ann.\n"})
    facts.remember(store, PORT, actor="agent")
    fake_llm.always(sensible(lambda _: "staging"))

    def create(path: Path, data: bytes) -> None:
        raise StorageFailed("No space left to write.")

    with monkeypatch.context() as patch:
        patch.setattr(fs, "create", create)
        with pytest.raises(StorageFailed):
            organize.organize(store)
    assert (folder() / "knowledge" / "staging.md").read_text() == "# Staging\n\nAsk Ann.\n"
    assert len(inbox()) == 1
    assert organize.organize(store).drained == 1


def test_a_key_that_is_revoked_midway_ends_the_pass_and_keeps_the_rest(store: Store, fake_llm: FakeLlm) -> None:
    for number in range(3):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    fake_llm.answer(
        answer("Walrus number 0.", "walrus"), fail(401, message="Incorrect API key: test-key-not-a-real-one")
    )
    result = organize.organize(store)
    assert (result.drained, result.waiting, len(fake_llm.requests)) == (1, 2, 2)
    assert result.stopped is not None
    assert "test-key" not in str(result)
    assert Pass.objects.get().stopped == result.stopped
    assert not Failure.objects.exists()
    fake_llm.always(sensible(lambda _: "walrus"))
    assert organize.organize(store).drained == 2


def test_a_spent_budget_ends_the_pass_with_its_name(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "2")
    fake_llm.always(sensible(lambda _: "walrus"))
    result = organize.organize(store)
    assert (result.status, result.drained, result.waiting) == ("budget", 2, 1)
    assert "00:00 UTC" in (result.stopped or "")


def test_an_endpoint_that_is_away_is_given_up_after_three_notes_and_no_note_is_blamed(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    for number in range(5):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    fake_llm.always(fail(503))
    for _ in range(4):
        result = organize.organize(store)
        assert (result.skipped, result.drained, result.waiting) == (3, 0, 5)
        assert result.stopped
    assert not Failure.objects.exists()


def test_a_note_that_alone_gets_no_answer_is_given_up_in_the_end(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    facts.remember(store, "The poisoned one.", actor="agent")
    fake_llm.always(lambda request: fail(500) if "poisoned" in request.user else answer("A walrus.", "walrus"))
    for _ in range(3):
        facts.remember(store, "A walrus.", actor="agent")
        assert organize.organize(store).skipped == 1
    assert organize.organize(store).left_alone == 1


def test_two_passes_never_overlap(store: Store, fake_llm: FakeLlm, nursery: Nursery, tmp_path: Path) -> None:
    facts.remember(store, PORT, actor="agent")
    go = threading.Event()
    fake_llm.answer(Reply(content=answer(PORT, "staging"), after=go))
    process = nursery.start("organize", folder=tmp_path, **fake_llm.environment)
    eventually(lambda: fake_llm.waiting == 1)
    assert organize.organize(store).status == "busy"
    other = stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert organize.organize(other).status == "empty"
    go.set()
    out, error = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "organized 1", error
    assert len(fake_llm.requests) == 1


def test_while_a_model_thinks_notes_are_saved_and_found_at_once(
    store: Store, fake_llm: FakeLlm, nursery: Nursery, tmp_path: Path
) -> None:
    facts.remember(store, PORT, actor="agent")
    go = threading.Event()
    fake_llm.answer(Reply(content=answer(PORT, "staging"), after=go))
    process = nursery.start("organize", folder=tmp_path, **fake_llm.environment)
    eventually(lambda: fake_llm.waiting == 1)
    saved = facts.remember(store, "Saved meanwhile.", actor="agent")
    assert saved.indexed
    assert facts.get(store, saved.id).text == "Saved meanwhile."
    go.set()
    assert process.communicate(timeout=60)[0].splitlines()[-1] == "organized 1"
    assert [path.name for path in inbox()] == [saved.path.name]


def test_a_database_that_is_locked_holds_up_no_file(store: Store, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")

    def locked(request: Request) -> dict[str, Any]:
        held.set()
        eventually(release.is_set)
        return answer(PORT, "staging")

    held, release = threading.Event(), threading.Event()
    fake_llm.answer(locked)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(_in_thread(store)))
    thread.start()
    eventually(held.is_set)
    with foreign_lock():
        release.set()
        eventually(lambda: not inbox(), 60)
        assert PORT in everything()
    thread.join(60)
    assert results[0].drained == 1
    assert [summary.id for summary in facts.newest([store])[0]] == ["staging"]


def _in_thread(store: Store) -> Any:
    from django.db import connection

    try:
        return organize.organize(store)
    finally:
        connection.close()


def test_a_store_that_is_retired_meanwhile_ends_the_pass(fake_llm: FakeLlm) -> None:
    project = stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    facts.remember(project, PORT, actor="agent")

    def thinking(request: Request) -> dict[str, Any]:
        stores.retire(project)
        return answer(PORT, "staging")

    fake_llm.answer(thinking)
    with pytest.raises(StoreNotFound):
        organize.organize(project)
    assert not stores.folder(project).exists()
    (retired,) = paths.retired().iterdir()
    assert PORT in next((retired / "knowledge" / "inbox").iterdir()).read_text()


def test_a_pass_that_is_interrupted_says_so_and_the_next_goes_on(store: Store, fake_llm: FakeLlm) -> None:
    for number in range(2):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    fake_llm.always(sensible(lambda _: "walrus"))

    def interrupt(done: int, total: int, title: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        organize.organize(store, progress=interrupt)
    assert Pass.objects.get().stopped
    assert organize.organize(store).drained == 1


def test_a_pass_that_was_killed_is_told_of_and_can_be_undone(store: Store, nursery: Nursery, tmp_path: Path) -> None:
    for number in range(4):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    third, killed = threading.Event(), threading.Event()

    def reply(request: Request) -> dict[str, Any]:
        if len(llm.requests) == 3:
            third.set()
            killed.wait(60)
        return sensible(lambda _: "walrus")(request)

    with FakeLlm() as llm:
        llm.always(reply)
        process = nursery.start("organize", folder=tmp_path, **llm.environment)
        assert third.wait(60)
        seen = passes.overview(store)
        assert (seen.running, seen.undoable) == (True, [])
        process.kill()
        process.communicate(timeout=60)
        killed.set()
    seen = passes.overview(store)
    assert (seen.running, seen.done, len(seen.undoable)) == (False, "2 filed", 1)
    assert any(passes.INTERRUPTED in finding.message for finding in passes.findings())
    assert undo.undo_last(store)[1].notes == 2
    assert len(inbox()) == 4
