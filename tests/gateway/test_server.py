"""The MCP server as its clients meet it: the SDK's own client over real HTTP, in both protocol eras."""

import asyncio
import json
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp import MCPError
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from coffer import asgi, auth, later
from gateway import server
from gateway.caller import Caller
from gateway.models import Invocation
from gateway.tools import TOOLS, Answer, Tool
from tests.serving import serving

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28", "2026-07-28": "2026-07-28"}
BOTH = [pytest.param("legacy", id="handshake era"), pytest.param("auto", id="2026 era")]


@pytest.fixture
def address() -> Iterator[str]:
    with serving(asgi.build()) as address:
        yield address


@asynccontextmanager
async def connected(address: str, cwd: Path | str, mode: str = "auto", agent: str = "codex") -> AsyncIterator[Client]:
    headers = {"X-Coffer-Token": auth.token(), "X-Coffer-Cwd": quote(str(cwd)), "X-Coffer-Agent": agent}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"http://{address}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:  # type: ignore[arg-type]
            yield client


def run(address: str, cwd: Path | str, talk: Callable[[Client], Awaitable[Any]], mode: str = "auto") -> Any:
    """Let one client talk to the server."""

    async def meet() -> Any:
        async with connected(address, cwd, mode) as client:
            return await talk(client)

    return asyncio.run(meet())


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of an answer that is none of an error, and the same as text."""
    result = await client.call_tool(f"coffer__{tool}", arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    assert len(result.content) == 1
    return result.structured_content


@pytest.mark.parametrize(("mode", "version"), ERAS.items())
def test_both_eras_list_the_five_tools_and_say_who_answers(address: str, repo: Path, mode: str, version: str) -> None:
    async def talk(client: Client) -> None:
        assert client.protocol_version == version
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(TOOLS)
        for tool in listed:
            assert tool.input_schema == TOOLS[tool.name].input_schema
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint == tool.name.endswith(("recall", "list_memory", "resume"))
            assert tool.meta == {"anthropic/alwaysLoad": True}
        if mode != "2026-07-28":  # pinned without asking: the client makes the server's introduction up
            assert client.server_info.name == "coffer"
            assert client.instructions == server.INSTRUCTIONS
            announced = client.server_capabilities.model_dump(exclude_none=True)
            assert announced == {
                "tools": {"list_changed": False},
                "resources": {"list_changed": False, "subscribe": False},
            }

    run(address, repo, talk, mode)


@pytest.mark.parametrize(("writer", "reader"), [("legacy", "auto"), ("auto", "legacy")])
def test_what_a_client_of_one_era_remembers_one_of_the_other_recalls(
    address: str, repo: Path, writer: str, reader: str
) -> None:
    saved = run(address, repo, lambda client: told(client, "remember", text="Tests need a tty. 中文 😀"), writer)
    found = run(address, repo, lambda client: told(client, "recall", query="what do tests need"), reader)
    assert [(hit["id"], hit["text"]) for hit in found["hits"]] == [(saved["id"], "Tests need a tty. 中文 😀")]


@pytest.mark.parametrize("mode", BOTH)
def test_a_domain_error_is_a_tool_error_with_code_and_message(address: str, tmp_path: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        for tool, arguments, text in (
            ("remember", {"text": "x"}, f"SCOPE_UNRESOLVED: {tmp_path} is not inside"),
            ("remember", {"text": " ", "scope": "global"}, "MEMORY_REJECTED: The text is empty"),
            ("recall", {"query": "x", "scope": "all"}, "INVALID: scope is 'all'; use project, global or both."),
            ("recall", {"query": "x", "top_k": "5"}, "INVALID: top_k must be a whole number."),
            ("recall", {}, "INVALID: coffer__recall needs the argument query."),
        ):
            result = await client.call_tool(f"coffer__{tool}", arguments)
            assert result.is_error
            assert result.structured_content is None
            assert result.content[0].text.startswith(text)  # type: ignore[union-attr]

    run(address, tmp_path, talk, mode)


@pytest.mark.parametrize("mode", BOTH)
def test_a_tool_that_does_not_exist_is_a_protocol_error_and_leaves_no_row(address: str, repo: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        with pytest.raises(MCPError, match="coffer__recall, coffer__remember"):
            await client.call_tool("coffer__forget", {})

    run(address, repo, talk, mode)
    assert later.flush()
    assert not Invocation.objects.exists()


def test_a_client_without_the_shim_is_known_by_the_name_it_gives_itself(address: str, repo: Path) -> None:
    async def meet() -> None:
        headers = {"X-Coffer-Token": auth.token()}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(f"http://{address}/mcp", http_client=http)
            async with Client(transport, client_info=Implementation(name="My-Client", version="1")) as client:
                where: Any = {"coffer/cwd": str(repo)}
                result = await client.call_tool("coffer__resume", {}, meta=where)
                assert result.structured_content["project"]["root"] == str(repo)

    asyncio.run(meet())
    assert later.flush()
    assert Invocation.objects.get().agent == "my_client"


def test_twenty_writes_at_once_are_twenty_files(address: str, repo: Path) -> None:
    start = "the same first forty characters of a fact"

    async def talk(client: Client) -> None:
        saved = await asyncio.gather(*[told(client, "remember", text=f"{start} {n:02}") for n in range(20)])
        assert len({one["id"] for one in saved}) == len({one["path"] for one in saved}) == 20
        assert all(Path(one["path"]).is_file() for one in saved)
        assert (await told(client, "list_memory"))["total"] == 20
        assert len((await told(client, "recall", query=start, top_k=20))["hits"]) == 20

    run(address, repo, talk)


@pytest.mark.parametrize("mode", BOTH)
def test_large_texts_travel_whole_and_too_large_ones_end_no_session(address: str, repo: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        saved = await told(client, "remember", text="😀" * 8192)
        assert "😀" * 8192 in Path(saved["path"]).read_text("utf-8")
        refused = await client.call_tool("coffer__remember", {"text": "x" * 5_000_000})
        assert refused.is_error
        assert refused.content[0].text.startswith("MEMORY_REJECTED: ")  # type: ignore[union-attr]
        for count in range(20):
            await told(client, "remember", text=f"widget {count} " + "word " * 1600)
        hits = (await told(client, "recall", query="widget", top_k=20))["hits"]
        assert len(hits) == 20

    run(address, repo, talk, mode)


@pytest.mark.parametrize("mode", BOTH)
def test_a_slow_call_does_not_delay_quick_ones(
    address: str, repo: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def slow(caller: Caller) -> Answer:
        return Answer({"released": release.wait(timeout=20)}, 0)

    monkeypatch.setitem(TOOLS, "coffer__slow", Tool("coffer__slow", "", "", {}, slow, read_only=True, idempotent=True))

    async def talk(client: Client) -> None:
        waiting = asyncio.create_task(told(client, "slow"))
        for _ in range(10):
            await told(client, "recall", query="anything")
        assert not waiting.done()
        release.set()
        assert await waiting == {"released": True}

    run(address, repo, talk, mode)


def test_reading_goes_on_and_writing_succeeds_while_somebody_holds_the_database(
    address: str, repo: Path, home: Path
) -> None:
    async def talk(client: Client) -> None:
        first = await told(client, "remember", text="Before the lock.")
        other = sqlite3.connect(home / "coffer.sqlite3", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            found = await told(client, "recall", query="before the lock")
            assert [hit["id"] for hit in found["hits"]] == [first["id"]]
            during = await told(client, "remember", text="The parser is slow.")
            assert Path(during["path"]).is_file()
            assert during["indexed"] is False
            assert (await told(client, "set_handoff", body="A scene."))["status"] == "saved"
            assert (await told(client, "resume"))["body"] == "A scene."
        finally:
            other.execute("ROLLBACK")
            other.close()
        hits = (await told(client, "recall", query="parser slow"))["hits"]
        assert hits[0]["id"] == during["id"]

    run(address, repo, talk)


@pytest.mark.parametrize("damage", ["deleted", "overwritten", "emptied"])
def test_a_database_that_is_lost_between_two_calls_costs_nothing(
    address: str, repo: Path, home: Path, damage: str
) -> None:
    async def talk(client: Client) -> None:
        saved = await told(client, "remember", text="Kept in a file.")
        assert later.flush()
        database = home / "coffer.sqlite3"
        for leftover in home.glob("coffer.sqlite3-*"):
            leftover.unlink()
        if damage == "deleted":
            database.unlink()
        else:
            database.write_bytes(b"no database " * 4000 if damage == "overwritten" else b"")
        found = await told(client, "recall", query="kept in a file")
        assert [hit["id"] for hit in found["hits"]] == [saved["id"]]
        assert (await told(client, "remember", text="And one more."))["indexed"] is True

    run(address, repo, talk)


def test_the_file_is_what_counts_after_an_edit_by_hand(address: str, repo: Path) -> None:
    async def talk(client: Client) -> None:
        saved = await told(client, "remember", text="The port is 8080.")
        path = Path(saved["path"])
        path.write_text(path.read_text("utf-8").replace("8080", "9090"), "utf-8")
        (hit,) = (await told(client, "recall", query="which port"))["hits"]
        assert hit["text"] == "The port is 9090."

    run(address, repo, talk)


def post(address: str, body: bytes, **headers: str) -> httpx2.Response:
    common = {"X-Coffer-Token": auth.token(), "Content-Type": "application/json", "Accept": "application/json"}
    return httpx2.post(f"http://{address}/mcp", content=body, headers={**common, **headers}, timeout=30)


@pytest.mark.parametrize("era", ["handshake", "2026"])
def test_half_a_surrogate_pair_costs_one_character_not_the_call(address: str, repo: Path, era: str) -> None:
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in
            (("protocolVersion", "2026-07-28"), ("clientCapabilities", {}))}  # fmt: skip
    params = {"name": "coffer__remember", "arguments": {"text": "TEXT"}, "_meta": meta if era == "2026" else {}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    modern = {"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "coffer__remember"}
    text = rb"half \ud83d, whole \ud83d\ude00, written \\ud83d, back \ude00"
    answer = post(
        address,
        body.encode().replace(b"TEXT", text),
        **{"X-Coffer-Cwd": quote(str(repo)), **(modern if era == "2026" else {})},
    )
    path = Path(answer.json()["result"]["structuredContent"]["path"])
    assert "half \ufffd, whole 😀, written \\ud83d, back \ufffd" in path.read_text("utf-8")


def test_only_post_is_answered(address: str) -> None:
    for method in ("GET", "DELETE", "PUT"):
        headers = {"X-Coffer-Token": auth.token(), "Accept": "text/event-stream"}
        answer = httpx2.request(method, f"http://{address}/mcp", headers=headers, timeout=10)
        assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b"[" * 100_000])
def test_what_is_no_request_is_refused_and_the_next_one_answered(address: str, body: bytes) -> None:
    assert 400 <= post(address, body).status_code < 500
    assert post(address, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}').json()["result"] == {}


def test_neither_token_nor_content_reach_the_log(
    repo: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boom(caller: Caller, query: str) -> Answer:
        raise RuntimeError(f"with {query}")

    probe = Tool("coffer__boom", "", "", {"query": {"type": "string"}}, boom, read_only=True, idempotent=True)
    monkeypatch.setitem(TOOLS, "coffer__boom", probe)
    for name in ("coffer", "gateway", "memory", "django", "uvicorn"):
        monkeypatch.setattr(logging.getLogger(name), "level", logging.DEBUG)
    token = auth.token()

    async def talk(client: Client) -> None:
        await told(client, "remember", text="my-secret-words")
        await client.call_tool("coffer__boom", {"query": "my-secret-words"})

    # Served in here: pytest gives loggers that were there before a handler, and uvicorn then logs every request.
    with caplog.at_level(logging.DEBUG, "coffer"), serving(asgi.build()) as address:
        run(address, repo, talk)
        url = f"http://{address}/mcp"
        assert httpx2.post(f"{url}?token={token}", timeout=10).status_code == 401
        assert httpx2.post(url, headers={"X-Coffer-Token": token[:-2]}, timeout=10).status_code == 401
        assert later.flush()
    ours = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    assert "RuntimeError at test_server.py" in ours
    assert "my-secret-words" not in ours
    for start in range(len(token) - 6):
        assert token[start : start + 6] not in ours
