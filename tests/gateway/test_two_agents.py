"""The outcome itself: the SDK's client over real shims and a real daemon, each a process of its own."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client

from tests.processes import Machine

MODES = ["legacy", "auto"]


def shim(machine: Machine, agent: str, cwd: Path, mode: str = "auto") -> Client:
    command = str(machine.home / "bin" / "coffer-mcp-shim")
    server = StdioServerParameters(command=command, args=["--agent", agent], env=machine.env, cwd=cwd)
    return Client(server, mode=mode, read_timeout_seconds=60)  # type: ignore[arg-type]


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"coffer__{tool}", arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("mode", MODES)
def test_what_one_agent_learns_another_knows(machine: Machine, repo: Path, mode: str) -> None:
    async def meet() -> None:
        async with shim(machine, "claude_code", repo, mode) as first, shim(machine, "codex", repo, "legacy") as second:
            saved = await told(first, "remember", text="The tests need a tty.")
            (hit,) = (await told(second, "recall", query="what do the tests need"))["hits"]
            assert (hit["id"], hit["text"]) == (saved["id"], "The tests need a tty.")

            path = Path(saved["path"])
            path.write_text(path.read_text("utf-8").replace("a tty", "a database"), "utf-8")
            (hit,) = (await told(second, "recall", query="what do the tests need"))["hits"]
            assert hit["text"] == "The tests need a database."

            await told(second, "set_handoff", body="Doing: the retry queue.")
            assert (await told(first, "resume"))["body"] == "Doing: the retry queue."

    asyncio.run(meet())


def test_two_processes_write_at_once_while_a_third_recalls(machine: Machine, make_repo: Callable[..., Path]) -> None:
    remote = "git@git.example.org:acme/widget.git"
    checkouts = [make_repo(name, remote=remote) for name in ("one", "two")]

    async def meet() -> None:
        async with AsyncExitStack() as stack:
            one, two, three = [
                await stack.enter_async_context(shim(machine, agent, cwd))
                for agent, cwd in (("a", checkouts[0]), ("b", checkouts[1]), ("c", checkouts[0]))
            ]
            writes = asyncio.gather(
                *(
                    told(client, "remember", text=f"widget {name} {count:02}")
                    for client, name in ((one, "left"), (two, "right"))
                    for count in range(20)
                )
            )
            recalls = 0
            while not writes.done():
                await told(three, "recall", query="widget")
                recalls += 1
            saved = await writes
            assert recalls
            assert len({fact["id"] for fact in saved}) == len({fact["path"] for fact in saved}) == 40
            assert (await told(three, "list_memory"))["total"] == 40
            await told(one, "remember", text="one more")
            await told(two, "remember", text="and one more")

    asyncio.run(meet())


@pytest.mark.parametrize("where", ["root", "plain"])
def test_a_client_that_starts_outside_a_project_can_still_use_what_is_global(
    machine: Machine, tmp_path: Path, where: str
) -> None:
    cwd = Path("/") if where == "root" else tmp_path / "plain"
    cwd.mkdir(exist_ok=True)

    async def meet() -> None:
        async with shim(machine, "codex", cwd) as client:
            assert len((await client.list_tools()).tools) == 5
            refused = await client.call_tool("coffer__remember", {"text": "x"})
            assert refused.is_error
            assert str(cwd) in refused.content[0].text  # type: ignore[union-attr]
            saved = await told(client, "remember", text="Everywhere.", scope="global")
            assert [hit["id"] for hit in (await told(client, "recall", query="everywhere"))["hits"]] == [saved["id"]]
            assert (await told(client, "resume"))["found"] is False

    asyncio.run(meet())
    assert not (machine.home / "memory" / "projects").exists()
