"""Hooks and the agent that runs them: odd input, no end of it, pipes nobody reads, signals. Always code 0, in time."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agents import link
from tests.cases.steps import fingerprint
from tests.fake_daemon import CONTEXT, TOKEN, FakeDaemon, Reply
from tests.processes import HOOK_SECONDS, Machine, alive, eventually
from tests.rounds import rounds

START = {"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/a"}
PAYLOAD = json.dumps(START).encode()


def point_at(home: Path, port: int, pid: int = 1) -> None:
    (home / "token").write_text(TOKEN, encoding="utf-8")
    (home / "daemon.json").write_text(json.dumps({"pid": pid, "port": port}), encoding="utf-8")


@contextmanager
def open_pipe(data: bytes) -> Iterator[int]:
    """A pipe with something in it that nobody ever closes."""
    reader, writer = os.pipe()
    os.write(writer, data)
    yield reader
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("payload", [PAYLOAD, b"\xef\xbb\xbf " + PAYLOAD + b" \n", PAYLOAD[:-1], b""])
def test_bc032_an_end_of_stdin_that_never_comes_is_not_waited_for(
    machine: Machine, daemon: FakeDaemon, payload: bytes
) -> None:
    with open_pipe(payload) as stdin:
        assert machine.told(stdin=stdin).context == CONTEXT
    assert ("session_id=s-1" in daemon.asked()[0].path) == bool(payload)


def test_bc032_a_terminal_is_not_read(machine: Machine, daemon: FakeDaemon) -> None:
    controller, terminal = pty.openpty()
    os.write(controller, b"what a person types\n")
    assert machine.told(stdin=terminal).context == CONTEXT
    assert os.read(terminal, 100) == b"what a person types\n"
    os.close(terminal)
    os.close(controller)


def test_bc032_no_stdin_at_all_is_served_too(machine: Machine, daemon: FakeDaemon) -> None:
    assert machine.told(stdin=subprocess.DEVNULL).context == CONTEXT
    for closed in ("<&-", "<&- 2>&-"):
        command = f"exec '{machine.hook_command()[0]}' --agent codex --event SessionStart {closed}"
        done = subprocess.run(["sh", "-c", command], env=machine.env, capture_output=True, timeout=10, check=True)
        assert CONTEXT in done.stdout.decode()


def test_bc032_a_payload_in_pieces_is_put_together(machine: Machine, daemon: FakeDaemon) -> None:
    process = machine.popen(machine.hook_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for piece in (b'{"x": {}', b', "session_id": "s-', b'1", "cwd": "/a"}'):
        process.stdin.write(piece)
        process.stdin.flush()
    assert CONTEXT in process.stdout.read().decode()  # stdin is still open
    assert "session_id=s-1" in daemon.asked()[0].path


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"{}",
        b'{"cwd": 5, "session_id": [], "source": {}}',
        b'{"cwd": "/that/is/gone"}',
        b"a" * 5_000_000,
        b"\xff\xfe\x00",
        b'{"hook_event_name": "Tomorrow", "source": "fork"}',
        b"[" * 1_000_000,
        b'{"cwd": "half \\ud83d", "session_id": "\\u0000\\n\\r"}',
        b'{"workspace_roots": 3, "cursor_version": null}',
    ],
    ids=range(14),
)
@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd", "UserPromptSubmit"])
def test_bc033_odd_input_ends_with_code_0_and_one_valid_answer_or_none(
    machine: Machine, daemon: FakeDaemon, given: bytes, event: str
) -> None:
    if event == "SessionStart":
        assert machine.told(given).context == CONTEXT
    else:
        assert machine.hook(given, event=event).context in ("", CONTEXT)


def test_fifty_megabytes_are_read_and_only_what_is_needed_is_sent(machine: Machine, daemon: FakeDaemon) -> None:
    head = b'{"session_id": "s-1", "cwd": "/a", "nested": "\\"cwd\\": \\"/wrong\\"", "prompt": "'
    assert machine.told(head + b"x" * 50_000_000 + b'"}').context == CONTEXT
    assert "cwd=%2Fa&session_id=s-1" in daemon.asked()[0].path
    machine.told(head + b"x" * 900_000 + b'"}', event="UserPromptSubmit")
    assert len(daemon.asked()[1].line) < 9000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_hook_that_is_told_to_end_ends_well(machine: Machine, daemon: FakeDaemon, number: int) -> None:
    release = threading.Event()
    daemon.context = lambda seen: Reply(b"{}", after=release)
    process = machine.popen(machine.hook_command(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    eventually(daemon.asked)
    process.send_signal(number)
    assert process.wait(timeout=HOOK_SECONDS) == 0
    assert process.stderr.read() == b""
    release.set()
    eventually(lambda: machine.processes("coffer-hook") == [])


def test_nobody_who_reads_the_answer_is_no_error(machine: Machine, daemon: FakeDaemon) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        machine.hook_command(),
        env=machine.env,
        input=b"",
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=10,
        check=True,
    )
    assert done.stderr == b""
    os.close(writer)
    closed = f"exec '{machine.hook_command()[0]}' --agent codex --event SessionStart >&-"
    done = subprocess.run(["sh", "-c", closed], env=machine.env, input=b"", capture_output=True, timeout=10, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_does_not_read_is_left_alone(machine: Machine, daemon: FakeDaemon, blocking: bool) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 65536)
    os.set_blocking(writer, blocking)
    subprocess.run(machine.hook_command(), env=machine.env, input=b"", stdout=writer, timeout=HOOK_SECONDS, check=True)
    os.close(writer)
    os.close(reader)


def test_an_inner_process_that_hangs_beyond_help_is_left_behind(machine: Machine, daemon: FakeDaemon) -> None:
    release = threading.Event()
    daemon.context = lambda seen: Reply(b"{}", after=release)
    process = machine.popen(machine.hook_command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    eventually(daemon.asked)
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    )
    inner = int(listed.stdout)
    os.kill(inner, signal.SIGSTOP)
    assert process.communicate(timeout=HOOK_SECONDS)[0] == b""
    assert process.returncode == 0
    os.kill(inner, signal.SIGCONT)
    eventually(lambda: not alive(inner))
    release.set()


@pytest.mark.hold
def test_bc036_a_hook_killed_while_it_hands_over_leaves_nothing_behind(machine: Machine, daemon: FakeDaemon) -> None:
    release = threading.Event()
    daemon.context = lambda seen: Reply(b'{"outcome": "queued"}', after=release)
    before = fingerprint(machine.home)
    for _ in range(rounds(5)):
        daemon.seen.clear()
        process = machine.popen(machine.hook_command(event="SessionEnd"), stdin=subprocess.PIPE, start_new_session=True)
        process.stdin.write(PAYLOAD)
        process.stdin.close()
        eventually(daemon.asked)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    eventually(lambda: machine.processes("coffer-hook") == [])
    assert fingerprint(machine.home) == before
    release.set()


def test_bc036_a_daemon_that_takes_long_over_an_ended_session_holds_nobody_up(
    machine: Machine, daemon: FakeDaemon
) -> None:
    release = threading.Event()
    daemon.context = lambda seen: Reply(b'{"outcome": "queued"}', after=release)
    machine.hook(START, event="SessionEnd")
    release.set()


@pytest.mark.parametrize("limit", [20, 40])
def test_a_machine_without_memory_gets_silence(machine: Machine, daemon: FakeDaemon, limit: int) -> None:
    script = f'ulimit -v {limit * 1024}; exec "$@" 2>&1'
    command = ["sh", "-c", script, "sh", sys.executable, "-IS", "-c"]
    code = (
        "import os, sys; sys.path.append(sys.argv.pop()); from agents import hook; "
        "sys.argv = ['x', '--agent', 'codex', '--event', 'SessionStart']; hook.main()"
    )
    done = subprocess.run([*command, code, link.ROOT], env=machine.env, input=b"", capture_output=True, check=False)
    if b"MemoryError" in done.stdout or done.returncode == 127:
        pytest.skip("Python itself does not start with so little memory")
    assert done.returncode == 0
