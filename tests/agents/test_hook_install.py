"""The hooks of one agent over REST: how they are, install, uninstall, and what keeps them from working."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.services import deliveries, hooks, registration
from coffer import later, launchers
from coffer.models import AuditEntry
from tests.conftest import Api


@pytest.fixture(autouse=True)
def person(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = home.parent / "person"
    for name in (".claude", ".codex", ".gemini"):
        (found / name).mkdir()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return found


def installed(api: Api, name: str) -> dict[str, Any]:
    registration.add(name)
    answer = api.post(f"/agents/{name}/hook-install")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_hooks_are_installed_and_uninstalled_over_rest(api: Api, home: Path, person: Path) -> None:
    registration.add("claude_code")
    path = person / ".claude/settings.json"
    path.write_text('{"theme": "dark"}', encoding="utf-8")
    before = api.get("/agents/claude_code/hook-install").json()
    assert before == {
        "installed": False,
        "command": f"{home}/bin/coffer-hook --agent claude_code",
        "supported": True,
        "trusted": None,
        "last_fired_at": None,
        "problems": [],
    }
    assert api.post("/agents/claude_code/hook-install", X_Coffer_Actor="agent").json() == {**before, "installed": True}
    assert api.post("/agents/claude_code/hook-install").json()["installed"]
    assert not (person / ".claude.json").exists()
    assert api.delete("/agents/claude_code/hook-install").json() == before
    assert path.read_text(encoding="utf-8") == '{"theme": "dark"}'
    rows = AuditEntry.objects.filter(event__startswith="agent_hook").order_by("id").values_list("event", "actor")
    assert list(rows) == [("agent_hook_installed", "agent"), ("agent_hook_uninstalled", "user")]


def test_an_agent_without_hooks_says_so(api: Api) -> None:
    registration.add("copilot_cli")
    assert not api.get("/agents/copilot_cli/hook-install").json()["supported"]
    answer = api.post("/agents/copilot_cli/hook-install")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID")
    assert "gets the tools only" in answer.json()["error"]["message"]
    assert api.get("/agents/emacs/hook-install").status_code == 404


def test_a_file_that_cannot_be_edited_is_an_error_with_its_place(api: Api, person: Path) -> None:
    registration.add("claude_code")
    (person / ".claude/settings.json").write_text("{,}", encoding="utf-8")
    answer = api.post("/agents/claude_code/hook-install")
    assert answer.status_code == 422
    assert "settings.json, line 1, column 2" in answer.json()["error"]["message"]
    assert "line 1, column 2" in api.get("/agents/claude_code/hook-install").json()["problems"][0]


@pytest.mark.parametrize(
    ("name", "file", "text", "told"),
    [
        ("claude_code", ".claude/settings.json", '{"disableAllHooks": true}', "disableAllHooks in"),
        ("codex", ".codex/config.toml", "[features]\nhooks = false\n", "features.hooks in"),
        (
            "gemini_cli",
            ".gemini/settings.json",
            '{\n// mine\n"hooksConfig": {"enabled": false}}',
            "hooksConfig.enabled in",
        ),
    ],
)
def test_a_switch_that_turns_all_hooks_off_is_a_problem(
    api: Api, person: Path, name: str, file: str, text: str, told: str
) -> None:
    (person / file).write_text(text, encoding="utf-8")
    found = installed(api, name)
    assert found["installed"]
    assert told in found["problems"][0]
    assert "switches all hooks off" in found["problems"][0]


def test_hooks_of_an_older_installation_are_a_problem_that_connecting_mends(api: Api, person: Path) -> None:
    installed(api, "claude_code")
    path = person / ".claude/settings.json"
    path.write_text(path.read_text(encoding="utf-8").replace("coffer/bin", "old/bin"), encoding="utf-8")
    found = api.get("/agents/claude_code/hook-install").json()
    assert (found["installed"], len(found["problems"])) == (False, 1)
    assert "`coffer connect claude_code` mends them" in found["problems"][0]
    assert api.post("/agents/claude_code/hook-install").json()["problems"] == []


def test_a_missing_launcher_is_a_problem(api: Api, home: Path) -> None:
    installed(api, "claude_code")
    (home / "bin/coffer-hook").unlink()
    assert "coffer-hook is missing; `coffer up` writes it" in hooks.status(registration.get("claude_code")).problems[0]
    launchers.write()
    assert hooks.status(registration.get("claude_code")).problems == []


def test_the_last_time_a_hook_fired_is_told_and_a_try_is_none(api: Api) -> None:
    installed(api, "claude_code")
    api.get("/agents/claude_code/session-context?cwd=/&session_id=s&source=check")
    later.flush()
    assert api.get("/agents/claude_code/hook-install").json()["last_fired_at"] is None
    deliveries.record("claude_code", "SessionEnd", outcome="skipped")
    later.flush()
    assert api.get("/agents/claude_code/hook-install").json()["last_fired_at"] is not None


def test_a_look_at_the_hooks_writes_nothing(api: Api, person: Path) -> None:
    registration.add("claude_code")
    api.get("/agents/claude_code/hook-install")
    assert list((person / ".claude").iterdir()) == []
    assert json.loads(api.get("/agents").content)["total"] == 1
