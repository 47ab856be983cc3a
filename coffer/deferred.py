"""An ASGI application that loads with the first request for it, so that the daemon answers all others sooner."""

import asyncio
from collections.abc import Callable

from coffer.guard import Application, Message, Receive, Scope, Send


class Deferred:
    """The application of ``load``, which runs in a thread; its lifespan lasts from then on until ``close``."""

    def __init__(self, load: Callable[[], Application]) -> None:
        self._load = load
        self._loaded: asyncio.Task[Application] | None = None
        self._life: asyncio.Future[None] | None = None
        self._told: asyncio.Queue[Message] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._loaded is None or (self._loaded.done() and self._loaded.exception()):
            self._loaded = asyncio.create_task(self._start())
        # Shielded: a caller that goes away must not take the others' application with it.
        app = await asyncio.shield(self._loaded)
        await app(scope, receive, send)

    async def close(self) -> None:
        """End its lifespan, if it has begun; a later request would begin another."""
        if self._loaded is not None:
            await asyncio.wait([self._loaded])
            self._loaded = None
        if self._life is not None:
            self._told.put_nowait({"type": "lifespan.shutdown"})
            life, self._life = self._life, None
            await life

    async def _start(self) -> Application:
        app = await asyncio.to_thread(self._load)
        began = asyncio.Event()

        async def hear(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                began.set()

        scope: Scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
        self._life = asyncio.ensure_future(app(scope, self._told.get, hear))
        self._told.put_nowait({"type": "lifespan.startup"})
        waiting = asyncio.create_task(began.wait())
        await asyncio.wait([waiting, self._life], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not began.is_set():
            life, self._life = self._life, None
            raise life.exception() or RuntimeError("its lifespan ended before it began")
        return app
