"""The daemon's one ASGI application: the guard, then MCP behind the token, then Django for everything else.

MCP is loaded when it is first asked for: its SDK takes half a second, and at a session's start a hook waits that needs
none of it.
"""

import os
from typing import cast

from django.core.asgi import get_asgi_application

from coffer.deferred import Deferred
from coffer.guard import Application, Receive, Scope, Send, behind_token, guarded

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coffer.settings")
pages = cast(Application, get_asgi_application())

from coffer import llm  # noqa: E402 - models can only be imported once Django is set up

MCP_PATH = "/mcp"


def build() -> Application:
    """Assemble the application."""
    llm.keep_local_model()
    mcp = Deferred(_load_mcp)
    mcp_with_token = behind_token(mcp)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await mcp.close()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["path"] == MCP_PATH:
            await mcp_with_token(scope, receive, send)
        else:
            await pages(scope, receive, send)

    return guarded(route)


def _load_mcp() -> Application:
    from gateway import server  # noqa: PLC0415 - see above

    return server.http_app(MCP_PATH)


application = build()
