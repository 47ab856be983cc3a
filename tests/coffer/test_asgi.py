"""The guard in front of everything, over real HTTP and, for what HTTP clients cannot send, as plain ASGI."""

import asyncio
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from coffer import asgi, auth
from coffer.guard import BODY_LIMIT, guarded
from coffer.models import AuditEntry
from tests.serving import serving

ROUTES = ["/mcp", "/api/v1/memory_stores", "/api/v1/daemon/status", "/admin/login/", "/static/admin/css/base.css", "/x"]
FOREIGN = ["evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example", "", "0.0.0.0", "127.0.0.1:8x"]
OURS = ["localhost:{port}", "127.0.0.1:{port}", "[::1]:{port}", "LOCALHOST:{port}", "localhost", "127.0.0.1", "[::1]"]


@pytest.fixture
def address() -> Iterator[str]:
    with serving(asgi.build()) as address:
        yield address


def ask(
    address: str, method: str, path: str, *, host: str | None = None, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", address if host is None else host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    with connection.getresponse() as response:
        raw = response.read()
        is_json = response.headers.get_content_type() == "application/json"
    connection.close()
    return response.status, json.loads(raw) if is_json else {}


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_host_is_refused_on_every_route_before_any_handler(address: str, host: str) -> None:
    name = host.format(port=address.partition(":")[2])
    deceit = {"X_Forwarded_Host": "localhost", "X_Coffer_Token": auth.token()}
    for path in ROUTES:
        for method in ("GET", "POST"):
            status, answer = ask(address, method, path, host=name, **deceit)
            assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")
    assert not AuditEntry.objects.exists()


def test_every_way_to_name_this_machine_is_accepted(address: str) -> None:
    for host in OURS:
        name = host.format(port=address.partition(":")[2])
        assert ask(address, "GET", "/api/v1/daemon/status", host=name)[0] == 200
        assert listed(address, host=name) == 200


def listed(address: str, **headers: str) -> int:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    given = {"Content_Type": "application/json", "Accept": "application/json", "X_Coffer_Token": auth.token()}
    return ask(address, "POST", "/mcp", body=body, **{**given, **headers})[0]


def test_a_page_of_another_site_is_refused(address: str) -> None:
    port = address.partition(":")[2]
    for origin in (
        "http://evil.example",
        "null",
        "http://localhost:1",
        f"https://localhost:{port}",
        "http://[::1",
        "x",
    ):
        for path in ROUTES:
            status, answer = ask(address, "GET", path, Origin=origin)
            assert (status, answer["error"]["code"]) == (403, "FORBIDDEN")


def test_our_own_pages_may_ask(address: str) -> None:
    port = address.partition(":")[2]
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert ask(address, "GET", "/api/v1/daemon/status", Origin=f"http://{name}:{port}")[0] == 200


def test_mcp_needs_the_token_and_takes_it_from_its_header_only(address: str) -> None:
    token = auth.token()
    for headers in ({}, {"X_Coffer_Token": token[:-1]}, {"Cookie": f"X-Coffer-Token={token}"}, {"X_Coffer_Token": ""}):
        status, answer = ask(address, "POST", "/mcp", **headers)
        assert (status, answer["error"]["code"]) == (401, "UNAUTHORIZED")
        assert "COFFER_HOME/token" in answer["error"]["message"]
    assert ask(address, "POST", f"/mcp?token={token}")[0] == 401
    assert listed(address) == 200


def test_a_body_beyond_the_limit_is_refused_with_or_without_a_declared_length(address: str) -> None:
    status, answer = ask(address, "POST", "/api/v1/memory_stores", body=b"x" * (BODY_LIMIT + 1))
    assert (status, answer["error"]["code"]) == (413, "TOO_LARGE")

    connection = http.client.HTTPConnection(address, timeout=20)
    pieces = (b"x" * 65536 for _ in range(BODY_LIMIT // 65536 + 1))
    connection.request("POST", "/mcp", body=pieces, headers={"X-Coffer-Token": auth.token()}, encode_chunked=True)
    with connection.getresponse() as response:
        assert response.status == 413
        assert json.loads(response.read())["error"]["details"] == {"limit": BODY_LIMIT}
    connection.close()


def test_a_body_of_exactly_the_limit_reaches_the_application() -> None:
    sizes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        sizes.append(len((await receive())["body"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with serving_plain(app) as address:
        assert ask(address, "POST", "/", body=b"x" * BODY_LIMIT)[0] == 200
    assert sizes == [BODY_LIMIT]


def serving_plain(app: Any) -> Any:
    async def with_lifespan(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return await app(scope, receive, send)
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})

    return serving(guarded(with_lifespan))


def plain(scope: dict[str, Any], incoming: list[dict[str, Any]]) -> tuple[list[Any], list[str]]:
    """Send messages to a guarded application that notes that it was reached."""
    sent: list[Any] = []
    reached: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    async def receive() -> Any:
        return incoming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guarded(app)({"server": ("127.0.0.1", 8765), **scope}, receive, send))
    return sent, reached


def test_websockets_are_refused() -> None:
    scope = {"type": "websocket", "path": "/mcp", "headers": [(b"host", b"localhost")]}
    sent, reached = plain(scope, [{"type": "websocket.connect"}])
    assert (sent, reached) == ([{"type": "websocket.close", "code": 1008}], [])


def test_a_header_sent_twice_is_refused() -> None:
    twice = [(b"host", b"localhost"), (b"host", b"evil.example")]
    sent, reached = plain({"type": "http", "path": "/", "headers": twice}, [])
    assert (sent[0]["status"], reached) == (403, [])


def test_a_client_that_leaves_while_it_sends_reaches_nobody() -> None:
    scope = {"type": "http", "path": "/", "headers": [(b"host", b"localhost")]}
    half = {"type": "http.request", "body": b"half", "more_body": True}
    assert plain(scope, [half, {"type": "http.disconnect"}]) == ([], [])


def test_a_request_without_a_host_is_refused(address: str) -> None:
    name, _, port = address.partition(":")
    with socket.create_connection((name, int(port)), timeout=20) as wire:
        wire.sendall(b"GET /api/v1/daemon/status HTTP/1.0\r\n\r\n")
        assert b" 403 " in wire.makefile("rb").readline()


def test_django_answers_beside_mcp(address: str) -> None:
    status, answer = ask(address, "GET", "/api/v1/daemon/status?nonce=n")
    assert status == 200
    assert answer["proof"] == auth.proof("n", int(address.partition(":")[2]))
    assert ask(address, "GET", "/mcp/")[0] == 401  # a page as any other


def test_only_the_exchange_of_a_code_may_come_from_a_file(address: str) -> None:
    assert ask(address, "POST", "/sign-in", Origin="null")[0] == 401
    for method, path in (("GET", "/sign-in"), ("POST", "/sign-in/"), ("POST", "/"), ("POST", "/api/v1/memory_stores")):
        assert ask(address, method, path, Origin="null")[0] == 403
    assert ask(address, "POST", "/sign-in", Origin="null", host="evil.example")[0] == 403
