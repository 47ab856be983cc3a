"""Connecting agents: found, shown, changed, proved, and taken back; as services and as a person types it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.models import Agent, Delivery
from agents.services import connections, discovery, hooks, registration, trust
from coffer import later, launchers
from coffer.errors import Invalid, NotFound
from coffer.models import AuditEntry
from tests.agents.edits import fingerprint
from tests.processes import Machine, eventually

FAKE_CODEX = Path(__file__).with_name("fake_codex.py")


@pytest.fixture(autouse=True)
def person(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, with programs of no agent on PATH."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home.parent / "person"


def has(person: Path, *names: str) -> None:
    for name in names:
        (person / name).mkdir(parents=True)


def codex_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, how: str = "") -> None:
    """A stand-in for Codex's program."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "codex").write_text(f"#!/bin/sh\n'{sys.executable}' '{FAKE_CODEX}' \"$@\"\n", encoding="utf-8")
    (folder / "codex").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_CODEX", how)


def connect(*names: str) -> list[connections.Outcome]:
    return connections.apply(connections.plan(names or None))


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_agents_are_found_by_their_folder_or_their_program(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert discovery.found(os.environ) == []
    has(person, ".claude", ".config/opencode")
    codex_on_path(tmp_path, monkeypatch)
    assert [one.agent.name for one in connections.plan()] == ["claude_code", "codex", "opencode"]
    assert not Agent.objects.exists()
    assert fingerprint(person) == {".claude": "empty folder", ".config/opencode": "empty folder"}


def test_a_plan_says_what_would_change_and_changes_nothing(person: Path) -> None:
    has(person, ".claude", ".cursor")
    before = fingerprint(person)
    planned = connections.plan()
    assert [one.title for one in planned] == ["Claude Code", "Cursor"]
    assert [edit.path.name for edit in planned[0].changes] == ["settings.json", ".claude.json"]
    assert "coffer-hook --agent claude_code --event SessionStart" in planned[0].changes[0].diff()
    assert "`coffer doctor` shows what arrived" in planned[1].notes[0]
    assert fingerprint(person) == before


def test_connecting_again_changes_no_byte(person: Path) -> None:
    has(person, ".claude", ".codex", ".cursor", ".gemini", ".copilot", ".config/opencode")
    assert all(outcome.made and not outcome.problem for outcome in connect())
    before = fingerprint(person)
    assert not any(outcome.made for outcome in connect())
    assert fingerprint(person) == before
    assert {agent.name for agent in Agent.objects.all()} == {
        *("claude_code", "codex", "cursor", "gemini_cli", "copilot_cli", "opencode")
    }
    assert {connections.state(agent) for agent in Agent.objects.all()} == {"connected"}


def test_disconnecting_gives_everything_back(person: Path) -> None:
    has(person, ".claude", ".codex", ".cursor", ".gemini", ".copilot", ".config/opencode")
    (person / ".claude.json").write_text('{"numStartups": 3, "projects": {}}', encoding="utf-8")
    (person / ".codex/config.toml").write_text('# mine\nmodel = "x"\n', encoding="utf-8")
    (person / ".claude/CLAUDE.md").write_text("mine", encoding="utf-8")
    before = fingerprint(person)
    connect()
    assert fingerprint(person) != before
    connections.disconnect()
    assert fingerprint(person) == before
    assert {connections.state(agent) for agent in Agent.objects.all()} == {"not connected"}
    assert connections.plan_removal()[0].changes == []


def test_the_agents_own_memory_and_instructions_are_never_touched(person: Path) -> None:
    has(person, ".claude/projects/-repo/memory", ".codex/memories", ".gemini")
    own = [".claude/CLAUDE.md", ".claude/projects/-repo/memory/MEMORY.md", ".codex/AGENTS.md", ".gemini/GEMINI.md"]
    for name in own:
        (person / name).write_text("mine", encoding="utf-8")
    before = {name: (person / name).stat() for name in own}
    connect()
    registration.change("claude_code", disable_native_memory=True, prompt_context=True)
    connections.disconnect()
    assert {name: (person / name).stat() for name in own} == before


def test_only_those_named_are_connected(person: Path) -> None:
    has(person, ".claude", ".gemini")
    assert [outcome.plan.agent.name for outcome in connect("gemini_cli")] == ["gemini_cli"]
    assert fingerprint(person / ".claude") == {}
    with pytest.raises(
        Invalid, match=r"Codex is not on this machine: there is no folder .*/\.codex and no program codex"
    ):
        connections.plan(["codex"])
    with pytest.raises(NotFound, match="There is no agent 'emacs'"):
        connections.plan(["emacs"])


def test_one_agent_whose_file_cannot_be_edited_keeps_no_other_back(person: Path) -> None:
    has(person, ".claude", ".gemini")
    (person / ".claude/settings.json").write_text('{"a": 1,}', encoding="utf-8")
    claude, gemini = connections.plan()
    assert "settings.json, line 1, column 8: a comma before the closing bracket" in claude.refused
    assert [outcome.plan for outcome in connections.apply([claude, gemini])] == [gemini]
    assert not (person / ".claude.json").exists()


def test_an_agent_whose_files_are_not_edited_is_named_with_what_to_do(person: Path) -> None:
    has(person, ".openclaw")
    (planned,) = connections.plan()
    assert (planned.edits, planned.refused) == ([], "")
    assert "coffer-mcp-shim" in planned.notes[0]
    assert connections.apply([planned]) == []
    assert connections.state(Agent(name="openclaw", type="openclaw")) == "by hand"


def test_a_second_agent_of_a_kind_is_connected_in_its_own_folder(person: Path) -> None:
    has(person, ".claude", ".claude-work")
    registration.add("claude_code", name="claude_work", folder="~/.claude-work")
    connect()
    command = written(person / ".claude-work/settings.json")["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    assert "--agent claude_work" in command
    assert "coffer" in written(person / ".claude-work/.claude.json")["mcpServers"]
    assert "--agent claude_code" in (person / ".claude/settings.json").read_text(encoding="utf-8")
    connections.disconnect(["claude_work"])
    assert list((person / ".claude-work").iterdir()) == []
    assert (person / ".claude/settings.json").exists()


def test_the_environment_moves_an_agent_and_its_row_remembers(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(person, "elsewhere")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(person / "elsewhere"))
    connect()
    assert registration.get("claude_code").folder == str(person / "elsewhere")
    assert (person / "elsewhere/.claude.json").exists()
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert hooks.status(registration.get("claude_code")).installed
    connections.disconnect()
    assert fingerprint(person) == {"elsewhere": "empty folder"}


def test_a_connected_agent_stays_where_it_is_when_the_environment_changes(
    person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(person, ".claude", "other")
    connect()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(person / "other"))
    (planned,) = connections.plan()
    assert not planned.changes
    assert (
        f"`coffer agent add claude_code --name claude_code_2 --folder {person}/other` adds another" in planned.notes[0]
    )
    connections.disconnect()
    (planned,) = connections.plan()
    assert planned.changes[0].path == person / "other/settings.json"


def test_the_folder_of_a_second_agent_is_not_taken_for_the_first(person: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(person, ".claude", ".claude-work")
    registration.add("claude_code", name="claude_work", folder="~/.claude-work")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(person / ".claude-work"))
    assert [(one.agent.name, one.agent.folder) for one in connections.plan()] == [
        ("claude_code", ""),
        ("claude_work", str(person / ".claude-work")),
    ]


def test_entries_without_a_row_are_still_taken_out(person: Path) -> None:
    has(person, ".claude")
    connect()
    Agent.objects.all().delete()
    assert [one.agent.name for one in connections.plan_removal()] == ["claude_code"]
    connections.disconnect(["claude_code"])
    assert fingerprint(person) == {".claude": "empty folder"}


def test_the_launchers_that_the_entries_name_exist(person: Path) -> None:
    has(person, ".claude")
    connect()
    command = written(person / ".claude.json")["mcpServers"]["coffer"]["command"]
    assert os.access(command, os.X_OK)


def test_no_secret_stands_in_any_file_of_an_agent(person: Path, home: Path) -> None:
    has(person, ".claude", ".codex", ".cursor", ".gemini", ".copilot", ".config/opencode")
    (home / "token").write_text("T0KEN-of-the-daemon", encoding="utf-8")
    connect()
    for path in person.rglob("*"):
        if path.is_file():
            assert "T0KEN" not in path.read_text(encoding="utf-8")


def test_the_audit_trail_says_what_was_installed(person: Path) -> None:
    has(person, ".claude")
    connect()
    connections.disconnect()
    rows = AuditEntry.objects.filter(event__startswith="agent_").order_by("id")
    assert [(row.event, row.ref, row.actor) for row in rows] == [
        ("agent_hook_installed", "claude_code", "user"),
        ("agent_hook_uninstalled", "claude_code", "user"),
    ]


def test_codex_says_whether_it_trusts_our_hooks(person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(person, ".codex")
    codex_on_path(tmp_path, monkeypatch)
    own = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo mine"}]}]}}
    (person / ".codex/hooks.json").write_text(json.dumps(own), encoding="utf-8")
    (outcome,) = connect()
    assert outcome.trusted is False
    agent = registration.get("codex")
    assert hooks.status(agent).trusted is False
    config = person / ".codex/config.toml"
    before = config.read_bytes()
    states = "\n".join(f'[hooks.state."{key}"]\ntrusted_hash = "{one}"\n' for key, one in agent.trust["hashes"].items())
    config.write_text(f"{before.decode()}\n[hooks.state]\n\n{states}", encoding="utf-8")
    assert hooks.status(agent).trusted is True
    assert trust.ask(agent) is True
    config.write_text(
        config.read_text(encoding="utf-8").replace("trusted_hash", "enabled = false\ntrusted_hash"), encoding="utf-8"
    )
    assert hooks.status(agent).trusted is False
    registration.change("codex", prompt_context=True)
    assert hooks.status(registration.get("codex")).trusted is None
    assert [outcome.problem for outcome in connections.disconnect()] == [""]
    assert written(person / ".codex/hooks.json") == own
    assert not config.exists()


def test_trust_in_other_hooks_stays_when_ours_go(person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(person, ".codex")
    codex_on_path(tmp_path, monkeypatch)
    own = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo mine"}]}]}}
    (person / ".codex/hooks.json").write_text(json.dumps(own), encoding="utf-8")
    mine = f'[hooks.state."{person}/.codex/hooks.json:session_start:0:0"]\ntrusted_hash = "sha256:mine"\n'
    (person / ".codex/config.toml").write_text(mine, encoding="utf-8")
    connect()
    ours = f'\n[hooks.state."{person}/.codex/hooks.json:session_start:1:0"]\ntrusted_hash = "sha256:ours"\n'
    with (person / ".codex/config.toml").open("a", encoding="utf-8") as file:
        file.write(ours)
    connections.disconnect()
    assert (person / ".codex/config.toml").read_text(encoding="utf-8") == mine


@pytest.mark.parametrize("how", ["silent", "dies", "old"])
def test_a_codex_that_does_not_answer_is_not_waited_for_long(
    person: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    has(person, ".codex")
    codex_on_path(tmp_path, monkeypatch, how="dies")
    connect()
    monkeypatch.setenv("FAKE_CODEX", how)
    assert trust.ask(registration.get("codex"), seconds=0.5) is None


# As a person types it.


def test_the_command_connects_proves_and_disconnects(machine: Machine, person: Path) -> None:
    has(person, ".claude", ".cursor")
    (person / ".claude/settings.json").write_text('{"theme": "dark"}', encoding="utf-8")
    before = fingerprint(person)
    machine.env["PATH"] = "/usr/bin:/bin"
    done = machine.coffer("connect", "--yes")
    assert done.returncode == 0, done.stderr
    assert "  ~/.claude/settings.json  hooks SessionStart, SessionEnd\n" in done.stdout
    assert "  ~/.claude.json           MCP server coffer (new file)\n" in done.stdout
    assert "✓ Claude Code is connected; " in done.stdout
    assert " bytes of memory arrive in a session here." in done.stdout
    again = machine.coffer("connect", "--yes", "--json")
    rows = {row["name"]: row for row in json.loads(again.stdout)["agents"]}
    assert rows["claude_code"]["changes"] == []
    assert rows["claude_code"]["bytes"] > 100
    assert rows["cursor"]["problem"] == ""
    eventually(lambda: not later.dropped())
    assert not Delivery.objects.filter(event="SessionStart").exists()
    done = machine.coffer("disconnect", "--yes")
    assert done.returncode == 0, done.stderr
    assert "Disconnected." in done.stdout
    assert fingerprint(person) == before


def test_the_command_tells_of_codexs_one_step(machine: Machine, person: Path) -> None:
    has(person, ".codex")
    machine.env["PATH"] = "/usr/bin:/bin"
    done = machine.coffer("connect", "--yes")
    assert "One step is yours: start codex, type /hooks and trust the Coffer entries." in done.stdout


def test_without_a_terminal_nothing_is_changed_unless_told_so(machine: Machine, person: Path) -> None:
    has(person, ".claude")
    for words in (["connect"], ["connect", "--json"], ["connect", "claude_code"]):
        done = machine.coffer(*words)
        assert (done.returncode, fingerprint(person)) == (1, {".claude": "empty folder"})
        assert "There is no terminal to ask on, so nothing was changed. --yes connects without asking" in done.stderr
    connect()
    done = machine.coffer("disconnect")
    assert done.returncode == 1
    assert "--yes disconnects without asking" in done.stderr
    assert (person / ".claude.json").exists()


def test_on_a_terminal_the_person_is_asked(machine: Machine, person: Path) -> None:
    has(person, ".claude")
    machine.env["PATH"] = "/usr/bin:/bin"
    for answer, connected in ((b"n\n", False), (b"\n", False), (b"y\n", True)):
        done = _typed(machine, answer, "connect")
        assert "Connect 1 agent? [y/N]" in done.stdout
        assert (done.returncode == 0, (person / ".claude.json").exists()) == (connected, connected)
        assert connected or done.stderr == "coffer: Nothing was changed.\n"


def test_a_dry_run_shows_the_diff_and_changes_nothing(machine: Machine, person: Path) -> None:
    has(person, ".claude")
    (person / ".claude/settings.json").write_bytes(b'{\r\n  "theme": "dark"\r\n}')
    before = fingerprint(person)
    done = machine.coffer("connect", "--dry-run")
    assert done.returncode == 0
    assert '-  "theme": "dark"\n+  "theme": "dark",\n+  "hooks": {\n' in done.stdout
    (row,) = json.loads(machine.coffer("connect", "--dry-run", "--json").stdout)["agents"]
    assert [change["new_file"] for change in row["changes"]] == [False, True]
    assert fingerprint(person) == before
    assert not Agent.objects.exists()


def test_a_refused_agent_is_told_and_the_exit_code_says_so(machine: Machine, person: Path) -> None:
    has(person, ".claude", ".gemini")
    machine.env["PATH"] = "/usr/bin:/bin"
    (person / ".claude/settings.json").symlink_to(person / "gone")
    done = machine.coffer("connect", "--yes")
    assert done.returncode == 1
    assert "  ✗ " in done.stdout
    assert "which does not exist; mend or remove the link." in done.stdout
    assert "✓ Gemini CLI is connected" in done.stdout
    assert not (person / "gone").exists()


def test_with_no_agent_at_all_the_error_says_so(machine: Machine) -> None:
    machine.env["PATH"] = "/usr/bin:/bin"
    done = machine.coffer("connect")
    assert (done.returncode, done.stderr) == (
        1,
        "coffer: No coding agent that Coffer knows was found here: no folder of one, no program on PATH.\n",
    )
    assert machine.coffer("disconnect").stdout == "No agent is connected.\n"


def test_two_at_once_make_one_entry_each(machine: Machine, person: Path) -> None:
    has(person, ".claude", ".cursor")
    command = [*_coffer(), "connect", "--yes", "--json"]
    running = [machine.popen(command) for _ in range(2)]
    assert [process.wait(timeout=90) for process in running] == [0, 0]
    assert len(written(person / ".claude/settings.json")["hooks"]["SessionStart"]) == 1
    assert len(written(person / ".cursor/hooks.json")["hooks"]["sessionStart"]) == 1
    connections.disconnect()
    assert fingerprint(person) == {".claude": "empty folder", ".cursor": "empty folder"}


def _coffer() -> list[str]:
    return [str(path) for path in launchers.write() if path.name == "coffer"]


def _typed(machine: Machine, keys: bytes, *words: str) -> "subprocess.CompletedProcess[str]":
    """One command line on a terminal, where a person types these keys."""
    leader, follower = pty.openpty()
    try:
        os.write(leader, keys)
        command = [sys.executable, "-P", "-m", "coffer.cli", *words]
        return subprocess.run(
            command, env=machine.env, stdin=follower, capture_output=True, text=True, timeout=90, check=False
        )
    finally:
        os.close(leader)
        os.close(follower)
