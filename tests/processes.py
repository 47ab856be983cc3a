"""Real processes in a test's own home: the command line, the daemon, shims; and proof that none of them stays."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agents import link
from coffer import launchers

PATIENCE = 30.0
PROC = Path("/proc")
HOOK_SECONDS = 5.0  # it promises 2; the rest is for starting processes on a machine that runs many tests at once
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test-client", "version": "1"}}


def eventually(condition: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What the condition gives as soon as it is true; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not so after {seconds:.0f} s: {condition}"
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; a defunct one does not."""
    return pid in dict(_running(pid))


def _running(*pids: int) -> Iterator[tuple[int, str]]:
    """These processes, or all, with their command lines; without those that are defunct."""
    if not PROC.is_dir():
        chosen = ["-p", ",".join(map(str, pids))] if pids else ["-e"]
        command = ["ps", "-ww", *chosen, "-o", "pid=,stat=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        rows = (line.split(None, 2) for line in listed)
        yield from ((int(row[0]), row[2]) for row in rows if len(row) == 3 and not row[1].startswith("Z"))
        return
    # No program is started for it: some tests ask until a process has ended.
    for pid in pids or [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]:
        with suppress(OSError):
            if (PROC / str(pid) / "stat").read_bytes().rpartition(b") ")[2][:1] != b"Z":
                words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
                yield pid, " ".join(map(os.fsdecode, words))


def answers() -> bool:
    """Whether a proven daemon answers in the test's home."""
    connection = link.connect()
    if connection is not None:
        connection.close()
    return connection is not None


class Machine:
    """One person's machine: a home, an environment, and what runs in it."""

    def __init__(self, coffer_home: Path, **environment: str) -> None:
        self.home = coffer_home
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(coffer_home.parent / "person"),
            "PYTHONPATH": link.ROOT,
            "COFFER_HOME": str(coffer_home),
            "COFFER_PORT": "0",
            **environment,
        }
        self._started: list[subprocess.Popen[Any]] = []

    def coffer(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one command line to its end."""
        command = [sys.executable, "-P", "-m", "coffer.cli", *words]
        env = {**self.env, **environment}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)

    def up(self) -> dict[str, Any]:
        """A running daemon, and what daemon.json says of it."""
        done = self.coffer("up")
        assert done.returncode == 0, done.stderr
        return self.daemon_file()

    def daemon_file(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "daemon.json").read_text(encoding="utf-8"))
        return found

    def popen(self, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a process that the end of the test ends."""
        process = subprocess.Popen(command, **{"env": self.env, **options})
        self._started.append(process)
        return process

    def shim(self, *arguments: str, **options: Any) -> "Shim":
        launchers_made = self.home / "bin" / "coffer-mcp-shim"
        assert launchers_made.exists(), "call launchers.write() first"
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return Shim(self.popen([str(launchers_made), *arguments], **{**pipes, **options}))

    def hook(
        self, given: Any = None, *, agent: str = "claude_code", event: str = "SessionStart", **options: Any
    ) -> "Fired":
        """Run a hook as an agent does, with this JSON (or these bytes) on stdin; it must end in time, with code 0."""
        data = given if isinstance(given, bytes) else b"" if given is None else json.dumps(given).encode()
        options = {"env": self.env, "cwd": self.home.parent, **options}
        if "stdin" not in options:
            options["input"] = data
        done = subprocess.run(
            self.hook_command(agent, event), capture_output=True, timeout=HOOK_SECONDS, check=False, **options
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return Fired(done.stdout)

    def told(self, given: Any = None, **options: Any) -> "Fired":
        """The same where an answer is due: a machine that is too busy for the limit of a hook gets more of them."""
        for _ in range(5):
            fired = self.hook(given, **options)
            if fired.stdout:
                break
        return fired

    def hook_command(self, agent: str = "claude_code", event: str = "SessionStart") -> list[str]:
        return [str(self.home / "bin" / "coffer-hook"), "--agent", agent, "--event", event]

    def processes(self, kind: str = "") -> list[int]:
        """The pids of all that name this home on their command line: daemon, cluster and shims."""
        return [pid for pid, args in _running() if str(self.home) in args and kind in args]

    def close(self) -> None:
        """End everything; fails when something had to be killed that should have ended by itself."""
        for process in self._started:
            for pipe in (process.stdin, process.stdout, process.stderr):
                with suppress(OSError, AttributeError):
                    pipe.close()
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        stopped = self.coffer("down") if self.processes() else None
        left = self.processes()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert stopped is None or stopped.returncode == 0, stopped and stopped.stderr
        assert not left, "processes were left over"


class Fired:
    """What a hook printed: nothing, or one line of JSON."""

    def __init__(self, stdout: bytes) -> None:
        self.stdout = stdout
        self.envelope: dict[str, Any] = json.loads(stdout) if stdout else {}
        assert stdout == b"" or stdout.endswith(b"}\n")
        assert stdout.count(b"\n") <= 1

    @property
    def context(self) -> str:
        """The text that the agent adds to its session, in whichever envelope; empty for silence."""
        inner = self.envelope.get("hookSpecificOutput", {})
        return str(inner.get("additionalContext") or self.envelope.get("additional_context") or "")


class Shim:
    """A client's end of a shim: lines in, answers out, in whatever order they come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._kept: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(ValueError):
            for line in self.process.stdout or ():
                self._answers.put(line)

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Any = None, request_id: Any = None, **more: Any) -> None:
        """Send a request, or a notification when it has no id."""
        body = {"jsonrpc": "2.0", "method": method, **more}
        if params is not None:
            body["params"] = params
        if request_id is not None:
            body["id"] = request_id
        self.write(json.dumps(body).encode())

    def answer(self, request_id: Any, seconds: float = PATIENCE) -> dict[str, Any]:
        """The answer to one request; others are kept for whoever asks for them."""
        key = json.dumps(request_id)
        deadline = time.monotonic() + seconds
        while key not in self._kept:
            found = json.loads(self._answers.get(timeout=max(0.01, deadline - time.monotonic())))
            self._kept[json.dumps(found.get("id"))] = found
        return self._kept.pop(key)

    def ask(self, method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
        self.send(method, params, request_id)
        return self.answer(request_id)

    def hello(self) -> dict[str, Any]:
        """The handshake of the 2025 era."""
        result = self.ask("initialize", HELLO, "hello")
        self.send("notifications/initialized")
        return result

    def silent(self) -> bool:
        """Whether nothing came that was not asked for."""
        return self._answers.empty() and not self._kept


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    """The test's home as a machine with launchers, on which nothing may be left running."""
    launchers.write()
    found = Machine(home)
    yield found
    found.close()
