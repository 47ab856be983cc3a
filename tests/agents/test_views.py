"""The pages about agents, without a browser's eyes: what they say, and that nothing in them is more than text."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents.models import Delivery
from agents.services import attachments, context, registration
from agents.services.places import place_of
from coffer import later, launchers, signin
from memory.services import facts, rules, stores


@pytest.fixture
def pages() -> Client:
    client = Client()
    client.force_login(signin.owner())
    return client


@pytest.fixture
def project(repo: Path) -> str:
    """A project's store with memory, whose folder is known."""
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, "The parser is slow.", actor="agent")
    rules.append(store, "Deploy with make.")
    rules.append(stores.provision("global"), "Ask before a push.")
    assert later.flush()
    return store.name


def read(response: Any) -> str:
    assert response.status_code == 200
    body = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", response.content.decode())
    return unescape(" ".join(re.sub(r"<[^>]+>", " ", body).split()))


def shown_bundle(response: Any) -> str:
    found = re.search(r'(?s)<pre class="bundle">(.*?)</pre>', response.content.decode())
    assert found
    return unescape(found[1])


def test_without_an_agent_the_page_says_what_finds_them(pages: Client) -> None:
    said = read(pages.get("/agents"))
    assert "0 agents" in said
    assert "coffer connect finds the coding agents on this machine" in said
    assert "Agents" in read(pages.get("/")), "the bar leads there"


def test_agents_on_the_machine_that_are_not_known_yet_are_named(pages: Client, home: Path) -> None:
    (home.parent / "person" / ".codex").mkdir()
    said = read(pages.get("/agents"))
    assert "Also on this machine: Codex." in said


def test_each_agent_shows_how_it_is_connected_and_what_reached_it(pages: Client, project: str) -> None:
    launchers.write()
    agent = registration.add("claude_code")
    folder = place_of(agent).folder
    folder.mkdir(parents=True)
    attachments.attach(agent, "hooks", "mcp")
    registration.add("codex")
    context.session_context("claude_code", cwd="/", session="s")
    Delivery.objects.create(agent="claude_code", event="SessionEnd", outcome="skipped")
    assert later.flush()
    page = pages.get("/agents")
    said = read(page)
    assert "2 agents" in said
    assert "Memory last reached it less than a minute ago" in said
    assert str(folder) in said
    assert "Hook installed; last fired" in said
    assert "Last capture 20" in said
    assert "(skipped)" in said
    assert "Beside prompts off" in said
    assert "Its own memory left as it is" in said
    assert "coffer connect codex" in said
    assert 'href="/agents/claude_code"' in page.content.decode()


def test_what_an_agent_needs_from_a_person_stands_on_its_card(pages: Client) -> None:
    agent = registration.add("claude_code")
    folder = place_of(agent).folder
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text("{")
    assert "settings.json" in read(pages.get("/agents"))
    assert "settings.json" in read(pages.get("/agents/claude_code"))


def test_one_agents_page_shows_exactly_what_a_session_would_get(pages: Client, project: str, repo: Path) -> None:
    agent = registration.add("codex")
    page = pages.get(f"/agents/codex?store={project}")
    text = context.preview(agent, stores.locate(str(repo))).text
    assert shown_bundle(page) == text
    assert f"{len(text.encode()):,} of at most 9,900 bytes, 3 items" in read(page)
    globally = pages.get("/agents/codex?store=global")
    assert "Ask before a push." in shown_bundle(globally)
    assert "Deploy with make." not in shown_bundle(globally)
    assert not Delivery.objects.exists()


def test_the_project_of_the_last_delivery_is_shown_first(pages: Client, project: str, repo: Path) -> None:
    context.session_context("codex", cwd=str(repo), session="s")
    assert later.flush()
    page = pages.get("/agents/codex")
    assert "Deploy with make." in shown_bundle(page)
    said = read(page)
    assert "Deliveries 1" in said
    assert "SessionStart delivered repo" in said


def test_unknown_agents_and_stores_are_pages_that_say_so(pages: Client) -> None:
    assert pages.get("/agents/nobody").status_code == 404
    registration.add("codex")
    assert pages.get("/agents/codex?store=project-00000000000000000000000000").status_code == 404
    assert pages.get("/agents/codex?store=../../etc").status_code == 404
    assert pages.post("/agents").status_code == 405


def test_a_page_needs_a_session(home: Path) -> None:
    for address in ("/agents", "/agents/codex"):
        assert Client().get(address).status_code != 200


def test_what_memory_holds_is_text_on_the_page(pages: Client) -> None:
    registration.add("codex")
    store = stores.provision("global")
    facts.remember(store, "Text.", title="<script>alert(1)</script> \u202e <img src=x onerror=alert(1)>", actor="agent")
    page = pages.get("/agents/codex").content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page


def test_deliveries_are_on_the_activity_page(pages: Client, project: str, repo: Path) -> None:
    context.session_context("codex", cwd=str(repo), session="s")
    assert later.flush()
    said = read(pages.get("/activity?source=deliveries"))
    assert "SessionStart codex" in said
    assert "1 event" in said
