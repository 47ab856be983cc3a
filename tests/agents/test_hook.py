"""coffer-hook as a process, between an agent's pipes and a daemon: what it asks, and what it prints."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from agents import link
from tests.fake_daemon import CONTEXT, TOKEN, FakeDaemon, Reply, Seen
from tests.processes import Machine, answers, eventually

START = {"session_id": "s-1", "transcript_path": "/t.jsonl", "hook_event_name": "SessionStart", "source": "startup"}


def question(daemon: FakeDaemon) -> tuple[str, dict[str, str], Seen]:
    """The question that was asked: path, query, all of it."""
    *_, seen = daemon.asked()
    parts = urlsplit(seen.path)
    return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}, seen


def test_a_session_start_prints_the_context_of_the_sessions_place(machine: Machine, daemon: FakeDaemon) -> None:
    fired = machine.told({**START, "cwd": "/a/ü %41/b"})
    path, query, seen = question(daemon)
    assert path == "/api/v1/agents/claude_code/session-context"
    assert query == {"cwd": "/a/ü %41/b", "session_id": "s-1", "source": "startup"}
    assert (seen.headers["x-coffer-token"], seen.headers["x-coffer-hook"]) == (TOKEN, "1")
    assert fired.envelope == {
        "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": CONTEXT},
    }


@pytest.mark.parametrize("agent", ["codex", "gemini_cli", "opencode", "claude_code_2"])
def test_most_agents_share_one_envelope(machine: Machine, daemon: FakeDaemon, agent: str) -> None:
    assert machine.told({**START, "cwd": "/a"}, agent=agent).envelope["hookSpecificOutput"]
    assert question(daemon)[0] == f"/api/v1/agents/{agent}/session-context"


def test_cursor_has_an_envelope_and_a_way_to_name_its_place_of_its_own(machine: Machine, daemon: FakeDaemon) -> None:
    given = {"conversation_id": "c-1", "workspace_roots": ["/a/first", "/a/second"], "cursor_version": "3.18"}
    assert machine.told(given, agent="cursor").envelope == {"additional_context": CONTEXT}
    assert question(daemon)[1] == {"cwd": "/a/first", "session_id": "c-1"}


def test_cursor_that_runs_claudes_hook_is_served_as_cursor(machine: Machine, daemon: FakeDaemon) -> None:
    fired = machine.told({**START, "workspace_roots": ["/a"], "cursor_version": "3.18"}, agent="claude_code")
    assert fired.envelope == {"additional_context": CONTEXT}
    assert question(daemon)[0] == "/api/v1/agents/cursor/session-context"


def test_cursor_that_has_our_hook_itself_is_not_served_twice(machine: Machine, daemon: FakeDaemon) -> None:
    hooks = Path(machine.env["HOME"], ".cursor", "hooks.json")
    hooks.parent.mkdir()
    hooks.write_text('{"hooks": {"sessionStart": [{"command": "/x/bin/coffer-hook --agent cursor"}]}}')
    given = {**START, "workspace_roots": ["/a"], "cursor_version": "3.18"}
    assert machine.hook(given, agent="claude_code").stdout == b""
    assert machine.told(given, agent="cursor").context == CONTEXT
    assert len(daemon.asked()) == 1


def test_a_prompt_travels_in_the_body_and_a_silent_daemon_makes_a_silent_hook(
    machine: Machine, daemon: FakeDaemon
) -> None:
    given = {"session_id": "s-1", "cwd": "/a", "prompt": "Why does 検索 fail?\n" + "x" * 20_000}
    fired = machine.told(given, event="UserPromptSubmit")
    assert fired.envelope["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    path, query, seen = question(daemon)
    assert (path, query) == ("/api/v1/agents/claude_code/prompt-context", {})
    assert seen.body["prompt"].startswith("Why does 検索 fail?\nxxx")
    assert len(seen.body["prompt"]) == 8000
    assert (seen.body["cwd"], seen.body["session_id"]) == ("/a", "s-1")

    daemon.context = lambda seen: Reply(b'{"additional_context": ""}')
    assert machine.hook(given, event="UserPromptSubmit").stdout == b""


def test_the_end_of_a_session_is_posted_and_nothing_is_printed(machine: Machine, daemon: FakeDaemon) -> None:
    daemon.context = lambda seen: Reply(b'{"outcome": "skipped"}')
    given = {"session_id": "../ü", "cwd": "/a/ü", "reason": "other"}
    assert eventually(lambda: machine.hook(given, event="SessionEnd").stdout == b"" and daemon.asked())
    path, _, seen = question(daemon)
    assert unquote(path) == "/api/v1/agents/claude_code/sessions/../ü/end"
    assert path.count("/") == 7
    assert seen.body == {"cwd": "/a/ü"}


def test_the_end_of_a_session_without_an_id_is_not_posted(machine: Machine, daemon: FakeDaemon) -> None:
    machine.hook({"cwd": "/a"}, event="SessionEnd")
    assert daemon.asked() == []


@pytest.mark.parametrize("cwd", [None, 5, "", ".", "C:\\Users\\dev\\app", "c:/Users/dev/app"])
def test_without_a_usable_path_the_place_is_the_agents_own(
    machine: Machine, daemon: FakeDaemon, tmp_path: Path, cwd: object
) -> None:
    machine.told({**START, "cwd": cwd}, cwd=tmp_path)
    machine.env["CLAUDE_PROJECT_DIR"] = "/named/by/claude"
    machine.told({**START, "cwd": cwd}, cwd=tmp_path)
    places = [parse_qs(urlsplit(seen.path).query)["cwd"] for seen in daemon.asked()]
    assert places == [[str(tmp_path)], ["/named/by/claude"]]


@pytest.mark.parametrize(("agent", "name"), [("claude_code", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME")])
def test_a_folder_that_the_environment_moved_the_agent_to_is_told(
    machine: Machine, daemon: FakeDaemon, agent: str, name: str
) -> None:
    machine.env |= {"CLAUDE_CONFIG_DIR": "/other", "CODEX_HOME": "/other", name: f"/moved/{agent}"}
    machine.told({**START, "cwd": "/a"}, agent=agent)
    assert question(daemon)[1]["folder"] == f"/moved/{agent}"


def test_a_subagent_is_served_like_any_session(machine: Machine, daemon: FakeDaemon) -> None:
    given = {**START, "cwd": "/a", "agent_type": "general-purpose", "thread_source": "subagent"}
    assert machine.told(given).context == CONTEXT


@pytest.mark.parametrize("source", ["fork", "compact", "a source of tomorrow", 7])
def test_every_source_of_a_session_is_served(machine: Machine, daemon: FakeDaemon, source: object) -> None:
    assert machine.told({**START, "source": source, "cwd": "/a"}).context == CONTEXT


def test_what_is_printed_is_one_line_in_any_alphabet_and_no_longer_than_it_must_be(
    machine: Machine, daemon: FakeDaemon
) -> None:
    text = "第一\n第二\t\u2028😀 \\ </system> " + "記" * 3000
    daemon.context = lambda seen: Reply(json.dumps({"additional_context": text}).encode())
    machine.env["LC_ALL"] = "C"
    fired = machine.told({**START, "cwd": "/a"})
    assert fired.context == text
    assert len(fired.stdout) < len(text.encode()) + 150


def test_words_on_the_command_line_may_be_joined_and_others_are_ignored(machine: Machine, daemon: FakeDaemon) -> None:
    command = [machine.hook_command()[0], "--event=SessionStart", "--agent=codex", "--new", "thing"]
    done = subprocess.run(command, env=machine.env, input=b"", capture_output=True, timeout=10, check=True)
    assert CONTEXT in done.stdout.decode()
    for words in ([], ["--agent"], ["--event", "SessionStart"], ["--agent", "codex", "--event", "Stop"], ["-h"]):
        done = subprocess.run([command[0], *words], env=machine.env, input=b"", capture_output=True, check=True)
        assert done.stdout + done.stderr == b""


def test_a_failure_is_one_line_in_the_log_without_any_content(machine: Machine, daemon: FakeDaemon) -> None:
    (machine.home / "logs").mkdir()
    daemon.context = lambda seen: Reply(b'{"error": {"message": "secret words"}}', status=503)
    log = machine.home / "logs" / "hook.log"

    def last_line() -> str:
        assert machine.hook({**START, "cwd": "/secret/place", "prompt": "secret"}).stdout == b""
        return log.read_text(encoding="utf-8").splitlines()[-1]

    eventually(lambda: last_line().endswith("Z SessionStart 'claude_code' the daemon answered with status 503"))
    daemon.context = lambda seen: Reply(b"secret words")
    eventually(lambda: last_line().endswith("'claude_code' JSONDecodeError"))
    assert "secret" not in log.read_text(encoding="utf-8")
    assert log.stat().st_mode & 0o777 == 0o600


def test_the_log_begins_anew_when_it_is_full(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    (machine.home / "logs").mkdir()
    log = machine.home / "logs" / "hook.log"
    log.write_text("old\n" * 20_000)
    machine.hook(START)
    assert len(log.read_text(encoding="utf-8").splitlines()) == 1


def test_without_a_home_and_a_daemon_nothing_is_made(machine: Machine, tmp_path: Path) -> None:
    machine.env |= {"COFFER_AUTOSTART": "0", "COFFER_HOME": str(tmp_path / "none")}
    assert machine.hook(START).stdout == b""
    assert not (tmp_path / "none").exists()


def test_a_daemon_that_is_down_is_started_and_outlives_the_hook(machine: Machine) -> None:
    machine.hook({**START, "cwd": "/"})  # returns only when nobody holds its pipes any more
    eventually(answers)
    assert machine.processes("coffer-hook") == []
    assert len(machine.processes("coffer.daemon")) == 1
    assert link.lock_holder() == machine.daemon_file()["pid"]


def test_the_waiting_process_loads_nothing_and_the_asking_one_little() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import {}; print(*sys.modules)"
    loaded = [
        subprocess.run([sys.executable, "-IS", "-c", code.format(name), link.ROOT], capture_output=True, check=True)
        for name in ("agents.hook", "agents.question")
    ]
    waiting, asking = (set(one.stdout.decode().split()) for one in loaded)
    assert not waiting & {"json", "re", "socket", "http", "subprocess", "typing", "argparse", "contextlib"}
    assert not asking & {"argparse", "asyncio", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "typing"}
    assert not {name for name in asking if name.partition(".")[0] in ("coffer", "memory", "django", "mcp")}


def test_the_hook_is_a_command_of_the_installed_package(machine: Machine, daemon: FakeDaemon) -> None:
    code = "import sys; sys.argv = ['coffer-hook', '--agent', 'codex', '--event', 'SessionStart']; " + (
        "from agents.hook import main; sys.exit(main())"
    )
    env = {**machine.env, "COFFER_HOME": os.environ["COFFER_HOME"]}
    done = subprocess.run([sys.executable, "-c", code], env=env, input=b"{}", capture_output=True, check=True)
    assert CONTEXT in done.stdout.decode()
