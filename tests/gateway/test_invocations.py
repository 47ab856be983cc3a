"""Running a call: beside others, with a row, and never with somebody's words in log, row or answer."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import DatabaseError, OperationalError, connection

from coffer import db, later
from coffer.errors import CofferError, Rejected
from gateway import invocations
from gateway.caller import Caller
from gateway.models import Invocation
from gateway.tools import Answer, Tool

CALLER = Caller("/work", "codex", "session-1")


def tool(run: Callable[..., Answer], name: str = "coffer__probe") -> Tool:
    return Tool(name, "Probe", "For tests.", {}, run, read_only=True, idempotent=True)


def call(run: Callable[..., Answer]) -> Answer:
    return asyncio.run(invocations.run(tool(run), CALLER, {}))


def row() -> Invocation:
    assert later.flush()
    return Invocation.objects.get()


def fails(error: Exception) -> Callable[[Caller], Answer]:
    def run(caller: Caller) -> Answer:
        raise error

    return run


def test_a_call_leaves_one_row_with_who_when_and_how_it_went() -> None:
    answer = call(lambda caller: Answer({"hits": ["a secret thing"]}, 3, "project-x"))

    assert answer.content == {"hits": ["a secret thing"]}
    found = row()
    assert (found.tool, found.agent, found.session) == ("coffer__probe", "codex", "session-1")
    assert (found.project, found.outcome, found.items) == ("project-x", "ok", 3)


def test_a_domain_error_keeps_its_text_and_names_the_outcome() -> None:
    with pytest.raises(Rejected, match="The text is empty"):
        call(fails(Rejected("The text is empty.")))
    assert row().outcome == "MEMORY_REJECTED"


def test_an_unexpected_error_tells_nothing_but_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(CofferError) as caught:
        call(fails(ValueError("the password is hunter22")))

    assert "hunter22" not in str(caught.value)
    assert "hunter22" not in caplog.text
    assert "ValueError at test_invocations.py:" in caplog.text
    assert row().outcome == "INTERNAL"


def test_a_locked_database_is_told_in_words_that_help() -> None:
    with pytest.raises(CofferError) as caught:
        call(fails(OperationalError("database is locked")))
    assert caught.value.code == "BUSY"
    assert "locked" not in str(caught.value)
    assert "try again" in str(caught.value)


def test_a_slow_call_does_not_hold_up_quick_ones() -> None:
    release = threading.Event()

    def slow(caller: Caller) -> Answer:
        return Answer({"released": release.wait(timeout=20)}, 0)

    async def both() -> tuple[int, Answer]:
        waiting = [asyncio.create_task(invocations.run(tool(slow), CALLER, {})) for _ in range(8)]
        quick = [await invocations.run(tool(lambda caller: Answer({}, 0)), CALLER, {}) for _ in range(20)]
        release.set()
        return len(quick), (await asyncio.gather(*waiting))[0]

    assert asyncio.run(both()) == (20, Answer({"released": True}, 0))


def test_a_caller_that_left_has_still_called() -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(caller: Caller) -> Answer:
        entered.set()
        release.wait(timeout=20)
        return Answer({}, 1)

    async def leave() -> None:
        task = asyncio.create_task(invocations.run(tool(slow), CALLER, {}))
        await asyncio.to_thread(entered.wait, 20)
        task.cancel()
        release.set()

    asyncio.run(leave())
    deadline = threading.Event()
    for _ in range(400):
        if later.flush() and Invocation.objects.exists():
            break
        deadline.wait(0.025)
    assert row().items == 1


def test_a_damaged_database_is_rebuilt_and_the_call_made_again(home: Path) -> None:
    def count(caller: Caller) -> Answer:
        return Answer({"rows": Invocation.objects.count()}, 0)

    call(count)
    assert later.flush()
    connection.close()
    (home / "coffer.sqlite3").write_bytes(b"this was a database once" * 500)
    for leftover in ("-wal", "-shm"):
        (home / f"coffer.sqlite3{leftover}").unlink(missing_ok=True)

    assert call(count).content == {"rows": 0}
    assert list((home / "backups").glob("damaged-*"))


def test_a_database_that_vanished_comes_back(home: Path) -> None:
    def count(caller: Caller) -> Answer:
        return Answer({"rows": Invocation.objects.count()}, 0)

    call(count)
    assert later.flush()
    for file in home.glob("coffer.sqlite3*"):
        file.unlink()

    assert call(count).content == {"rows": 0}


def test_a_second_failure_is_reported_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, recovered = [], []
    monkeypatch.setattr(db, "recover", lambda: recovered.append(1))

    def broken(caller: Caller) -> Answer:
        calls.append(1)
        raise DatabaseError("database disk image is malformed")

    with pytest.raises(CofferError) as caught:
        call(broken)
    assert caught.value.code == "INTERNAL"
    assert (len(calls), len(recovered)) == (2, 1)


def test_a_row_that_meets_a_lock_delays_no_answer(home: Path) -> None:
    other = sqlite3.connect(home / "coffer.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert call(lambda caller: Answer({}, 0)).content == {}
        assert not later.flush(0.2)
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert later.flush(20)
    assert Invocation.objects.count() == 1
