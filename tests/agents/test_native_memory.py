"""An agent's own memory: never touched unless asked, off when asked, and given back exactly (FR-052)."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agents.services import connections, hooks, native_memory, registration
from coffer.models import AuditEntry


@pytest.fixture(autouse=True)
def person(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = home.parent / "person"
    for name in (".claude", ".codex"):
        (found / name).mkdir()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return found


def events() -> list[str]:
    return [row.event for row in AuditEntry.objects.order_by("id") if row.event.startswith("agent_")]


@pytest.mark.acceptance(spec="007-memory", scenario="disable_native_memory turns native memory off and restores it")
@pytest.mark.parametrize("before", [None, "{}", '{"autoMemoryEnabled": true}', '{"autoMemoryEnabled": false, "a": 1}'])
def test_claude_codes_memory_goes_off_and_comes_back_as_it_was(person: Path, before: str | None) -> None:
    path = person / ".claude/settings.json"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    registration.add("claude_code")
    assert native_memory.is_off(registration.get("claude_code")) == (before is not None and "false" in before)
    registration.change("claude_code", disable_native_memory=True)
    assert json.loads(path.read_text(encoding="utf-8"))["autoMemoryEnabled"] is False
    registration.change("claude_code", disable_native_memory=False)
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == before
    assert not registration.get("claude_code").disable_native_memory


@pytest.mark.acceptance(spec="007-memory", scenario="disable_native_memory turns native memory off and restores it")
def test_codexs_memories_go_off_with_all_three_switches(person: Path) -> None:
    path = person / ".codex/config.toml"
    text = "[features]\nmemories = true # mine\n\n[memories]\nuse_memories = false\n"
    path.write_text(text, encoding="utf-8")
    registration.add("codex")
    registration.change("codex", disable_native_memory=True)
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    assert found == {"features": {"memories": False}, "memories": {"use_memories": False, "generate_memories": False}}
    registration.change("codex", disable_native_memory=False)
    assert path.read_text(encoding="utf-8") == text
    assert events() == ["agent_native_memory_disabled", "agent_native_memory_restored"]


def test_connecting_and_disconnecting_never_touches_it(person: Path) -> None:
    path = person / ".claude/settings.json"
    path.write_text('{"autoMemoryEnabled": true}', encoding="utf-8")
    connections.apply(connections.plan(["claude_code"]))
    assert json.loads(path.read_text(encoding="utf-8"))["autoMemoryEnabled"] is True
    registration.change("claude_code", disable_native_memory=False)
    connections.disconnect()
    assert path.read_text(encoding="utf-8") == '{"autoMemoryEnabled": true}'
    assert events() == ["agent_hook_installed", "agent_hook_uninstalled"]


def test_what_the_person_said_before_comes_back_even_if_the_file_changed(person: Path) -> None:
    path = person / ".claude/settings.json"
    path.write_text('{"autoMemoryEnabled": true}', encoding="utf-8")
    registration.add("claude_code")
    registration.change("claude_code", disable_native_memory=True)
    registration.change("claude_code", disable_native_memory=True)
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "new": 1}), encoding="utf-8")
    registration.change("claude_code", disable_native_memory=False)
    assert json.loads(path.read_text(encoding="utf-8")) == {"autoMemoryEnabled": True, "new": 1}


def test_a_person_who_switched_it_on_again_by_hand_is_heeded(person: Path) -> None:
    path = person / ".claude/settings.json"
    registration.add("claude_code")
    registration.change("claude_code", disable_native_memory=True)
    path.write_text('{"autoMemoryEnabled": true}', encoding="utf-8")
    registration.change("claude_code", disable_native_memory=False)
    assert path.read_text(encoding="utf-8") == '{"autoMemoryEnabled": true}'


def test_uninstalling_the_hooks_gives_it_back(person: Path) -> None:
    path = person / ".claude/settings.json"
    path.write_text('{"autoMemoryEnabled": true}', encoding="utf-8")
    connections.apply(connections.plan(["claude_code"]))
    agent = registration.change("claude_code", disable_native_memory=True)
    assert not hooks.uninstall(agent).installed
    assert path.read_text(encoding="utf-8") == '{"autoMemoryEnabled": true}'
    assert not registration.get("claude_code").disable_native_memory


def test_disconnecting_gives_it_back_and_connecting_again_leaves_it(person: Path) -> None:
    path = person / ".codex/config.toml"
    path.write_text('model = "x"\n', encoding="utf-8")
    connections.apply(connections.plan(["codex"]))
    registration.change("codex", disable_native_memory=True)
    connections.disconnect(["codex"])
    assert path.read_text(encoding="utf-8") == 'model = "x"\n'
    connections.apply(connections.plan(["codex"]))
    assert "memories" not in path.read_text(encoding="utf-8")
