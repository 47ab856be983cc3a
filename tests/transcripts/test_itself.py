"""Sessions that are distilled by themselves: the sweep, the end of a session, the past in the background."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from agents.models import Delivery
from agents.services import registration
from coffer import fs, later
from memory.models import Store
from memory.services import journal, stores
from tests.cases.steps import foreign_lock, within
from tests.conftest import Api
from tests.fake_llm import FakeLlm, fail
from tests.processes import Machine, eventually, machine  # noqa: F401
from tests.transcripts import conversations as talk
from tests.transcripts.conversations import identity, insight, insights, one_of_each_turn, shown
from transcripts import jobs
from transcripts.models import Distilled, Sweep
from transcripts.services import backfill, batch, health, ledger, session_end


@pytest.fixture(autouse=True)
def _known() -> None:
    registration.add("claude_code")


def swept() -> Sweep:
    assert jobs.sweep() in ("swept", "stopped")
    later.flush()
    found = Sweep.objects.first()
    assert found is not None
    return found


def store_of(repo: Path) -> Store:
    return stores.get(stores.locate(str(repo)).project.store)  # type: ignore[union-attr]


def end(api: Api, session: str, cwd: str = "", agent: str = "claude_code") -> str:
    answer = api.post(f"/agents/{agent}/sessions/{session}/end", {"cwd": cwd})
    assert answer.status_code == 200, answer.content
    return str(answer.json()["outcome"])


def test_a_sweep_takes_what_has_settled_lately_newest_first(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_DISTILL_PER_PASS", "2")
    fake_llm.always(one_of_each_turn)
    ages = [timedelta(minutes=5), timedelta(hours=1), timedelta(days=1), timedelta(days=2), timedelta(days=8)]
    for number, age in enumerate(ages):
        talk.claude(repo, f"question {number}", f"answer {number}", session=identity(number), ago=age)
    row = swept()
    assert (row.distilled, row.insights, row.remaining, row.stopped) == (2, 4, 1, "")
    assert [shown(one).partition("\n")[0] for one in fake_llm.requests] == ["User: question 1", "User: question 2"]
    row = swept()
    assert (row.distilled, row.remaining) == (1, 0)
    assert swept().distilled == 0
    assert len(fake_llm.requests) == 3
    assert set(Distilled.objects.values_list("session_id", flat=True)) == {identity(number) for number in (1, 2, 3)}


def test_a_sweep_tells_each_agent_s_ledger_that_it_was_captured(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always(insights(insight("Seen")))
    talk.claude(repo, "question", "answer")
    swept()
    later.flush()
    row = Delivery.objects.get(event="Sweep")
    assert (row.agent, row.session, row.outcome, row.items) == ("claude_code", identity(1), "distilled", 1)
    assert row.project == store_of(repo).name


def test_agents_that_nobody_registered_are_not_swept(repo: Path, fake_llm: FakeLlm) -> None:
    talk.codex(repo, "question", "answer")
    swept()
    assert fake_llm.requests == []


def test_a_sweep_can_be_switched_off_and_needs_a_model(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.claude(repo, "question", "answer")
    monkeypatch.setenv("COFFER_DISTILL", "0")
    assert jobs.sweep() == "off"
    monkeypatch.setenv("COFFER_DISTILL", "1")
    monkeypatch.setenv("COFFER_LLM_ALLOW", "organize")
    assert jobs.sweep() == "no_model"
    monkeypatch.setenv("COFFER_DISTILL_SETTLED", "soon")
    assert jobs.sweep() == "CONFIG_INVALID"
    assert (fake_llm.requests, Sweep.objects.count()) == ([], 0)


def test_one_that_failed_is_left_alone_until_its_time_comes(repo: Path, fake_llm: FakeLlm) -> None:
    fake_llm.always("nonsense")
    talk.claude(repo, "question", "answer")
    assert swept().failed == 1
    assert swept().failed == 0
    Distilled.objects.update(next_try_at=timezone.now() - timedelta(seconds=1))
    assert swept().failed == 1
    assert len(fake_llm.requests) == 2


def test_a_day_without_an_endpoint_loses_nothing(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    fake_llm.always(fail(503))
    for number in range(8):
        talk.claude(repo, f"question {number}", "answer", session=identity(number), ago=timedelta(hours=number + 1))
    for _ in range(24):
        row = swept()
        assert row.stopped
        assert (row.distilled, row.failed, row.remaining) == (0, 0, 8)
    assert len(fake_llm.requests) == 24 * batch.OUTAGE
    assert [one.level for one in health.findings()] == ["warning"]
    fake_llm.always(insights(insight("It is back")))
    assert (swept().distilled, Sweep.objects.first().remaining) == (1, 0)  # type: ignore[union-attr]
    assert Distilled.objects.filter(mark="").count() == 0
    assert [one.level for one in health.findings()] == ["ok"]


def test_health_says_how_it_stands(repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [one.message for one in health.findings()] == ["no sweep has looked for settled ones yet"]
    fake_llm.always("nonsense")
    talk.claude(repo, "question", "answer")
    jobs.sweep()
    Distilled.objects.update(failures=ledger.GIVEN_UP)
    later.flush()
    assert [one.message for one in health.findings()] == [
        "0 distilled by the last sweep, 0 wait",
        "1 session is given up after failing; the admin's list of them can try again.",
    ]
    monkeypatch.setenv("COFFER_DISTILL", "0")
    assert "COFFER_DISTILL is off" in next(health.findings()).message
    monkeypatch.setenv("COFFER_DISTILL", "maybe")
    assert next(health.findings()).level == "warning"


@pytest.mark.acceptance(spec="007-memory", scenario="session-end distils the closed session into the journal")
def test_the_end_of_a_session_is_answered_at_once_and_distilled_once(repo: Path, fake_llm: FakeLlm, api: Api) -> None:
    fake_llm.always(insights(insight("The cache lives ten minutes")))
    talk.claude(repo, "how long does the cache live", "ten minutes", ago=timedelta(seconds=1))
    assert end(api, identity(1), str(repo)) == "queued"
    assert fake_llm.requests == []
    later.flush()
    (queued,) = OrmQ.objects.all()
    assert (queued.task["func"], queued.task["args"]) == (session_end.JOB, ("claude_code", identity(1)))
    assert jobs.distill_session(*queued.task["args"]) == "distilled"
    (entry,) = journal.recent(store_of(repo), 9)
    assert entry.text.startswith("The cache lives ten minutes.")
    assert end(api, identity(1), str(repo)) == "already_distilled"
    assert jobs.distill_session("claude_code", identity(1)) == "done"
    assert swept().distilled == 0
    assert len(fake_llm.requests) == 1
    later.flush()
    assert {row.outcome for row in Delivery.objects.filter(event="SessionEnd")} == {"queued", "already_distilled"}


def test_the_end_of_a_session_comes_to_what_there_is(
    repo: Path, fake_llm: FakeLlm, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert end(api, identity(1), str(repo)) == "not_found"
    talk.claude(repo, "question", "answer")
    assert end(api, identity(1), str(tmp_path)) == "skipped"
    assert end(api, identity(1)) == "queued"
    assert end(api, "..%5C..%5Cetc", str(repo)) == "not_found"
    assert api.post("/agents/claude_code/sessions/..%2F..%2Fetc/end", {}).status_code == 404
    assert end(api, identity(1), str(repo), agent="cursor") == "skipped"
    assert api.post("/agents/nobody/sessions/x/end", {}).json()["error"]["code"] == "UNSUPPORTED_AGENT_TYPE"
    monkeypatch.setenv("COFFER_DISTILL", "0")
    assert end(api, identity(1), str(repo)) == "skipped"
    monkeypatch.delenv("COFFER_DISTILL")
    for name in fake_llm.environment:
        monkeypatch.delenv(name)
    assert end(api, identity(1), str(repo)) == "no_model"


def test_the_end_of_a_session_waits_for_nobody(
    repo: Path, fake_llm: FakeLlm, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.claude(repo, "question", "answer")
    with monkeypatch.context() as little:
        little.setattr(session_end, "ROOM", 10)
        assert end(api, identity(1), str(repo)) == "queued", "too much to read now"
    with fs.locked("sessions-claude_code.lock"), within(3.0):
        assert end(api, identity(1), str(repo)) == "queued"
    end(api, identity(1), str(repo))
    with foreign_lock(), within(4.0):
        assert end(api, identity(1), str(repo)) == "queued"


def test_jobs_never_raise_and_say_no_word_of_a_session(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs.distill_session("claude_code", "nobody") == "TRANSCRIPT_SESSION_NOT_FOUND"
    assert jobs.distill_session("nobody", "x") == "UNSUPPORTED_AGENT_TYPE"
    assert jobs.distill_past(["nobody"]) == "UNSUPPORTED_AGENT_TYPE"

    def breaks(*_: object, **__: object) -> None:
        raise ValueError("CANARY")

    monkeypatch.setattr(batch, "chosen", breaks)
    assert jobs.distill_session("claude_code", "x") == jobs.distill_past(["claude_code"]) == jobs.sweep() == "failed"


def test_the_past_is_distilled_slice_by_slice_and_over_days(
    repo: Path, fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_llm.always(insights())
    for number in range(4):
        talk.claude(repo, f"question {number}", "answer", session=identity(number), ago=timedelta(days=30 * number + 1))
    monkeypatch.setattr(backfill, "SLICE", 0.0)
    assert jobs.distill_past(["claude_code"]) == "more"
    (queued,) = OrmQ.objects.all()
    assert (queued.task["func"], queued.task["args"]) == (backfill.JOB, (["claude_code"], "", ""))
    monkeypatch.setattr(backfill, "SLICE", 60.0)
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "2")
    assert jobs.distill_past(["claude_code"]) == "more"
    (row,) = Schedule.objects.filter(func=backfill.JOB)
    assert row.next_run.date() == timezone.now().date() + timedelta(days=1)
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "20")
    since = (timezone.now() - timedelta(days=70)).isoformat()
    assert jobs.distill_past(["claude_code"], str(repo), since) == "done"
    assert len(fake_llm.requests) == 3
    assert jobs.distill_past(["claude_code"]) == "done"
    assert len(fake_llm.requests) == 4


def test_the_daemon_sweeps_when_it_starts(machine: Machine, repo: Path) -> None:  # noqa: F811
    with FakeLlm() as llm:
        llm.always(insights(insight("The cache lives ten minutes")))
        machine.env |= llm.environment
        talk.claude(repo, "how long does the cache live", "ten minutes")
        machine.up()
        eventually(lambda: Sweep.objects.filter(distilled=1).exists(), 120)
        row = Schedule.objects.get(func="transcripts.jobs.sweep")
        assert (row.schedule_type, row.repeats) == (Schedule.HOURLY, -1)
        assert row.next_run > timezone.now()
        assert "ten minutes" in journal.recent(store_of(repo), 1)[0].text
        assert machine.coffer("down").returncode == 0
        log = (machine.home / "logs" / "cluster.log").read_text()
        assert "swept distilled=1" in log
        assert "cache" not in log
