"""Connections to models: what may be sent where, keys by reference, and the same over REST and the command line."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coffer import cli, connections, llm
from coffer.errors import CofferError, ConfigInvalid, Conflict, Invalid, NotFound
from coffer.models import AuditEntry, LlmConnection
from tests.coffer.secrets_corpus import drawn
from tests.conftest import Api
from tests.fake_llm import KEY, MODEL, FakeLlm, fail
from tests.processes import Machine

TOKEN = "gh" + "p_" + drawn(36)
FAR = "https://models.example.org/v1"
NEAR = "http://localhost:11434/v1"


def ask(purpose: str = "organize") -> llm.Answer:
    return llm.complete_json(purpose, system="s", user="u", required={"text": str})


# --- what may be sent where -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "models.localhost"])
def test_a_connection_that_stays_on_this_machine_may_do_everything(host: str) -> None:
    saved = connections.add("near", base_url=f"http://{host}:11434/v1", model="llama")
    assert (saved.local, saved.allow_organize, saved.allow_distill, saved.is_default) == (True, True, True, True)
    assert llm.model("organize") == llm.model("distill") == "llama"


@pytest.mark.parametrize(
    "host", ["models.example.org", "10.0.0.7", "0.0.0.0", "localhost.example.org", "127.1", "[::2]"]
)
def test_a_connection_elsewhere_serves_nothing_but_its_test_until_allowed(host: str) -> None:
    saved = connections.add("far", base_url=f"https://{host}/v1", model="m")
    assert (saved.local, saved.allow_organize, saved.allow_distill) == (False, False, False)
    assert (llm.model("organize"), llm.model("distill")) == (None, None)
    with pytest.raises(llm.NoModel, match="--name far --allow organize"):
        ask()
    connections.change(saved.id, allow_organize=True)
    assert (llm.model("organize"), llm.model("distill")) == ("m", None)
    with pytest.raises(llm.NoModel, match="--allow distill"):
        ask("distill")


def test_each_use_says_what_it_sends_and_to_whom() -> None:
    saved = connections.add("far", base_url="http://models.example.org:8080/v1", model="m")
    told = saved.sends()
    assert sorted(told) == ["distill", "organize"]
    assert "notes" in told["organize"]
    assert "sessions" in told["distill"]
    assert all("models.example.org, off this machine and without encryption" in text for text in told.values())
    assert len([text for text in connections.advice(saved) if "until you allow it" in text]) == 2


def test_another_host_has_to_be_allowed_anew() -> None:
    saved = connections.add("far", base_url=FAR, model="m", allow_organize=True, allow_distill=True)
    assert connections.change(saved.id, model="n").allow_organize
    assert connections.change(saved.id, base_url=f"{FAR}/other").allow_organize
    moved = connections.change(saved.id, base_url="https://elsewhere.example.org/v1", allow_distill=True)
    assert (moved.allow_organize, moved.allow_distill) == (False, True)
    assert not connections.change(saved.id, base_url="http://elsewhere.example.org/v1").allow_distill
    assert connections.change(saved.id, base_url=NEAR).allow_organize
    assert not connections.change(saved.id, base_url=FAR).allow_organize


def test_one_connection_is_the_default() -> None:
    first = connections.add("first", base_url=NEAR, model="a")
    second = connections.add("second", base_url=NEAR, model="b")
    assert (first.is_default, second.is_default) == (True, False)
    connections.change(second.id, is_default=True)
    assert llm.model() == "b"
    assert list(LlmConnection.objects.filter(is_default=True).values_list("name", flat=True)) == ["second"]
    connections.remove(second.id)
    assert llm.model() is None
    (finding,) = llm.health()
    assert "No connection is the default" in finding.message


def test_the_environment_wins_over_what_is_saved(fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch) -> None:
    connections.add("saved", base_url=NEAR, model="saved-model")
    assert llm.model() == MODEL
    assert [one.name for one in connections.listing()] == ["environment", "saved"]
    with pytest.raises(Conflict, match="COFFER_LLM_BASE_URL"):
        connections.change(0, model="x")
    monkeypatch.setenv("COFFER_LLM_MODEL", "")
    assert llm.model() == "saved-model"


def test_the_environments_connection_may_stand_in_config_env(home: Path) -> None:
    with FakeLlm() as fake:
        lines = [f"{name}={value}\n" for name, value in fake.environment.items()]
        (home / "config.env").write_text("".join(lines), encoding="utf-8")
        fake.answer({"text": "x"})
        assert ask().data == {"text": "x"}
        assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("allow", ["", "none", "organize", "distill", " Organize , DISTILL "])
def test_what_the_environment_allows(monkeypatch: pytest.MonkeyPatch, allow: str) -> None:
    monkeypatch.setenv("COFFER_LLM_BASE_URL", FAR)
    monkeypatch.setenv("COFFER_LLM_MODEL", "m")
    monkeypatch.setenv("COFFER_LLM_ALLOW", allow)
    for purpose in ("organize", "distill"):
        assert (llm.model(purpose) == "m") == (purpose in allow.lower())


def test_a_wrong_address_in_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LLM_BASE_URL", "models.example.org/v1")
    monkeypatch.setenv("COFFER_LLM_MODEL", "m")
    assert llm.model() is None
    with pytest.raises(ConfigInvalid, match="COFFER_LLM_BASE_URL"):
        connections.listing()


# --- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f" {FAR}/ ", FAR),
        (f"{FAR}/chat/completions", FAR),
        ("HTTPS://Models.Example.org:443/v1", "https://models.example.org:443/v1"),
        ("http://[::1]:1234/v1", "http://[::1]:1234/v1"),
        ("https://x.openai.azure.com/openai/deployments/gpt?api-version=2026-01-01",) * 2,
    ],
)
def test_an_address_is_kept_without_what_is_pasted_along(given: str, kept: str) -> None:
    assert connections.add("one", base_url=given, model="m").base_url == kept


@pytest.mark.parametrize(
    "address",
    [
        *("", "models.example.org", "ftp://models.example.org", "file:///etc/passwd", "http://", "https://x:port/v1"),
        *(
            "https://me:secret@models.example.org",
            f"{FAR}?key=secret",
            f"{FAR}#x",
            "https://модели.example/v1",
            "h" * 600,
        ),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(Invalid) as caught:
        connections.add("one", base_url=address, model="m")
    assert "secret" not in caught.value.message
    assert not LlmConnection.objects.exists()


@pytest.mark.parametrize("key", ["sk-made-up", f"env:{TOKEN}", "env:A B", "keyring:x", "file:x", KEY], ids=range(6))
def test_a_key_itself_is_refused_and_not_repeated(api: Api, key: str) -> None:
    with pytest.raises(Invalid, match="by reference") as caught:
        connections.add("one", base_url=FAR, model="m", key=key)
    assert key not in caught.value.message
    answer = api.post("/llm_connections", {"name": "one", "base_url": FAR, "model": "m", "key": key})
    assert answer.status_code == 422
    assert key not in answer.content.decode()


@pytest.mark.parametrize("name", ["", " ", "x" * 61, "a\nb", "environment"])
def test_a_name_is_a_short_line(name: str) -> None:
    with pytest.raises(Invalid, match="name"):
        connections.add(name, base_url=FAR, model="m")


def test_names_are_taken_once() -> None:
    connections.add("one", base_url=FAR, model="m")
    other = connections.add("two", base_url=FAR, model="m")
    with pytest.raises(Conflict, match="'one' already"):
        connections.add("one", base_url=FAR, model="m")
    with pytest.raises(Conflict, match="'one' already"):
        connections.change(other.id, name="one")
    assert LlmConnection.objects.filter(is_default=True).count() == 1


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_comes_from_the_environment_or_config_env(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeLlm() as fake:
        fake.always({"text": "x"})
        saved = connections.add("one", base_url=fake.base_url, model="m", key="env:MODEL_KEY")
        assert llm.model() is None
        with pytest.raises(llm.NoModel, match=r"MODEL_KEY is set neither in .*config\.env nor in the environment"):
            ask()
        (finding,) = llm.health()
        assert "MODEL_KEY" in finding.message
        (home / "config.env").write_text("MODEL_KEY='from-file'\n", encoding="utf-8")
        assert not [text for text in connections.advice(saved) if "MODEL_KEY" in text]
        ask()
        monkeypatch.setenv("MODEL_KEY", "from-environment")
        ask()
        (home / "config.env").unlink()
        assert "known to this process only" in connections.advice(saved)[0]
        sent = [request.headers["authorization"] for request in fake.requests]
        assert sent == ["Bearer from-file", "Bearer from-environment"]


@pytest.mark.parametrize("key", ["sp ace", "zwölf", "line\nbreak", "nul\0"])
def test_a_key_that_no_header_can_carry_is_told_without_being_shown(
    fake_llm: FakeLlm, home: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    path = home / "key"
    path.write_text(key, encoding="utf-8")
    monkeypatch.delenv("COFFER_LLM_API_KEY")
    monkeypatch.setenv("COFFER_LLM_API_KEY_FILE", str(path))
    with pytest.raises(llm.NoModel, match="characters that no key can have") as caught:
        ask()
    assert key not in caught.value.message
    assert fake_llm.requests == []


def test_a_key_file_is_read(fake_llm: FakeLlm, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "key").write_text("from-a-file\n", encoding="utf-8")
    monkeypatch.delenv("COFFER_LLM_API_KEY")
    monkeypatch.setenv("COFFER_LLM_API_KEY_FILE", str(home / "key"))
    fake_llm.answer({"text": "x"})
    ask()
    assert fake_llm.requests[0].headers["authorization"] == "Bearer from-a-file"


def test_a_keyring_is_asked_where_one_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = connections.add("one", base_url=NEAR, model="m", key="keyring:coffer/me@example.org")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(llm.NoModel, match="package keyring is not installed"):
        connections.key_of(saved)
    monkeypatch.delitem(sys.modules, "keyring")
    (tmp_path / "keyring.py").write_text(
        "def get_password(service, user):\n"
        "    if user == 'locked': raise RuntimeError('secret words of a backend')\n"
        "    return 'from-keyring' if (service, user) == ('coffer', 'me@example.org') else None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert connections.key_of(saved) == "from-keyring"
    with pytest.raises(llm.NoModel, match="has none for service coffer, user you"):
        connections.key_of(connections.change(saved.id, key="keyring:coffer/you"))
    with pytest.raises(llm.NoModel, match=r"could not be asked \(RuntimeError\)"):
        connections.key_of(connections.change(saved.id, key="keyring:coffer/locked"))
    monkeypatch.delitem(sys.modules, "keyring")


# --- REST -------------------------------------------------------------------------------------------------------------


def test_connections_over_rest(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.get("/llm_connections").json() == {"llm_connections": [], "total": 0}
    monkeypatch.setenv("MODEL_KEY", "the-key-itself")
    body = {"name": "far", "base_url": FAR, "model": "m", "key": "env:MODEL_KEY"}
    created = api.post("/llm_connections", body, X_Coffer_Actor="agent")
    assert created.status_code == 201
    shown = created.json()
    assert shown | body == shown
    assert (shown["key_found"], shown["local"], shown["in_use"], shown["json_mode"]) == (True, False, True, None)
    assert (shown["allow_organize"], shown["allow_distill"]) == (False, False)
    assert "models.example.org" in shown["sends"]["organize"]
    where = f"/llm_connections/{shown['id']}"
    assert api.patch(where, {"allow_organize": True}).json()["allow_organize"] is True
    assert api.patch(where, {"key": ""}).json()["key"] == ""
    assert api.get(where).json()["name"] == "far"
    assert api.get("/llm_connections").json()["total"] == 1
    assert "the-key-itself" not in api.get("/llm_connections").content.decode()
    assert api.delete(where).status_code == 204
    assert api.get(where).json()["error"]["code"] == "NOT_FOUND"
    events = list(AuditEntry.objects.order_by("id").values_list("event", "ref", "actor"))
    assert events == [
        ("connection_added", "far", "agent"),
        ("connection_changed", "far", "user"),
        ("connection_changed", "far", "user"),
        ("connection_removed", "far", "user"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/llm_connections/7", None, 404),
        ("GET", "/llm_connections/0", None, 404),
        ("POST", "/llm_connections/7/test", None, 404),
        ("PATCH", "/llm_connections/0", {"model": "x"}, 409),
        ("DELETE", "/llm_connections/0", None, 409),
        ("POST", "/llm_connections", {"name": "x"}, 422),
        ("POST", "/llm_connections", {"name": "x", "base_url": FAR, "model": "m", "api_key": "x"}, 422),
        ("POST", "/llm_connections", {"name": "x", "base_url": "x" * 5000, "model": "m"}, 422),
        ("PATCH", "/llm_connections/7", {"model": "x"}, 404),
        ("GET", "/llm_calls?limit=0", None, 422),
    ],
)
def test_requests_that_cannot_be_served_say_so(api: Api, method: str, path: str, body: Any, status: int) -> None:
    answer = api.call(method, path, body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_a_test_over_rest_says_what_answered(api: Api, fake_llm: FakeLlm) -> None:
    fake_llm.answer({"ok": True}, fail(401, message=f"Incorrect API key provided: {KEY}\nsecond line"))
    answer = api.post("/llm_connections/0/test").json()
    assert answer | {"ok": True, "outcome": "ok", "model": MODEL, "json_mode": True, "said": ""} == answer
    assert "offers JSON mode" in answer["message"]
    failed = api.post("/llm_connections/0/test").json()
    assert (failed["ok"], failed["outcome"]) == (False, "refused")
    assert failed["said"] == "Incorrect API key provided: [key]"
    assert KEY not in str(failed)


def test_a_test_sends_nothing_of_the_persons_and_needs_no_permission(
    fake_llm: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COFFER_LLM_ALLOW", "none")
    fake_llm.answer({"ok": True})
    assert llm.test(connections.get(0)).ok
    assert fake_llm.requests[0].user == "Are you there?"


def test_a_test_finds_out_that_there_is_no_json_mode() -> None:
    with FakeLlm(json_mode=False) as fake:
        saved = connections.add("near", base_url=fake.base_url, model="m")
        fake.always('```{"ok": true}```')
        trial = llm.test(saved)
        assert (trial.ok, trial.json_mode) == (True, False)
        assert "has no JSON mode" in trial.message


def test_calls_over_rest(api: Api, fake_llm: FakeLlm) -> None:
    fake_llm.answer({"text": "x"}, "no")
    ask()
    with pytest.raises(CofferError):
        ask("distill")
    listed = api.get("/llm_calls").json()
    assert listed["total"] == 2
    assert [row["outcome"] for row in listed["llm_calls"]] == ["bad_answer", "ok"]
    assert sorted(listed["llm_calls"][0]) == sorted(
        ["purpose", "store", "connection", "model", "attempts", "tokens_in", "tokens_out", "ms", "outcome", "at"]
    )
    assert api.get("/llm_calls?purpose=distill&outcome=bad_answer").json()["total"] == 1
    assert api.get("/llm_calls?since=2999-01-01T00:00:00Z").json() == {"llm_calls": [], "total": 0}
    assert len(api.get("/llm_calls?limit=1&offset=1").json()["llm_calls"]) == 1


# --- the command line -------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    try:
        code = cli.main(["engine", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out + told.err


def test_an_engine_is_set_shown_tested_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeLlm() as fake:
        fake.always({"ok": True})
        assert "No model is connected" in run(capsys, "show")[1]
        code, told = run(capsys, "set", "--base-url", fake.base_url, "--model", "m")
        assert (code, "default: m at" in told, "may organize and distill" in told) == (0, True, True)
        code, told = run(capsys, "test")
        assert (code, "answered in" in told) == (0, True)
        assert run(capsys, "set", "--model", "n", "--deny", "distill")[0] == 0
        assert "default: n at" in run(capsys, "show")[1]
        shown = json.loads(run(capsys, "show", "--json")[1])
        assert shown["budget"]["used_calls"] == 1
        assert shown["last_call"]["outcome"] == "ok"
        assert [one["allow_distill"] for one in shown["connections"]] == [False]
        fake.always(fail(404))
        code, told = run(capsys, "test", "default")
        assert (code, "has no model n" in told, "It says: made to fail" in told) == (1, True, True)
        assert "refused" in run(capsys, "show")[1]
        assert run(capsys, "remove", "default") == (0, "Forgot default.\n")
        assert run(capsys, "test")[0] == 1


def test_a_key_is_given_by_reference_on_the_command_line(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, told = run(capsys, "set", "--base-url", FAR, "--model", "m", "--key-env", "MODEL_KEY", "--allow", "organize")
    assert code == 0
    assert "key from env:MODEL_KEY (missing), may organize." in told
    assert "It may not distill until you allow it. To distill it sends what you and your agents said" in told
    assert str(home / "config.env") in told
    assert run(capsys, "set", "--no-key")[0] == 0
    assert LlmConnection.objects.get().key == ""
    code, told = run(capsys, "set", "--key-env", "sk-" + drawn(40))
    assert (code, "by reference" in told) == (1, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["set", "--model", "m"], "needs --base-url and --model"),
        (["set", "--base-url", FAR, "--model", "m", "--allow", "distill", "--deny", "distill"], "at once"),
        (["set", "--base-url", "nonsense", "--model", "m"], "must be an http or https address"),
        (["test", "nobody"], "There is no connection 'nobody'"),
        (["remove", "nobody"], "There is no connection 'nobody'"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, text = run(capsys, *words)
    assert code == 1
    assert told in text
    assert len(text.strip().splitlines()) == 1


def test_a_person_is_asked_for_each_use_before_anything_may_leave(machine: Machine) -> None:
    person, terminal = pty.openpty()
    command = [sys.executable, "-P", "-m", "coffer.cli", "engine", "set", "--base-url", FAR, "--model", "m"]
    process = machine.popen(command, stdin=terminal, stdout=subprocess.PIPE, text=True)
    os.write(person, b"y\nno\n")
    told, _ = process.communicate(timeout=60)
    os.close(person)
    os.close(terminal)
    assert "To organize it sends new notes" in told
    assert "To distill it sends what you and your agents said" in told
    row = LlmConnection.objects.get()
    assert (row.allow_organize, row.allow_distill) == (True, False)


def test_nobody_is_asked_about_a_model_on_this_machine_or_in_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "set", "--name", "far", "--base-url", FAR, "--model", "m", "--json")[0] == 0
    assert LlmConnection.objects.get().allow_organize is False
    with pytest.raises(NotFound):
        connections.named("near")
