"""An application that loads with its first request: once for all who ask, again after a failure, and not before."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from coffer.deferred import Deferred
from coffer.guard import Application, Message, Receive, Scope, Send

ROOT = Path(__file__).parents[2]


class Recorder:
    """An application that notes what it meets, and fails at what it is told to."""

    def __init__(self, *, loads: int = 0, starts: int = 0) -> None:
        self.met: list[str] = []
        self._loads, self._starts = loads, starts

    def load(self) -> Application:
        self.met.append("load")
        if self.met.count("load") <= self._loads:
            raise OSError("the disk is away")
        return self._app

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            self.met.append("request")
            return
        for step in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{step}"
            self.met.append(step)
            if self.met.count("startup") <= self._starts:
                return
            await send({"type": f"lifespan.{step}.complete"})


async def ask(app: Deferred) -> None:
    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        pass

    await app({"type": "http"}, receive, send)


def test_it_is_loaded_once_for_all_who_ask_at_the_same_time() -> None:
    async def story() -> list[str]:
        recorder = Recorder()
        app = Deferred(recorder.load)
        await asyncio.gather(*(ask(app) for _ in range(5)))
        await app.close()
        return recorder.met

    assert asyncio.run(story()) == ["load", "startup", *["request"] * 5, "shutdown"]


def test_what_nobody_asked_for_is_never_loaded() -> None:
    recorder = Recorder()
    asyncio.run(Deferred(recorder.load).close())
    assert recorder.met == []


def test_a_failure_is_told_and_the_next_request_tries_again() -> None:
    async def story(recorder: Recorder, error: type[Exception]) -> list[str]:
        app = Deferred(recorder.load)
        with pytest.raises(error):
            await ask(app)
        await ask(app)
        await app.close()
        return recorder.met

    met = asyncio.run(story(Recorder(loads=1), OSError))
    assert met == ["load", "load", "startup", "request", "shutdown"]
    met = asyncio.run(story(Recorder(starts=1), RuntimeError))
    assert met == ["load", "startup", "load", "startup", "request", "shutdown"]


def test_a_caller_that_goes_away_leaves_the_others_their_application() -> None:
    async def story() -> list[str]:
        recorder = Recorder()
        app = Deferred(recorder.load)
        first = asyncio.create_task(ask(app))
        await asyncio.sleep(0)
        first.cancel()
        await ask(app)
        await app.close()
        return recorder.met

    assert asyncio.run(story()) == ["load", "startup", "request", "shutdown"]


def test_the_daemon_does_without_the_mcp_sdk_until_an_agent_calls() -> None:
    code = "import coffer.asgi, sys; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
