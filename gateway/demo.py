"""What ``coffer demo`` plays: two agents in one repository share one memory, and a person corrects a file by hand.

Everything is real but the agents' models: git, the daemon, and two shims as separate processes that speak MCP over
stdio. It happens in a temporary home and repository, of which nothing stays.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import link
from gateway.tools import TOOLS

_PATIENCE = 60.0  # seconds for any one answer; the first one starts the daemon
_PYTHON = (sys.executable, "-P", "-s", "-m")
_OTHERS = ("GIT_", "COFFER_", "CLAUDE_", "PYTHON")  # what must not reach the demo from the session that runs it

FACT = "Deploy with `make release`; never push tags by hand, because the tag job then runs twice."
WRONG, RIGHT = "make release", "make ship"
SCENE = "Doing: the retry queue.\nNext: the test for a lost connection.\nOpen: is five attempts enough?"


@dataclass(frozen=True)
class Step:
    """One thing that was shown, and whether it was as it should be."""

    title: str
    passed: bool
    detail: str = ""


class DemoFailed(Exception):
    """A step could not even be tried; the message says what happened."""


class Agent:
    """An MCP client with a process of its own: a shim in the repository, as an agent would start it."""

    def __init__(self, name: str, cwd: Path, env: dict[str, str]) -> None:
        self.name = name
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._count = 0
        self._process = subprocess.Popen(
            [*_PYTHON, "gateway.shim", "--agent", name], cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def greet(self) -> None:
        """Shake hands, as every client does first."""
        me = {"name": self.name, "version": "demo"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": me})
        self._send({"method": "notifications/initialized"})

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.request("tools/list", {})["tools"]]

    def call(self, tool: str, **arguments: str) -> dict[str, Any]:
        """The structured content of a tool's answer; DemoFailed when it is an error."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise DemoFailed(f"{tool} answered: {result['content'][0]['text']}")
        content: dict[str, Any] = result["structuredContent"]
        return content

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and wait for its answer; DemoFailed without one."""
        self._count += 1
        self._send({"id": self._count, "method": method, "params": params})
        while True:
            try:
                answer = json.loads(self._lines.get(timeout=_PATIENCE))
            except queue.Empty:
                raise DemoFailed(f"{self.name} got no answer to {method} within {_PATIENCE:.0f} s.") from None
            except ValueError:
                raise DemoFailed(f"{self.name}'s shim ended before it answered {method}.") from None
            if answer.get("id") == self._count:
                break
        if "error" in answer:
            raise DemoFailed(f"{method} failed: {answer['error'].get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    def close(self) -> None:
        """End the shim as its agent would: by closing its input."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - it was asked for above
        try:
            stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise DemoFailed(f"{self.name}'s shim has ended.") from error

    def _read(self) -> None:
        if self._process.stdout is not None:
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(b"")


def play() -> Generator[Step, None, None]:
    """Play the demo, a step at a time; DemoFailed when it cannot go on. Closing it early cleans up as well."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coffer-demo-"))).resolve()
        repository, env = _repository(folder), _environment(folder)
        stack.enter_context(_daemon(env))
        first, second = (stack.enter_context(_agent(name, repository, env)) for name in ("claude_code", "codex"))
        yield _tools_are_listed(first, second)
        saved = first.call("coffer__remember", text=FACT)
        yield Step("claude_code remembers a fact", saved["indexed"], f"“{FACT}”")
        yield _recalled(second, FACT, "codex, another process, recalls it")
        file = Path(saved["path"])
        yield Step("it is a markdown file that anyone can read", FACT in file.read_text("utf-8"), _shown(file))
        file.write_text(file.read_text("utf-8").replace(WRONG, RIGHT), "utf-8")
        yield _recalled(second, FACT.replace(WRONG, RIGHT), "corrected in any editor, it is recalled as corrected")
        scene = second.call("coffer__set_handoff", body=SCENE)
        yield Step("codex pauses and hands over", scene["status"] == "saved", f"branch {scene['branch']}")
        resumed = first.call("coffer__resume")
        yield Step("claude_code resumes from there", resumed.get("body") == SCENE, str(resumed.get("note", "")))
    yield Step("the daemon has ended and the demo's files are gone", not folder.exists())


def _tools_are_listed(first: Agent, second: Agent) -> Step:
    names = first.tools()
    return Step("two MCP clients, one daemon", names == second.tools() == list(TOOLS), ", ".join(names))


def _recalled(agent: Agent, expected: str, title: str) -> Step:
    answer = agent.call("coffer__recall", query="how do I deploy a release?")
    texts = [hit["text"] for hit in answer["hits"]]
    found = next((text for text in texts if expected in text), "")
    return Step(title, bool(found), f"“{expected}”" if found else f"recalled {texts!r}")


def _shown(file: Path) -> str:
    return f"{file}\n{file.read_text('utf-8').rstrip()}"


def _repository(folder: Path) -> Path:
    repository = folder / "shop"
    me = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost")
    for arguments in (
        ("init", "--quiet", str(repository)),
        ("-C", str(repository), *me, "commit", "--quiet", "--allow-empty", "--message=Start"),
    ):
        try:
            done = subprocess.run(["git", *arguments], env=_environment(folder), capture_output=True, check=False)
        except FileNotFoundError as error:
            raise DemoFailed("git was not found; install it first.") from error
        if done.returncode:
            raise DemoFailed(f"git could not make a repository: {done.stderr.decode(errors='replace').strip()}")
    return repository


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OTHERS)}
    ours = {"HOME": folder, "COFFER_HOME": folder / "coffer", "COFFER_PORT": 0, "PYTHONPATH": link.ROOT}
    no_config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": 1}
    return {**kept, **{name: str(value) for name, value in {**ours, **no_config}.items()}}


@contextmanager
def _agent(name: str, cwd: Path, env: dict[str, str]) -> Iterator[Agent]:
    agent = Agent(name, cwd, env)
    try:
        agent.greet()
        yield agent
    finally:
        agent.close()


@contextmanager
def _daemon(env: dict[str, str]) -> Iterator[None]:
    """The first shim starts the daemon by itself; ending it is left to us."""
    try:
        yield
    finally:
        down = [*_PYTHON, "coffer.cli", "down"]
        done = subprocess.run(down, env=env, capture_output=True, timeout=_PATIENCE, check=False)
    if done.returncode:
        raise DemoFailed(f"its daemon could not be ended: {done.stderr.decode(errors='replace').strip()}")
