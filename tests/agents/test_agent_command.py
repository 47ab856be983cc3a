"""``coffer agent …`` as a person types it."""

import json
from pathlib import Path

import pytest

from agents.models import Agent
from tests.processes import Machine


@pytest.fixture(autouse=True)
def person(machine: Machine) -> Path:
    found = machine.home.parent / "person"
    (found / ".claude").mkdir()
    machine.env["PATH"] = "/usr/bin:/bin"
    return found


def told(machine: Machine, *words: str) -> str:
    done = machine.coffer(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_agents_are_added_listed_and_removed(machine: Machine, person: Path) -> None:
    assert "No agent is known yet." in told(machine, "agent", "list")
    (person / ".claude-work").mkdir()
    text = told(machine, "agent", "add", "claude_code", "--name", "claude_work", "--folder", "~/.claude-work")
    assert text == "claude_work lives in ~/.claude-work; `coffer connect claude_work` connects it.\n"
    told(machine, "agent", "add", "claude_code")
    assert "claude_work  Claude Code  not connected  ~/.claude-work\n" in told(machine, "agent", "list")
    rows = json.loads(told(machine, "agent", "list", "--json"))
    assert [(row["name"], row["state"]) for row in rows["agents"]] == [
        ("claude_code", "not connected"),
        ("claude_work", "not connected"),
    ]
    assert told(machine, "agent", "remove", "claude_work", "--yes") == "claude_work is disconnected and forgotten.\n"
    assert [agent.name for agent in Agent.objects.all()] == ["claude_code"]
    done = machine.coffer("agent", "remove", "claude_code")
    assert (done.returncode, "--yes removes it without asking" in done.stderr) == (1, True)


def test_hooks_are_shown_installed_and_uninstalled(machine: Machine, person: Path) -> None:
    told(machine, "agent", "add", "claude_code")
    assert "installed   no\n" in told(machine, "agent", "hooks", "claude_code")
    assert "installed   yes\n" in told(machine, "agent", "hooks", "claude_code", "install")
    assert "prompts     on\n" in told(machine, "agent", "hooks", "claude_code", "--prompts", "on")
    assert "UserPromptSubmit" in (person / ".claude/settings.json").read_text(encoding="utf-8")
    found = json.loads(told(machine, "agent", "hooks", "claude_code", "uninstall", "--json"))
    assert (found["installed"], found["prompts"]) == (False, True)
    assert not (person / ".claude/settings.json").exists()


def test_native_memory_is_shown_and_switched(machine: Machine, person: Path) -> None:
    told(machine, "agent", "add", "claude_code")
    assert "is left as it is." in told(machine, "agent", "native-memory", "claude_code")
    assert (
        told(machine, "agent", "native-memory", "claude_code", "off") == "Claude Code's own memory is off, by Coffer.\n"
    )
    found = json.loads(told(machine, "agent", "native-memory", "claude_code", "on", "--json"))
    assert found == {"name": "claude_code", "supported": True, "off": False, "by_coffer": False}
    assert list((person / ".claude").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["hooks", "emacs"], "There is no agent 'emacs'; `coffer agent list` names those there are."),
        (["add", "emacs"], "'emacs' is no kind of agent that Coffer knows; it knows claude_code, codex, "),
        (["add", "cursor", "--name", "mine", "--folder", "/nonexistent"], "There is no folder /nonexistent; start the"),
        (["add", "cursor", "--name", "Mine!"], "'Mine!' is no name for an agent: up to 60 of a-z, 0-9 and _"),
    ],
)
def test_a_mistake_is_told_in_one_line(machine: Machine, words: list[str], error: str) -> None:
    done = machine.coffer("agent", *words)
    assert done.returncode == 1
    assert done.stderr.startswith(f"coffer: {error}")
    assert done.stderr.count("\n") == 1
