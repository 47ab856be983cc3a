"""The day's limit is hard, whoever spends it, and every call is a row without content."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connections as databases
from django.utils import timezone

from agents import link
from coffer import later, llm
from coffer.models import LlmCall
from coffer.registry import Finding
from tests.fake_llm import FakeLlm, Request, fail, hung
from tests.processes import eventually

Limit = Callable[..., None]


def ask(user: str = "hello", *, purpose: str = "organize", store: str = "") -> llm.Answer:
    return llm.complete_json(purpose, system="You tidy.", user=user, required={"text": str}, store=store)


def spend(*, day: int = 0, calls: int = 1, tokens: int = 0) -> None:
    LlmCall.objects.create(
        purpose="organize",
        connection="x",
        model="m",
        outcome="ok",
        attempts=calls,
        tokens_in=tokens,
        at=timezone.now() + timedelta(days=day),
    )


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    def set_limit(*, calls: int = 300, tokens: int = 2_000_000) -> None:
        monkeypatch.setenv("COFFER_LLM_DAY_CALLS", str(calls))
        monkeypatch.setenv("COFFER_LLM_DAY_TOKENS", str(tokens))

    return set_limit


def test_the_last_call_of_a_day_is_the_last(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=2)
    fake_llm.always({"text": "x"})
    ask()
    ask()
    with pytest.raises(llm.BudgetSpent, match=r"2 of 2 calls.*00:00 UTC") as caught:
        ask()
    assert (caught.value.code, caught.value.status) == ("ENGINE_BUDGET_SPENT", 429)
    assert len(fake_llm.requests) == 2
    assert llm.remaining().calls == 0
    assert LlmCall.objects.count() == 2


def test_tokens_are_limited_with_room_for_the_answer(fake_llm: FakeLlm, limit: Limit) -> None:
    text = "word " * 400
    cost = llm.estimate(text)
    fake_llm.always({"text": "x"})
    limit(tokens=2 * cost - 1)
    with pytest.raises(llm.BudgetSpent, match="tokens"):
        ask(text)
    assert fake_llm.requests == []
    limit(tokens=2 * cost + 200)
    ask(text)
    left = llm.remaining()
    assert left.used_tokens == sum(row.tokens_in + row.tokens_out for row in LlmCall.objects.all())
    assert left.tokens == left.limit_tokens - left.used_tokens


def test_a_limit_of_nothing_makes_no_call(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=0)
    with pytest.raises(llm.BudgetSpent):
        ask()
    assert fake_llm.requests == []


def test_each_date_is_counted_by_itself(limit: Limit) -> None:
    limit(calls=10, tokens=100)
    spend(day=-1, calls=7, tokens=70)
    spend(day=1, calls=8, tokens=80)
    spend(calls=3, tokens=30)
    left = llm.remaining()
    assert (left.used_calls, left.used_tokens, left.calls, left.tokens) == (3, 30, 7, 70)


def test_every_request_counts_also_one_that_is_repeated(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=2)
    fake_llm.always(fail(503, retry_after=0))
    with pytest.raises(llm.BudgetSpent):
        ask()
    assert len(fake_llm.requests) == 2
    assert [(row.attempts, row.outcome) for row in LlmCall.objects.all()] == [(2, "budget")]


def test_processes_side_by_side_do_not_spend_more_than_there_is(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=5)
    fake_llm.always({"text": "x"})
    program = (
        "import django; django.setup(); from coffer import llm\n"
        "for _ in range(3):\n"
        "    try: llm.complete_json('organize', system='', user='', required={}); print('ok')\n"
        "    except llm.BudgetSpent: print('spent')"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "coffer.settings", "PYTHONPATH": link.ROOT}
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=env, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    words = [word for process in started for word in process.communicate(timeout=90)[0].split()]
    assert sorted(words) == ["ok"] * 5 + ["spent"] * 4
    assert len(fake_llm.requests) == 5


def test_a_call_whose_process_was_killed_stays_counted(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=5)
    fake_llm.always(hung())
    program = (
        "import django; django.setup(); from coffer import llm;"
        "llm.complete_json('organize', system='', user='', required={})"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "coffer.settings", "PYTHONPATH": link.ROOT}
    process = subprocess.Popen([sys.executable, "-c", program], env=env)
    eventually(lambda: fake_llm.waiting)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [row.outcome for row in LlmCall.objects.all()] == ["started"]
    assert llm.remaining().calls == 4


def test_an_answer_is_not_lost_to_a_busy_database(
    fake_llm: FakeLlm, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    databases.close_all()
    monkeypatch.setitem(databases["default"].settings_dict["OPTIONS"], "timeout", 0.1)
    others = sqlite3.connect(home / "coffer.sqlite3", isolation_level=None, check_same_thread=False)

    def answer(request: Request) -> dict[str, str]:
        others.execute("BEGIN IMMEDIATE")
        return {"text": "x"}

    fake_llm.always(answer)
    assert ask().data == {"text": "x"}
    assert [row.outcome for row in LlmCall.objects.all()] == ["started"]
    others.execute("ROLLBACK")
    others.close()
    assert later.flush(20)
    assert [row.outcome for row in LlmCall.objects.all()] == ["ok"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COFFER_LLM_DAY_CALLS", "many"),
        ("COFFER_LLM_ALLOW", "everything"),
        ("COFFER_LLM_TIMEOUT", "soon"),
        ("COFFER_LLM_RETRIES", "-1"),
    ],
)
def test_a_setting_that_is_wrong_is_named_and_no_call_is_made(
    fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(llm.NoModel, match=name):
        ask()
    assert fake_llm.requests == []


def test_calls_are_listed_newest_first_and_filtered(fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "x"}, "no", {"text": "x"})
    ask(store="global")
    with pytest.raises(llm.BadAnswer):
        ask(store="global")
    ask(purpose="distill")
    rows, total = llm.calls(limit=2, offset=0)
    assert ([row.purpose for row in rows], total) == (["distill", "organize"], 3)
    assert llm.calls(limit=9, offset=0, outcome="bad_answer", store="global")[1] == 1
    assert llm.calls(limit=9, offset=0, since=timezone.now() + timedelta(minutes=1)) == ([], 0)


# --- how the engine is ------------------------------------------------------------------------------------------------


def one() -> Finding:
    (finding,) = llm.health()
    return finding


def test_no_engine_is_nothing_to_worry_about() -> None:
    assert (one().level, one().subject) == ("ok", "engine")


def test_an_engine_that_works_says_what_it_may_and_what_is_used(fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "x"})
    ask()
    assert one().level == "ok"
    assert "may organize and distill; 1 of 300 calls" in one().message


def test_a_failed_call_is_told_until_one_succeeds(fake_llm: FakeLlm) -> None:
    fake_llm.answer(fail(401), {"text": "x"})
    with pytest.raises(llm.Refused):
        ask()
    assert one().level == "warning"
    assert "refused" in one().message
    ask()
    assert one().level == "ok"


def test_a_day_that_is_spent_is_told(fake_llm: FakeLlm, limit: Limit) -> None:
    limit(calls=1)
    spend()
    assert one().level == "warning"
    assert "used up" in one().message


def test_an_address_without_a_model_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_BASE_URL", "http://localhost:11434/v1")
    assert llm.model() is None
    assert "COFFER_LLM_MODEL is not" in one().message
