"""The index of memory as an MCP resource: over HTTP in both protocol eras, and through a real shim."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import MCPError
from mcp.client.client import Client
from mcp_types import TextResourceContents

from coffer import asgi, later
from gateway.models import Invocation
from gateway.resources import INDEX
from memory.services import facts, rules, stores
from tests.gateway.test_server import BOTH, run, told
from tests.processes import Machine
from tests.serving import serving


@pytest.fixture
def address() -> Iterator[str]:
    with serving(asgi.build()) as address:
        yield address


@pytest.fixture
def memory(repo: Path) -> str:
    """A project that remembers something; its store's name."""
    store = stores.for_writing(stores.locate(str(repo)), "project")
    for number in range(3):
        facts.remember(store, f"Fact {number}.", actor="agent")
    rules.append(store, "Deploy with make.")
    facts.remember(stores.provision("global"), "A global fact.", actor="user")
    return store.name


async def read(client: Client) -> str:
    (content,) = (await client.read_resource(INDEX.name)).contents
    assert isinstance(content, TextResourceContents)
    assert (str(content.uri), content.mime_type) == (INDEX.name, "text/markdown")
    return content.text


@pytest.mark.parametrize("mode", BOTH)
def test_the_index_is_listed_and_read_for_where_its_reader_stands(
    address: str, repo: Path, memory: str, mode: str, tmp_path: Path
) -> None:
    async def talk(client: Client) -> None:
        (resource,) = (await client.list_resources()).resources
        assert str(resource.uri) == "coffer://memory/index"
        assert resource.description
        assert (await client.list_resource_templates()).resource_templates == []
        text = await read(client)
        assert "### Known topics\n- Fact 2.\n- Fact 1.\n- Fact 0.\n" in text
        assert "- A global fact." in text
        assert "Deploy with make." not in text

    run(address, repo, talk, mode)

    async def outside(client: Client) -> None:
        text = await read(client)
        assert "- A global fact." in text
        assert "Fact 0." not in text

    run(address, tmp_path, outside, mode)
    assert later.flush()
    row = Invocation.objects.filter(project=memory).get()
    assert (row.tool, row.items, row.outcome) == (INDEX.name, 4, "ok")


def test_the_index_names_the_titles_of_list_memory_in_its_order(address: str, repo: Path, memory: str) -> None:
    async def talk(client: Client) -> None:
        listed = [fact["title"] for fact in (await told(client, "list_memory"))["facts"]]
        lines = (await read(client)).split("### Known topics\n")[1].split("\n\n")[0].split("\n")
        assert lines == [f"- {title}" for title in listed]

    run(address, repo, talk)


@pytest.mark.parametrize("mode", BOTH)
def test_another_address_is_an_error_that_names_ours(address: str, repo: Path, mode: str) -> None:
    async def talk(client: Client) -> None:
        for uri in ("coffer://memory/other", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="coffer://memory/index"):
                await client.read_resource(uri)

    run(address, repo, talk, mode)
    assert later.flush()
    assert not Invocation.objects.exists()


def test_an_agent_reads_it_through_the_shim(machine: Machine, repo: Path, memory: str) -> None:
    assert later.flush()
    machine.up()
    shim = machine.shim("--agent", "codex", cwd=os.fspath(repo))
    assert "resources" in shim.hello()["result"]["capabilities"]
    assert [one["uri"] for one in shim.ask("resources/list")["result"]["resources"]] == [INDEX.name]
    (content,) = shim.ask("resources/read", {"uri": INDEX.name}, 2)["result"]["contents"]
    assert "- Fact 2.\n- Fact 1.\n- Fact 0.\n" in content["text"]
