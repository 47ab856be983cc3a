"""The one door to a model: scrubbed, permitted, counted, and every failure has a name."""

import logging
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connections as databases
from django.db import transaction

from agents import link
from coffer import connections, llm
from coffer.errors import CofferError
from coffer.models import LlmCall, LlmConnection
from tests.coffer.secrets_corpus import drawn
from tests.fake_llm import KEY, FakeLlm, Reply, Script, closes, fail, hung, raw
from tests.processes import Machine, eventually

TOKEN = "gh" + "p_" + drawn(36)
OTHER = "np" + "m_" + drawn(36)


def ask(user: str = "hello", *, purpose: str = "organize", **required: type) -> llm.Answer:
    return llm.complete_json(purpose, system="You tidy.", user=user, required=required or {"text": str}, store="global")


def outcomes() -> list[str]:
    return [row.outcome for row in LlmCall.objects.order_by("id")]


def test_the_door_is_light_until_a_model_is_asked(home: Path) -> None:
    program = (
        "import django, sys; django.setup(); from coffer import llm; llm.model(); llm.remaining(); list(llm.health());"
        "print([name for name in ('openai', 'langgraph', 'langchain_core', 'httpx2') if name in sys.modules])"
    )
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "coffer.settings", "PYTHONPATH": link.ROOT}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_a_connection_there_is_no_model_and_no_call() -> None:
    assert llm.model() is None
    with pytest.raises(llm.NoModel, match="coffer engine set") as caught:
        ask()
    assert (caught.value.code, caught.value.status) == ("NO_MODEL_CONFIGURED", 409)
    assert not LlmCall.objects.exists()


def test_an_answer_comes_back_with_its_cost(fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "done", "more": 1})
    assert llm.model() == "test-model"
    answer = ask()
    assert answer.data == {"text": "done", "more": 1}
    assert (answer.model, answer.tokens_in > 0, answer.tokens_out > 0) == ("test-model", True, True)
    row = LlmCall.objects.get()
    assert (row.purpose, row.store, row.connection, row.model) == ("organize", "global", "environment", "test-model")
    assert (row.tokens_in, row.tokens_out, row.outcome) == (answer.tokens_in, answer.tokens_out, "ok")
    assert row.attempts == 1


def test_the_request_holds_what_is_needed_and_nothing_of_the_machine(
    fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/elsewhere")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Elsewhere: elsewhere")
    fake_llm.answer({"text": "x"})
    ask("hello")
    (request,) = fake_llm.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["user-agent"] == "coffer"
    assert "elsewhere" not in str(request)
    assert [name for name in request.headers if name.startswith("x-stainless-") and not name.endswith("response")] == []
    assert sorted(request.body) == ["messages", "model", "response_format"]
    assert [one["role"] for one in request.messages] == ["system", "user"]
    assert "JSON" in request.system
    assert request.user == "hello"


def test_an_endpoint_without_a_key_is_sent_none(fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COFFER_LLM_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-them")
    fake_llm.answer({"text": "x"})
    ask()
    assert "authorization" not in fake_llm.requests[0].headers
    assert "not-for-them" not in str(fake_llm.requests)


def test_secrets_stay_here_and_are_in_the_answer_again(fake_llm: FakeLlm) -> None:
    fake_llm.always(lambda request: {"text": f"kept: {request.user}", "more": [{"deep": request.user}]})
    answer = ask(f"deploy with {TOKEN}\nDB_PASSWORD=swordfish")
    assert TOKEN not in str(fake_llm.requests)
    assert "swordfish" not in str(fake_llm.requests)
    assert fake_llm.requests[0].user == "deploy with [secret-1:github-token]\nDB_PASSWORD=[secret-2:password]"
    assert answer.data["text"] == f"kept: deploy with {TOKEN}\nDB_PASSWORD=swordfish"
    assert answer.data["more"] == [{"deep": f"deploy with {TOKEN}\nDB_PASSWORD=swordfish"}]


def test_a_secret_betrayed_by_one_message_is_masked_in_the_other(fake_llm: FakeLlm) -> None:
    fake_llm.always({"text": "x"})
    llm.complete_json(
        "reorg", system="Log in with hunter2-and-more.", user="password: hunter2-and-more", required={"text": str}
    )
    assert "hunter2" not in str(fake_llm.requests[0].body)


def test_a_placeholder_that_the_model_invented_spoils_the_answer(fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "use [secret-2:github-token]"})
    with pytest.raises(llm.BadAnswer, match="placeholder"):
        ask(f"deploy with {TOKEN}")
    assert outcomes() == ["bad_answer"]


def test_a_note_about_placeholders_comes_back_as_it_was(fake_llm: FakeLlm) -> None:
    fake_llm.always(lambda request: {"text": request.user})
    note = f"Coffer writes [secret-1:github-token] for {TOKEN}; [Secret 2] is a song"
    assert ask(note).data["text"] == note


def test_a_new_secret_in_an_answer_is_masked_but_words_we_sent_are_not(fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": f"a new one: {OTHER}\npassword: blue-42-table"})
    answer = ask("the door code is blue-42-table")
    assert answer.data["text"] == "a new one: [npm-token removed]\npassword: blue-42-table"


def test_half_a_character_in_a_note_does_not_break_the_request(fake_llm: FakeLlm) -> None:
    fake_llm.always(lambda request: {"text": request.user})
    assert ask("half \ud83d end").data["text"] == "half \ufffd end"


# --- what endpoints answer --------------------------------------------------------------------------------------------


def test_an_endpoint_without_json_mode_is_asked_plainly_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeLlm(json_mode=False) as fake:
        added = connections.add("local", base_url=fake.base_url, model="m")
        fake.always('<think>hm</think>Sure:\n```json\n{"text": "x",}\n```')
        assert ask().data == {"text": "x"}
        eventually(lambda: connections.get(added.id).json_mode is False)
        assert ask().data == {"text": "x"}
        assert [request.json_mode for request in fake.requests] == [True, False, False]
        assert [row.attempts for row in LlmCall.objects.order_by("id")] == [2, 1]
        connections.change(added.id, model="another")
        assert connections.get(added.id).json_mode is None


def test_json_mode_is_remembered_for_the_environments_connection_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeLlm(json_mode=False) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        fake.always({"text": "x"})
        ask()
        found = connections.from_environment
        eventually(lambda: (one := found()) is not None and one.json_mode is False)
        ask()
        assert [request.json_mode for request in fake.requests] == [True, False, False]


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content=[{"type": "text", "text": '{"text": '}, {"type": "text", "text": '"x"}'}]),  # type: ignore[arg-type]
        Reply(content='{"text": "x"}', fields={"reasoning_content": '{"text": "draft"}'}),
        Reply(content='{"text": "x"}', finish=""),
        Reply(content='{"text": "x"}', status=201),
    ],
)
def test_other_shapes_of_the_same_answer_are_read(fake_llm: FakeLlm, reply: Reply) -> None:
    fake_llm.answer(reply)
    assert ask().data == {"text": "x"}


def test_an_endpoint_that_streams_and_counts_nothing_is_read() -> None:
    with FakeLlm(streams=True, usage=False) as fake:
        connections.add("local", base_url=fake.base_url, model="m")
        fake.answer({"text": "记忆 x"}, Reply(content='{"text": "x"}', finish="length"))
        answer = ask()
        assert answer.data == {"text": "记忆 x"}
        assert answer.tokens_in > 5
        assert answer.tokens_out > 5
        with pytest.raises(llm.BadAnswer, match="cut off"):
            ask()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (raw(b"{}"), "no choices"),
        (raw(b'{"choices": []}'), "no choices"),
        (raw(b'{"choices": [null]}'), "no choices"),
        (raw(b'{"choices": [{"message": null}]}'), "no choices"),
        (raw(b'{"choices": "x", "usage": 7}'), "no choices"),
        (raw(b'data: {"choices": [{"delta": {"content": "{\\"text\\": \\"x\\"}"}}]}\n\n'), "cut off"),
        (Reply(content=None), "empty"),
        (Reply(content="no"), "no JSON object"),
        (Reply(content='{"text": "x', finish="length"), "cut off"),
        (Reply(content="", finish="content_filter"), "declined"),
        (Reply(content=None, fields={"refusal": "I cannot"}), "declined"),
        (fail(400, message="This model's maximum context length is 8192 tokens"), "too long"),
        (fail(413), "too long"),
        (raw(b'{"error": {"code": "content_filter", "message": "x"}}', status=400), "content filter"),
    ],
)
def test_a_useless_answer_skips_the_item_with_a_reason(fake_llm: FakeLlm, reply: Reply, reason: str) -> None:
    fake_llm.always(reply)
    with pytest.raises(llm.BadAnswer, match=reason) as caught:
        ask()
    assert caught.value.reason in caught.value.message
    assert outcomes() == ["bad_answer"]


@pytest.mark.parametrize(
    "body", [b"<html>login here</html>", b"", b"\xff\xfe\x00", b'{"choices": [', b"[]", b"x" * 9_000_000]
)
def test_what_is_no_such_endpoint_is_to_blame_and_not_the_item(fake_llm: FakeLlm, body: bytes) -> None:
    fake_llm.always(raw(body, content_type="text/html"))
    with pytest.raises(llm.Unavailable, match="base_url"):
        ask()
    assert outcomes() == ["unavailable"]


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 422])
def test_what_will_not_change_is_refused_and_not_tried_again(fake_llm: FakeLlm, status: int) -> None:
    fake_llm.always(fail(status, message=f"your key {KEY} is bad"))
    with pytest.raises(llm.Refused, match=str(status)) as caught:
        ask()
    assert KEY not in str(caught.value.as_dict())
    assert len(fake_llm.requests) == (2 if status in (400, 422) else 1)  # once more without JSON mode
    assert outcomes() == ["refused"]
    row = LlmCall.objects.get()
    assert (row.tokens_in, row.tokens_out) == (0, 0)


def test_a_quota_that_is_used_up_is_not_worth_waiting_for(fake_llm: FakeLlm) -> None:
    fake_llm.always(raw(b'{"error": {"message": "x", "type": "insufficient_quota"}}', status=429))
    with pytest.raises(llm.Refused, match="quota"):
        ask()
    assert len(fake_llm.requests) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        fail(500, retry_after=0),
        fail(503, retry_after=0),
        fail(429, retry_after=0.01),
        fail(429, retry_after=format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)),
        raw(b'{"error": {"code": 502, "message": "upstream"}}'),
        closes(),
    ],
)
def test_what_may_pass_is_tried_again(fake_llm: FakeLlm, trouble: Reply) -> None:
    fake_llm.answer(trouble, {"text": "x"})
    assert ask().data == {"text": "x"}
    assert [(row.attempts, row.outcome) for row in LlmCall.objects.all()] == [(2, "ok")]


def test_it_is_given_up_after_the_retries(fake_llm: FakeLlm) -> None:
    fake_llm.always(fail(503, retry_after=0))
    with pytest.raises(llm.Unavailable, match="503"):
        ask()
    assert len(fake_llm.requests) == 3
    assert [(row.attempts, row.outcome) for row in LlmCall.objects.all()] == [(3, "unavailable")]


@pytest.mark.parametrize("in_words", [False, True])
def test_an_endpoint_that_wants_a_long_pause_gets_it(fake_llm: FakeLlm, in_words: bool) -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(days=2), usegmt=True) if in_words else "3600"
    fake_llm.always(fail(429, retry_after=when))
    with pytest.raises(llm.Unavailable, match="asks to be left alone"):
        ask()
    assert len(fake_llm.requests) == 1


def test_nobody_at_the_address_is_said_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeLlm() as gone:
        pass
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    connections.add("gone", base_url=gone.base_url, model="m")
    with pytest.raises(llm.Unavailable, match=r"127\.0\.0\.1 cannot be reached \(Connection refused\)"):
        ask()


def test_an_endpoint_that_speaks_no_tls_is_unavailable(fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_BASE_URL", fake_llm.base_url.replace("http:", "https:"))
    monkeypatch.setenv("COFFER_LLM_RETRIES", "0")
    with pytest.raises(llm.Unavailable, match="cannot be reached"):
        ask()


def test_a_slow_call_ends_at_its_limit_and_is_not_repeated(fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_TIMEOUT", "1")
    fake_llm.always(hung())
    with pytest.raises(llm.Unavailable, match="within 1 s"):
        ask()
    assert len(fake_llm.requests) == 1
    assert outcomes() == ["unavailable"]


def test_redirects_are_not_followed(fake_llm: FakeLlm) -> None:
    with FakeLlm() as elsewhere:
        elsewhere.always({"text": "x"})
        fake_llm.always(Reply(status=307, body=b"", headers={"Location": f"{elsewhere.base_url}/chat/completions"}))
        with pytest.raises(llm.Refused, match="redirects elsewhere"):
            ask()
        assert elsewhere.requests == []


def test_a_model_on_this_machine_is_never_asked_through_a_proxy(
    fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    fake_llm.answer({"text": "x"})
    assert ask().data == {"text": "x"}


def test_a_model_elsewhere_is_asked_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with FakeLlm() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        connections.add("far", base_url="http://models.example.org/v1", model="m", allow_organize=True)
        proxy.answer({"text": "x"})
        assert ask().data == {"text": "x"}
        assert proxy.requests[0].path == "http://models.example.org/v1/chat/completions"


def test_an_azure_style_address_gets_its_parameter_and_its_header(
    fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{fake_llm.base_url}/openai/deployments/gpt/chat/completions?api-version=2026-01-01"
    monkeypatch.setenv("COFFER_LLM_BASE_URL", url)
    fake_llm.answer({"text": "x"})
    ask()
    (request,) = fake_llm.requests
    assert request.path == "/v1/openai/deployments/gpt/chat/completions?api-version=2026-01-01"
    assert request.headers["api-key"] == KEY


# --- keys and logs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", [{"text": "x"}, "no", fail(401, message=f"bad {KEY}"), fail(500, message=f"bad {KEY}", retry_after=0)]
)
def test_neither_key_nor_content_is_written_down(
    fake_llm: FakeLlm, home: Path, caplog: pytest.LogCaptureFixture, reply: Script
) -> None:
    caplog.set_level(logging.DEBUG, "coffer")
    fake_llm.always(reply)
    told = ""
    try:
        ask("the walrus sings")
    except CofferError as error:
        told = str(error.as_dict())
    databases.close_all()
    written = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file()).decode("latin-1")
    written += caplog.text + told
    assert KEY not in written
    assert "walrus" not in written


# --- stopping ---------------------------------------------------------------------------------------------------------


def in_thread(work: Any) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except CofferError as error:
            found.append(error)
        finally:
            databases.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_cancelling_ends_a_hung_call_at_once_and_later_calls_go_on(fake_llm: FakeLlm) -> None:
    fake_llm.answer(hung(), {"text": "x"})
    thread, found = in_thread(ask)
    eventually(lambda: fake_llm.waiting)
    llm.cancel()
    thread.join(10)
    assert isinstance(found[0], llm.Cancelled)
    assert outcomes() == ["cancelled"]
    assert ask().data == {"text": "x"}


def test_cancelling_ends_the_pause_before_a_retry(fake_llm: FakeLlm) -> None:
    fake_llm.always(fail(503, retry_after=29))
    thread, found = in_thread(ask)
    eventually(lambda: fake_llm.requests)
    eventually(lambda: llm.cancel() or not thread.is_alive())
    assert isinstance(found[0], llm.Cancelled)
    assert len(fake_llm.requests) == 1


def test_a_job_that_waits_for_a_model_ends_with_the_daemon(machine: Machine, fake_llm: FakeLlm) -> None:
    fake_llm.always(hung())
    machine.env |= fake_llm.environment
    machine.up()
    program = (
        "import django; django.setup(); from django_q.tasks import async_task; "
        "[async_task('coffer.llm.complete_json', 'organize', system='', user='', required={}) for _ in range(2)]"
    )
    env = {**machine.env, "DJANGO_SETTINGS_MODULE": "coffer.settings"}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True)
    eventually(lambda: fake_llm.waiting)
    assert machine.coffer("down").returncode == 0
    assert outcomes() == ["cancelled"]


def test_a_request_that_waits_for_a_model_ends_with_the_daemon(machine: Machine, fake_llm: FakeLlm) -> None:
    fake_llm.always(hung())
    machine.env |= fake_llm.environment
    machine.up()
    connection = link.connect()
    assert connection is not None
    connection.send("POST", "/api/v1/llm_connections/0/test")
    eventually(lambda: fake_llm.waiting)
    assert machine.coffer("down").returncode == 0
    connection.close()
    assert outcomes() == ["cancelled"]


def test_no_transaction_may_be_open_around_a_call(fake_llm: FakeLlm) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        ask()
    assert fake_llm.requests == []


def test_a_permission_is_asked_for_each_purpose(fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_ALLOW", "distill")
    assert llm.model("organize") is None
    assert llm.model("distill") == "test-model"
    for purpose in ("organize", "reorg", "merge", "rules"):
        with pytest.raises(llm.NoModel, match="COFFER_LLM_ALLOW"):
            ask(purpose=purpose)
    assert fake_llm.requests == []
    fake_llm.answer({"text": "x"})
    assert ask(purpose="distill").data == {"text": "x"}
    assert LlmConnection.objects.count() == 0
