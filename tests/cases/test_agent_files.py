"""Cases of the kind "agent config files": what installers have broken in other people's configuration."""

import json
import os
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from agents.services import connections, hooks, native_memory, registration
from coffer.errors import Invalid
from tests.agents.edits import attach, detach, fingerprint, hooks_file
from tests.cases.steps import INPUTS

TOMLS = sorted((INPUTS / "BC-138").glob("*.toml"))


@pytest.fixture(autouse=True)
def person(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with Claude Code and Codex, whose programs are not on PATH."""
    found = home.parent / "person"
    for name in (".claude", ".codex"):
        (found / name).mkdir()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return found


def test_bc069_links_stay_links_and_their_targets_hold_the_change(person: Path) -> None:
    dotfiles = person / "dotfiles"
    dotfiles.mkdir()
    shutil.copyfile(INPUTS / "BC-139" / "settings.json", dotfiles / "claude.json")
    (dotfiles / "hooks.json").write_text('{"hooks": {}}\n', encoding="utf-8")
    (dotfiles / "hooks.json").chmod(0o600)
    shutil.copyfile(INPUTS / "BC-138" / "01-commented.toml", dotfiles / "codex.toml")
    (person / ".claude/settings.json").symlink_to("../dotfiles/claude.json")
    (person / ".codex/hooks.json").symlink_to(dotfiles / "hooks.json")
    os.link(dotfiles / "codex.toml", person / ".codex/config.toml")
    before = fingerprint(person)
    connections.apply(connections.plan())
    for name in ("claude_code", "codex"):
        registration.change(name, disable_native_memory=True)
    assert '"autoMemoryEnabled": false' in (dotfiles / "claude.json").read_text(encoding="utf-8")
    assert "coffer-hook" in (dotfiles / "hooks.json").read_text(encoding="utf-8")
    assert "memories = false" in (dotfiles / "codex.toml").read_text(encoding="utf-8")
    assert os.path.samefile(dotfiles / "codex.toml", person / ".codex/config.toml")
    for name in ("claude_code", "codex"):
        registration.change(name, disable_native_memory=False)
    connections.disconnect()
    assert fingerprint(person) == before
    assert os.path.samefile(dotfiles / "codex.toml", person / ".codex/config.toml")


def test_bc069_a_dangling_link_is_told_and_replaced_by_nothing(person: Path) -> None:
    (person / ".claude/settings.json").symlink_to(person / "dotfiles/gone.json")
    before = fingerprint(person)
    registration.add("claude_code")
    with pytest.raises(Invalid, match=r"settings\.json is a link to .*gone\.json, which does not exist"):
        hooks.install(registration.get("claude_code"))
    assert fingerprint(person) == before


@pytest.mark.parametrize("source", [*TOMLS, None], ids=lambda path: path.stem if path else "missing")
def test_bc138_codexs_memories_go_off_and_come_back_in_any_way_of_writing(person: Path, source: Path | None) -> None:
    config = person / ".codex/config.toml"
    if source is not None:
        shutil.copyfile(source, config)
    original = config.read_bytes() if source is not None else None
    connections.apply(connections.plan(["codex"]))
    for _ in range(2):
        registration.change("codex", disable_native_memory=True)
        assert native_memory.is_off(registration.get("codex"))
        assert _others(config.read_bytes()) == _others(original)
    registration.change("codex", disable_native_memory=False)
    assert _memories(config.read_bytes()) == _memories(original)
    connections.disconnect()
    assert (config.read_bytes() if config.exists() else None) == original


@pytest.mark.parametrize("source", [*TOMLS, None], ids=lambda path: path.stem if path else "missing")
def test_bc138_what_the_agent_rewrites_without_comments_still_gets_its_earlier_values(
    person: Path, source: Path | None
) -> None:
    config = person / ".codex/config.toml"
    if source is not None:
        shutil.copyfile(source, config)
    original = config.read_bytes() if source is not None else None
    connections.apply(connections.plan(["codex"]))
    registration.change("codex", disable_native_memory=True)
    config.write_text(_rewritten(tomllib.loads(config.read_text(encoding="utf-8"))), encoding="utf-8")
    registration.change("codex", disable_native_memory=True)
    registration.change("codex", disable_native_memory=False)
    assert _memories(config.read_bytes()) == _memories(original)
    connections.disconnect()
    left = tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    assert left == tomllib.loads((original or b"").decode())


def test_bc139_install_replaces_its_own_hook_and_uninstall_takes_only_that(person: Path, home: Path) -> None:
    path = person / ".claude/settings.json"
    shutil.copyfile(INPUTS / "BC-139" / "settings.json", path)
    original = path.read_bytes()
    for launchers in ("/opt/coffer/bin", "/opt/coffer/bin", "/home/dev/moved coffer/bin"):
        attach(hooks_file(path.parent, launchers=Path(launchers)))
        ours = [one for one in _commands(path) if "coffer-hook' --agent" in one or "coffer-hook --agent" in one]
        assert [shlex.split(one)[0] for one in ours] == [f"{launchers}/coffer-hook"] * 2
    assert "/home/dev/src/coffer-hook-notes/run.sh" in _commands(path)
    text = path.read_text(encoding="utf-8")
    assert '    "big": 12345678901234567890,\n    "größe": "ü",\n' in text
    assert not text.endswith("\n")
    backups = sorted((home / "backups/agents").glob("*settings.json"), key=lambda one: one.stat().st_mtime_ns)
    assert backups[0].read_bytes() == original
    path.write_text(text.replace('"zeta": 1', '"zeta": 2'), encoding="utf-8")
    for _ in range(2):
        detach(hooks_file(path.parent))
        assert path.read_bytes() == original.replace(b'"zeta": 1', b'"zeta": 2')


def _commands(path: Path) -> list[str]:
    events = json.loads(path.read_text(encoding="utf-8"))["hooks"]
    return [hook["command"] for groups in events.values() for group in groups for hook in group["hooks"]]


def _memories(data: bytes | None) -> dict[str, Any]:
    found = tomllib.loads((data or b"").decode())
    tables = {name: dict(found[name]) for name in ("features", "memories") if name in found}
    return {
        f"{name}.{key}": value for name, table in tables.items() for key, value in table.items() if "memories" in key
    }


def _others(data: bytes | None) -> dict[str, Any]:
    """Everything that is neither ours nor a switch of memories."""
    found = tomllib.loads((data or b"").decode())
    for name in ("features", "memories"):
        for key in [key for key in found.get(name, {}) if "memories" in key]:
            del found[name][key]
        if found.get(name) == {}:
            del found[name]
    found.get("mcp_servers", {}).pop("coffer", None)
    if found.get("mcp_servers") == {}:
        del found["mcp_servers"]
    return found


def _rewritten(data: dict[str, Any], above: str = "") -> str:
    """The data as a program writes it that keeps no comments: plain tables, in another order."""
    lines, tables = [], ""
    for key, value in sorted(data.items()):
        name = f'{above}"{key}"'
        if isinstance(value, dict):
            tables += f"\n[{name}]\n{_rewritten(value, f'{name}.')}"
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            tables += "".join(f"\n[[{name}]]\n{_rewritten(one, f'{name}.')}" for one in value)
        else:
            lines.append(f'"{key}" = {json.dumps(value, ensure_ascii=False)}\n')
    return "".join(lines) + tables
