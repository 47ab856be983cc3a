"""``coffer doctor``: what it says of agents that are well, and of each thing that can be wrong."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from agents.models import Agent, Delivery
from agents.services import attachments, doctor, registration, rehearsal
from coffer import paths
from memory.models import Use
from memory.services import facts, rules, stores
from tests.fake_daemon import FakeDaemon, Reply
from tests.processes import Machine, eventually

KINDS = ("claude_code", "codex", "cursor", "gemini_cli", "opencode")


def connected(*names: str) -> list[Agent]:
    """Agents whose folders are there, with everything of ours in their files."""
    agents = []
    for name in names:
        agent = registration.add(name)
        attachments.attach(agent, "hooks", "mcp")
        agents.append(agent)
    connections.close_all()
    return agents


def run(machine: Machine, *words: str, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the checks by subject and name."""
    done = machine.coffer("doctor", *words, "--json", **environment)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["well"] == (done.returncode == 0)
    assert all(
        check["remedy"] for check in told["checks"] if check["level"] == "error" and check["subject"] != "Coffer"
    )
    return done.returncode, {f"{check['subject']}: {check['name']}": check for check in told["checks"]}


def well(machine: Machine, *words: str, **environment: str) -> dict[str, dict[str, Any]]:
    """What it says once all is well: a machine that is too busy for the limit of a hook is looked at again."""
    looks = []

    def look() -> bool:
        looks.append(run(machine, *words, **environment))
        return looks[-1][0] == 0

    eventually(look, 120)
    return looks[-1][1]


def test_connected_agents_are_followed_from_their_files_to_a_context_that_arrives_whole(machine: Machine) -> None:
    connected(*KINDS)
    assert run(machine, "cursor")[1]["Daemon: daemon"]["level"] == "note"
    told = well(machine, PATH="/usr/bin:/bin")
    for title in ("Claude Code", "Codex", "Cursor", "Gemini CLI", "OpenCode"):
        assert [told[f"{title}: {name}"]["level"] for name in ("agent", "hook", "tools", "session", "context")] == [
            "ok"
        ] * 5
        assert "arrived whole" in told[f"{title}: context"]["message"]
    assert told["Codex: trust"]["level"] == "note"
    assert {"Coffer: index", "Coffer: permissions", "Coffer: versions"} <= told.keys()
    assert told["Daemon: daemon"]["level"] == "ok"


def said(machine: Machine, *words: str, end: str, **environment: str) -> list[str]:
    """The lines that a command printed, when the last is this one."""
    lines = machine.coffer(*words, **environment).stdout.splitlines()
    return lines if lines[-1] == end else []


def test_a_look_is_no_delivery(machine: Machine, repo: Path) -> None:
    (agent,) = connected("claude_code")
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, "The build needs Go 1.22.", actor="agent")
    rules.append(store, "Never push to main.")
    connections.close_all()
    machine.up()
    played = eventually(lambda: (tried := rehearsal.play(agent, str(repo))).whole and tried)
    assert "Never push to main." in played.text
    assert "The build needs Go 1.22." in played.text
    assert "doctor-" not in played.text
    assert (Delivery.objects.count(), Use.objects.exclude(delivered=0).count()) == (0, 0)


def test_it_is_read_line_by_line_and_ends_with_a_verdict(machine: Machine) -> None:
    connected("cursor")
    well(machine)
    lines = eventually(lambda: said(machine, "doctor", "cursor", end="All is well."))
    assert "  ✓ hook: installed: SessionStart, SessionEnd" in lines
    paths.home().chmod(0o755)
    lines = eventually(lambda: said(machine, "doctor", end="1 problem."))
    assert f"      chmod 700 {paths.home()}" in lines


def test_without_any_agent_it_says_how_to_connect_one(machine: Machine) -> None:
    code, told = run(machine)
    assert code == 1
    assert told["Agents: connection"]["remedy"] == "Run `coffer connect`."


def test_hooks_that_another_hand_took_out_are_a_problem_and_a_disconnected_agent_is_none(machine: Machine) -> None:
    hooks = Path(os.environ["HOME"]) / ".cursor" / "hooks.json"
    hooks.parent.mkdir()
    hooks.write_text('{"version": 1, "mine": true}', encoding="utf-8")
    connected("cursor")
    hooks.write_text('{"version": 1, "mine": false}', encoding="utf-8")
    for words in (["cursor"], []):
        code, told = run(machine, *words)
        assert (code, told["Cursor: hook"]["level"]) == (1, "warning")
        assert "coffer connect cursor" in told["Cursor: hook"]["remedy"]
    assert machine.coffer("disconnect", "--yes").returncode == 0
    told = well(machine)
    assert told["Cursor: connection"]["message"] == "not connected; `coffer connect cursor` does it."
    code, told = run(machine, "cursor")
    assert (code, told["Cursor: connection"]["level"]) == (1, "error")


def test_an_agent_that_never_was_connected_is_listed_and_not_said_to_be_well(machine: Machine) -> None:
    connected("cursor")
    (Path(os.environ["HOME"]) / ".gemini").mkdir()
    end = "All that is connected is well; 1 agent is not connected."
    lines = eventually(lambda: said(machine, "doctor", end=end, PATH="/usr/bin:/bin"), 120)
    assert "  - connection: not connected; `coffer connect gemini_cli` does it." in lines
    code, told = run(machine, "gemini_cli")
    assert (code, told["Gemini CLI: connection"]["level"]) == (1, "error")


@pytest.mark.parametrize(
    ("name", "title", "file", "text"),
    [
        ("codex", "Codex", ".codex/config.toml", "model = "),
        ("gemini_cli", "Gemini CLI", ".gemini/settings.json", '{"hooks": 5}'),
        ("opencode", "OpenCode", ".config/opencode/opencode.json", '{"mcp": {"coffer": {"type": "remote"}}}'),
    ],
)
def test_an_agent_that_cannot_be_connected_is_a_problem_and_why(
    machine: Machine, name: str, title: str, file: str, text: str
) -> None:
    path = Path(os.environ["HOME"], file)
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    code, told = run(machine, PATH="/usr/bin:/bin")
    assert (code, told[f"{title}: connection"]["level"]) == (1, "error")
    assert path.name in told[f"{title}: connection"]["message"]


def test_an_unknown_agent_is_an_error(machine: Machine) -> None:
    done = machine.coffer("doctor", "curser")
    assert done.returncode == 1
    assert "There is no agent 'curser'" in done.stderr


def test_hooks_that_somebody_changed_are_told(machine: Machine) -> None:
    connected("cursor")
    file = Path(os.environ["HOME"], ".cursor", "hooks.json")
    file.write_text(file.read_text(encoding="utf-8").replace("coffer/bin", "elsewhere/bin"), encoding="utf-8")
    Path(os.environ["HOME"], ".cursor", "mcp.json").write_text("{}", encoding="utf-8")
    code, told = run(machine, "cursor")
    assert code == 1
    assert told["Cursor: hook"]["level"] == "error"
    file.write_text("{", encoding="utf-8")
    assert run(machine, "cursor")[1]["Cursor: hook"]["level"] == "error"


def test_a_launcher_that_is_gone_is_told(machine: Machine) -> None:
    connected("cursor")
    machine.up()
    (machine.home / "bin" / "coffer-hook").unlink()
    code, told = run(machine, "cursor")
    assert code == 1
    assert "coffer-hook cannot be run" in told["Daemon: launchers"]["message"]
    assert "ended with code 127" in told["Cursor: session"]["message"]
    machine.coffer("up")
    well(machine, "cursor")


def test_a_daemon_that_is_down_and_may_not_be_started_is_told(machine: Machine) -> None:
    connected("cursor")
    code, told = run(machine, "cursor", COFFER_AUTOSTART="0")
    assert code == 1
    assert "COFFER_AUTOSTART=0" in told["Daemon: daemon"]["message"]
    assert "it stayed silent" in told["Cursor: session"]["message"]
    assert machine.processes("coffer.daemon") == []


def test_a_daemon_that_hangs_is_told(machine: Machine) -> None:
    connected("cursor")
    pid = machine.up()["pid"]
    os.kill(pid, signal.SIGSTOP)
    code, told = run(machine, "cursor")
    os.kill(pid, signal.SIGCONT)
    assert code == 1
    assert f"process {pid} does not answer" in told["Daemon: daemon"]["message"]
    assert "it stayed silent" in told["Cursor: session"]["message"]


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        ("short, and cut off", "error", "and not all of it"),
        ("記" * 3_400 + "\n{marker}", "error", "10200 bytes arrived, and Cursor cuts what is over 10000"),
        ("short, and whole\n{marker}", "ok", "16 of at most 10000 bytes"),
    ],
)
def test_a_context_that_does_not_arrive_whole_is_told(
    machine: Machine, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, text: str, level: str, words: str
) -> None:
    monkeypatch.setenv("COFFER_AUTOSTART", "0")
    (agent,) = connected("cursor")

    def context(seen: Any) -> Reply:
        marker = next(part for part in seen.path.replace("&", "=").split("=") if part.startswith("doctor-"))
        return Reply(json.dumps({"additional_context": text.replace("{marker}", marker)}).encode())

    daemon.context = context

    def arrived() -> list[doctor.Check]:
        return [check for check in doctor.examine(agent.name, cwd="/") if check.name == "context"]

    (check,) = eventually(arrived)
    assert (check.level, words in check.message) == (level, True), check


def test_an_answer_in_another_agents_form_is_told() -> None:
    claude, cursor = Agent(name="a", type="claude_code"), Agent(name="b", type="cursor")
    nested = b'{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "x"}}'
    assert (rehearsal.taken(claude, nested), rehearsal.taken(cursor, nested)) == ("x", None)
    flat = b'{"additional_context": "x"}'
    assert (rehearsal.taken(claude, flat), rehearsal.taken(cursor, flat)) == (None, "x")
    for odd in (
        b"",
        b"text",
        b"[]",
        nested[:-1],
        b'{"additional_context": "x", "more": 1}',
        nested.replace(b"Start", b"End"),
    ):
        assert rehearsal.taken(claude, odd) is rehearsal.taken(cursor, odd) is None
