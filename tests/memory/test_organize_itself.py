"""Organizing by itself: armed by writes, fired when a store is quiet, never felt by a writer."""

import os
import time
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from coffer import db, later, paths, registry
from memory import jobs, schedule
from memory.models import Pass, Store
from memory.services import facts, journal, quiet, stores
from tests.cases.steps import foreign_lock
from tests.conftest import Api
from tests.fake_llm import FakeLlm, fail
from tests.memory.librarian import answer, sensible
from tests.processes import Machine, eventually

PORT = "Staging runs on port 8443, not 443."


@pytest.fixture
def store() -> Store:
    return stores.provision("global")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is quiet after a second; and files that tests have just written are older than that."""
    monkeypatch.setenv("COFFER_ORGANIZE_IDLE", "1")
    monkeypatch.setattr(quiet, "_seconds_since_last_write", lambda store: 2.0)


def rows() -> list[Schedule]:
    later.flush()
    return list(Schedule.objects.filter(func=schedule.IDLE_JOB))


def due_in(row: Schedule) -> float:
    return float((row.next_run - timezone.now()).total_seconds())


@pytest.mark.acceptance(spec="007-memory", scenario="memory is auto-organized after the store goes idle")
def test_a_quiet_store_is_organized_by_the_daemons_workers(machine: Machine) -> None:
    with FakeLlm() as llm:
        llm.always(sensible(lambda _: "staging"))
        machine.env |= {**llm.environment, "COFFER_ORGANIZE_IDLE": "1"}
        machine.up()
        assert machine.coffer("memory", "add", "global", PORT).returncode == 0
        inbox = machine.home / "memory" / "global" / "knowledge" / "inbox"
        eventually(lambda: not list(inbox.glob("*.md")), 120)
        assert PORT in (machine.home / "memory" / "global" / "knowledge" / "staging.md").read_text()
        machine.env["COFFER_ORGANIZE_IDLE"] = "3600"
        assert machine.coffer("memory", "add", "global", "Another fact.").returncode == 0
        assert machine.coffer("down").returncode == 0
        assert len(list(inbox.glob("*.md"))) == 1
        eventually(lambda: Pass.objects.filter(status="organized", actor="engine").exists())
        logs = "".join(path.read_text() for path in (machine.home / "logs").iterdir())
        assert llm.base_url not in logs


def test_many_writes_arm_one_row_per_store(store: Store) -> None:
    project = stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    for number in range(5):
        facts.remember(store, f"Fact {number}.", actor="agent")
        journal.append(project, f"Entry {number}.", agent="claude_code")
    found = {row.name: row for row in rows()}
    assert set(found) == {"organize global", f"organize {project.name}"}
    assert 250 < due_in(found["organize global"]) <= 300
    assert found["organize global"].schedule_type == Schedule.ONCE


def test_an_arming_that_is_due_later_gives_way_to_nothing_but_the_job(store: Store) -> None:
    schedule.arm("global", 5)
    (row,) = rows()
    schedule.arm("global", 500)
    (moved,) = rows()
    assert row.pk == moved.pk
    assert due_in(moved) > 400


@pytest.mark.parametrize(("name", "value"), [("COFFER_ORGANIZE", "0"), ("COFFER_ORGANIZE", "rubbish")])
def test_switched_off_or_misconfigured_a_write_arms_nothing_and_succeeds(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert facts.remember(store, PORT, actor="agent").indexed
    assert rows() == []


def test_switched_off_the_job_does_nothing(
    store: Store, quick: None, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts.remember(store, PORT, actor="agent")
    monkeypatch.setenv("COFFER_ORGANIZE", "0")
    assert jobs.organize_when_idle("global") == "off"
    assert fake_llm.requests == []


def test_a_locked_database_neither_fails_nor_delays_a_write(store: Store) -> None:
    facts.remember(store, "Before.", actor="agent")
    with foreign_lock():
        started = time.monotonic()
        schedule.arm("global", 1)
        assert time.monotonic() - started < 0.2


def test_the_job_waits_while_somebody_writes(store: Store, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    assert jobs.organize_when_idle("global") == "not idle"
    assert fake_llm.requests == []
    assert 250 < due_in(rows()[0]) <= 300


def test_a_file_from_the_future_does_not_put_it_off_for_ever(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = facts.remember(store, PORT, actor="agent")
    future = time.time() + 10 * 365 * 86400
    os.utime(note.path, (future, future))
    changed = note.path.stat().st_ctime
    fake_llm.answer(answer(PORT, "staging"))
    monkeypatch.setattr(quiet.time, "time", lambda: changed + 301)
    assert jobs.organize_when_idle("global") == "organized"


def test_a_clock_that_was_set_back_does_not_stop_it(
    store: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = facts.remember(store, PORT, actor="agent")
    fake_llm.answer(answer(PORT, "staging"))
    monkeypatch.setattr(quiet.time, "time", lambda: note.path.stat().st_ctime - 86400 if note.path.exists() else 0.0)
    assert jobs.organize_when_idle("global") == "organized"


def test_without_a_model_it_is_a_no_op_that_does_not_come_back(store: Store, quick: None) -> None:
    facts.remember(store, PORT, actor="agent")
    Schedule.objects.all().delete()
    later.flush()
    Schedule.objects.all().delete()
    assert jobs.organize_when_idle("global") == "no_model"
    assert rows() == []


def test_what_failed_is_tried_again_an_hour_later(store: Store, quick: None, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    fake_llm.answer("no JSON")
    assert jobs.organize_when_idle("global") == "organized"
    assert 3500 < due_in(rows()[0]) <= 3600


def test_after_a_spent_budget_the_next_day_goes_on(
    store: Store, quick: None, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts.remember(store, PORT, actor="agent")
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "0")
    assert jobs.organize_when_idle("global") == "budget"
    (row,) = rows()
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert abs(row.next_run - midnight - timedelta(minutes=1)) < timedelta(seconds=1)


def test_a_long_pass_lets_others_have_the_worker_and_comes_back(
    store: Store, quick: None, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        facts.remember(store, f"Walrus number {number}.", actor="agent")
    monkeypatch.setattr(quiet, "SLICE", 0.0)
    fake_llm.always(sensible(lambda _: "walrus"))
    assert jobs.organize_when_idle("global") == "organized"
    assert len(list((paths.store("global") / "knowledge" / "inbox").iterdir())) == 2
    assert due_in(rows()[0]) <= 1


def test_a_failure_in_the_background_is_logged_without_content(
    store: Store, quick: None, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    facts.remember(store, PORT, actor="agent")

    def broken(*_: object, **__: object) -> None:
        raise ValueError(PORT)

    monkeypatch.setattr(quiet.organize, "organize", broken)
    assert jobs.organize_when_idle("global") == "failed"
    assert jobs.organize("project-01ARZ3NDEKTSV4RRFFQ69G5FAV") == "MEMORY_STORE_NOT_FOUND"
    assert "ValueError" in caplog.text
    assert PORT not in caplog.text


def test_a_pass_that_ended_early_is_seen_in_the_health_of_the_machine(store: Store, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    fake_llm.answer(fail(401))
    jobs.organize("global")
    found = [one for one in registry.health() if one.subject == "organizer"]
    assert [one.level for one in found] == ["warning"]
    assert "ended early" in found[0].message
    fake_llm.answer("no", "no", "no")
    for _ in range(3):
        jobs.organize("global")
    found = [one for one in registry.health() if one.subject == "organizer"]
    assert [one.message for one in found] == [
        "1 note that failed or was taken back is left in the inbox; the pages name them, --again tries them."
    ]


def test_a_queued_pass_names_its_job_and_runs(store: Store, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    fake_llm.answer(answer(PORT, "staging"))
    schedule.queue("global", "agent")
    task = OrmQ.objects.get().task
    assert (task["func"], task["args"]) == ("memory.jobs.organize", ("global", "agent"))
    assert jobs.organize(*task["args"]) == "organized"
    assert Pass.objects.get().actor == "agent"


def test_a_pass_itself_arms_nothing(store: Store, quick: None, fake_llm: FakeLlm) -> None:
    facts.remember(store, PORT, actor="agent")
    later.flush()
    Schedule.objects.all().delete()
    fake_llm.answer(answer(PORT, "staging"))
    assert jobs.organize("global") == "organized"
    assert rows() == []
    assert Path(paths.store("global") / "knowledge" / "staging.md").exists()


def test_after_a_lost_database_what_waits_is_armed_again(store: Store) -> None:
    facts.remember(store, PORT, actor="agent")
    stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    later.flush()
    Schedule.objects.all().delete()
    db.recover()
    assert [row.name for row in rows()] == ["organize global"]


@pytest.fixture
def waiting(store: Store) -> Store:
    """A store with a note that waits, which nothing has armed."""
    facts.remember(store, PORT, actor="agent")
    later.flush()
    Schedule.objects.all().delete()
    schedule.reset()
    return store


def test_what_waited_before_a_model_was_connected_is_armed_when_it_is(waiting: Store, api: Api) -> None:
    stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    call_command("engine", "set", "--base-url", "https://llm.example/v1", "--model", "m", "--no-key", stdout=StringIO())
    assert rows() == []  # nobody has allowed it yet
    call_command("engine", "set", "--allow", "organize", stdout=StringIO())
    (row,) = rows()
    assert (row.name, 250 < due_in(row) <= 300) == ("organize global", True)
    row.delete()
    found = api.get("/llm_connections").json()["llm_connections"][0]
    assert api.patch(f"/llm_connections/{found['id']}", {"model": "n"}).status_code == 200
    assert [row.name for row in rows()] == ["organize global"]


def test_a_model_of_the_environment_is_found_by_the_workers_when_they_start_and_every_hour(
    waiting: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.recurring()["organize what waits"] == "memory.jobs.arm_unfiled"
    assert (jobs.arm_unfiled(), rows()) == ("0 stores armed", [])
    (paths.home() / "config.env").write_text("COFFER_LLM_BASE_URL=http://127.0.0.1:9/v1\nCOFFER_LLM_MODEL=m\n")
    assert jobs.arm_unfiled() == "1 stores armed"
    assert [row.name for row in rows()] == ["organize global"]


def test_an_appointment_stays_and_what_was_given_up_is_not_asked_about_every_hour(
    waiting: Store, fake_llm: FakeLlm
) -> None:
    schedule.arm("global", 20_000)
    assert due_in(rows()[0]) > 19_000
    assert jobs.arm_unfiled() == "0 stores armed"
    Schedule.objects.all().delete()
    fake_llm.answer("no", "no", "no")
    for _ in range(3):
        jobs.organize("global")
    later.flush()
    Schedule.objects.all().delete()
    assert (jobs.arm_unfiled(), rows(), Pass.objects.count()) == ("0 stores armed", [], 3)


def test_switched_off_connecting_arms_nothing(
    waiting: Store, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in ("0", "rubbish"):
        monkeypatch.setenv("COFFER_ORGANIZE", value)
        assert (jobs.arm_unfiled(), rows()) == ("0 stores armed", [])


def test_a_store_that_cannot_be_looked_at_does_not_keep_a_connection_from_being_saved(
    waiting: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(PORT)

    monkeypatch.setattr(quiet.inbox, "waiting", broken)
    call_command("engine", "set", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--no-key", stdout=StringIO())
    assert ("ValueError" in caplog.text, PORT in caplog.text) == (True, False)
