"""A real uvicorn in a thread of the test, so that HTTP is HTTP and the home is the test's."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free loopback port; yields ``127.0.0.1:<port>``."""
    # With its protocol named, asyncio turns Nagle off on what it accepts: else every answer takes 40 ms longer.
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = _Server(
            uvicorn.Config(app, lifespan="on", ws="none", proxy_headers=False, access_log=False, log_config=None)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        assert server.ready.wait(timeout=20)
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=20)
            assert not thread.is_alive()
