"""A model in a loop with plain functions: bounded, scrubbed both ways, and it says why it stopped."""

import threading
from typing import Any

import pytest

from coffer import llm
from coffer.errors import Invalid
from coffer.models import LlmCall
from tests.coffer.secrets_corpus import drawn
from tests.coffer.test_llm import in_thread
from tests.fake_llm import FakeLlm, Reply, fail, hung, tools
from tests.processes import eventually

TOKEN = "gh" + "p_" + drawn(36)
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["id"],
}


class Notes:
    """What a tool was called with, and what it gives back."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.result: str | Exception = "fine"

    def read(self, arguments: dict[str, Any]) -> str:
        self.calls.append(arguments)
        self.threads.add(threading.get_ident())
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.fixture
def notes() -> Notes:
    return Notes()


def run(notes: Notes, *, user: str = "tidy", **options: Any) -> llm.LoopReport:
    tool = llm.Tool("read", "Read one topic.", SCHEMA, notes.read)
    return llm.run_tools("reorg", system="You reorganize.", user=user, tools=[tool], store="global", **options)


def test_tools_are_called_until_the_model_is_done(fake_llm: FakeLlm, notes: Notes) -> None:
    fake_llm.answer(tools(("read", {"id": "a"}), ("read", {"id": "b", "count": 2})), "All tidy.")
    report = run(notes)
    assert notes.calls == [{"id": "a"}, {"id": "b", "count": 2}]
    assert notes.threads == {threading.get_ident()}  # the caller's: it has the database's connection
    assert (report.steps, report.calls, report.stopped, report.text) == (2, 2, "done", "All tidy.")
    assert report.tokens_in > 0
    assert fake_llm.requests[0].tools == ["read"]
    assert fake_llm.requests[1].tool_results == ["fine", "fine"]
    assert [one["role"] for one in fake_llm.requests[1].messages] == ["system", "user", "assistant", "tool", "tool"]
    assert [(row.purpose, row.outcome) for row in LlmCall.objects.all()] == [("reorg", "ok"), ("reorg", "ok")]


def test_secrets_go_out_as_placeholders_and_come_back_in_arguments(fake_llm: FakeLlm, notes: Notes) -> None:
    notes.result = f"the topic says {TOKEN}\nDB_PASSWORD=swordfish"
    fake_llm.answer(
        tools(("read", {"id": "[secret-1:github-token]", "tags": ["[secret-1:github-token]"]})),
        tools(("read", {"id": "[secret-2:password]"})),
        "kept [secret-1:github-token]",
    )
    report = run(notes, user=f"tidy what has {TOKEN}")
    assert notes.calls == [{"id": TOKEN, "tags": [TOKEN]}, {"id": "swordfish"}]
    assert report.text == f"kept {TOKEN}"
    assert TOKEN not in str(fake_llm.requests)
    assert "swordfish" not in str(fake_llm.requests)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("write", {"id": "a"}), "there is no such tool; there are read"),
        (("read", '{"id": "a'), "no JSON object"),
        (("read", ""), "id is missing"),
        (("read", {}), "id is missing"),
        (("read", {"id": 7}), "id is not a text"),
        (("read", {"id": "a", "count": "two"}), "count is not a whole number"),
        (("read", {"id": "a", "path": "/etc"}), "takes no argument 'path'; it takes id, count, tags"),
        (("read", ["a"]), "no JSON object"),
        (("read", {"id": "[secret-9:password]"}), "a placeholder that was not sent"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_to_the_model_and_not_made(
    fake_llm: FakeLlm, notes: Notes, call: tuple[str, Any], told: str
) -> None:
    fake_llm.answer(tools(call), tools(("read", {"id": "a", "count": None})), "done")
    report = run(notes)
    assert told in fake_llm.requests[1].tool_results[0]
    assert notes.calls == [{"id": "a"}]
    assert report.stopped == "done"


def test_a_model_that_makes_no_sense_three_times_is_stopped(fake_llm: FakeLlm, notes: Notes) -> None:
    fake_llm.always(tools(("read", "nonsense")))
    report = run(notes)
    assert (report.stopped, report.steps, report.calls) == ("bad_answer", 3, 3)
    assert notes.calls == []


def test_an_error_of_a_tool_is_told_to_the_model(fake_llm: FakeLlm, notes: Notes) -> None:
    notes.result = Invalid(f"There is no topic {TOKEN}.")
    fake_llm.answer(tools(("read", {"id": "a"})), "done")
    assert run(notes).stopped == "done"
    assert fake_llm.requests[1].tool_results == ["Error: There is no topic [secret-1:github-token]."]


def test_a_broken_tool_is_not_hidden(fake_llm: FakeLlm, notes: Notes) -> None:
    notes.result = OSError("No space left on device")
    fake_llm.always(tools(("read", {"id": "a"})))
    with pytest.raises(OSError, match="No space left"):
        run(notes)


def test_steps_and_calls_are_limited(fake_llm: FakeLlm, notes: Notes) -> None:
    fake_llm.always(tools(("read", {"id": "a"}), ("read", {"id": "b"})))
    report = run(notes, max_steps=3)
    assert (report.stopped, report.steps, report.calls) == ("steps", 3, 6)
    report = run(notes, max_calls=5)
    assert (report.stopped, report.steps, report.calls) == ("calls", 3, 5)
    assert len(fake_llm.requests) == 6


@pytest.mark.parametrize(
    ("reply", "stopped"),
    [
        (fail(401), "refused"),
        (fail(503, retry_after=0), "unavailable"),
        (Reply(content="x", finish="length"), "bad_answer"),
        (Reply(content="see [secret-3:password]"), "bad_answer"),
    ],
)
def test_what_was_done_stays_done_when_the_model_fails(
    fake_llm: FakeLlm, notes: Notes, reply: Reply, stopped: str
) -> None:
    fake_llm.answer(tools(("read", {"id": "a"})))
    fake_llm.always(reply)
    report = run(notes)
    assert (report.stopped, report.calls, notes.calls) == (stopped, 1, [{"id": "a"}])
    assert report.reason


def test_the_days_limit_stops_a_loop(fake_llm: FakeLlm, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_DAY_CALLS", "2")
    fake_llm.always(tools(("read", {"id": "a"})))
    report = run(notes)
    assert (report.stopped, report.steps, len(fake_llm.requests)) == ("budget", 3, 2)


def test_cancelling_stops_a_loop(fake_llm: FakeLlm, notes: Notes) -> None:
    fake_llm.answer(tools(("read", {"id": "a"})), hung())
    thread, found = in_thread(lambda: run(notes))
    eventually(lambda: fake_llm.waiting)
    llm.cancel()
    thread.join(10)
    assert (found[0].stopped, found[0].calls) == ("cancelled", 1)


def test_cancelling_between_two_questions_stops_a_loop(fake_llm: FakeLlm, notes: Notes) -> None:
    fake_llm.always(tools(("read", {"id": "a"})))
    tool = llm.Tool("read", "Read.", SCHEMA, lambda arguments: llm.cancel() or "fine")
    report = llm.run_tools("reorg", system="s", user="u", tools=[tool])
    assert (report.stopped, len(fake_llm.requests)) == ("cancelled", 1)


def test_without_a_model_there_is_no_loop(notes: Notes) -> None:
    with pytest.raises(llm.NoModel):
        run(notes)


def test_no_tracing_service_hears_of_a_loop(fake_llm: FakeLlm, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("LANGSMITH_API_KEY", "made-up")
    from langsmith import run_trees, utils

    utils.get_env_var.cache_clear()
    fake_llm.answer(tools(("read", {"id": "a"})), "done")
    assert run(notes).stopped == "done"
    assert run_trees._CLIENT is None, "somebody made a client of the tracing service"
    utils.get_env_var.cache_clear()
