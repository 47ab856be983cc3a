"""What every request meets first, whatever it is for: pure ASGI functions around the daemon's one application.

Threats answered here: a website that rebinds its name to this machine (Host), a page that posts to us from a browser
(Origin), a body that fills the memory, another user or program without the token. A refusal comes before any handler
runs, so that it leaves no row, no store and no log line; it never repeats what was sent.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coffer import auth
from coffer.errors import CofferError, Forbidden, TooLarge, Unauthorized

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SIGN_IN = "/sign-in"  # `coffer open` posts its code here from a file, whose origin browsers call "null"
BODY_LIMIT = 8 * 1024 * 1024
_DRAIN_LIMIT = 8 * BODY_LIMIT  # read this much of a refused body, so that its sender gets to read the refusal


def guarded(app: Application) -> Application:
    """Let through only requests to a loopback name, from our own pages or no page, with a body of at most BODY_LIMIT.

    The application receives the body in one message. Websockets are refused; lifespan passes.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "http":
            try:
                _check_names(scope)
                body = await _body(receive)
            except CofferError as error:
                await refuse(error, send)
            else:
                if body is not None:
                    await app(scope, _replay(body, receive), send)
        else:
            await app(scope, receive, send)

    return guard


def behind_token(app: Application) -> Application:
    """Let through only requests that carry the daemon's token in ``X-Coffer-Token``; 401 otherwise."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        if auth.token_matches(_header(scope, b"x-coffer-token")):
            await app(scope, receive, send)
        else:
            hint = "Send the token from COFFER_HOME/token in the header X-Coffer-Token."
            await refuse(Unauthorized(hint), send)

    return check


async def refuse(error: CofferError, send: Send) -> None:
    """Answer with the error's status and ``{"error": {"code", "message", "details"}}``."""
    body = json.dumps({"error": error.as_dict()}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _check_names(scope: Scope) -> None:
    if not auth.host_allowed(_header(scope, b"host")):
        raise Forbidden("The Host header names another machine; use 127.0.0.1, localhost or [::1].")
    origin = _header(scope, b"origin")
    if origin == "null" and (scope["method"], scope["path"]) == ("POST", SIGN_IN):
        return
    if not auth.origin_allowed(origin, scope["server"][1]):
        raise Forbidden("The request comes from a page of another site; only Coffer's own pages may ask.")


def _header(scope: Scope, name: bytes) -> str | None:
    """A header's value; one that was sent twice is joined, and so never equals what is expected."""
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(values) if values else None


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None when the client left; TooLarge once it has been read as far as we are willing to."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= _DRAIN_LIMIT:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        if size <= BODY_LIMIT:
            parts.append(part)
        else:
            parts.clear()
    if size > BODY_LIMIT:
        raise TooLarge(f"The request is larger than {BODY_LIMIT} bytes; send less at once.", limit=BODY_LIMIT)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay
