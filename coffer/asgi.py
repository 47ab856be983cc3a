"""The daemon's one ASGI application: the guard, then MCP behind the token, then Django for everything else.

Only the daemon imports this module: the MCP SDK alone takes 0.7 s to load.
"""

import os
from typing import cast

from django.core.asgi import get_asgi_application

from coffer.guard import Application, Receive, Scope, Send, behind_token, guarded

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coffer.settings")
pages = cast(Application, get_asgi_application())

from coffer import llm  # noqa: E402 - models can only be imported once Django is set up
from gateway import server  # noqa: E402 - as above


def build() -> Application:
    """Assemble the application; each one can go through lifespan once."""
    llm.keep_local_model()
    mcp = server.http_app()
    mcp_with_token = behind_token(mcp)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await mcp(scope, receive, send)
        elif scope["path"] == server.PATH:
            await mcp_with_token(scope, receive, send)
        else:
            await pages(scope, receive, send)

    return guarded(route)


application = build()
