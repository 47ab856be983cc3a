"""Admin pages about agents: what they list, and that their actions ask first and go through the services."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from agents.models import Agent, Delivery
from agents.services import hooks, registration
from agents.services.places import place_of
from coffer import launchers, signin


@pytest.fixture
def site() -> Client:
    client = Client()
    client.force_login(signin.owner())
    return client


@pytest.fixture
def agent() -> Agent:
    launchers.write()
    agent = registration.add("claude_code")
    place_of(agent).folder.mkdir(parents=True)
    return agent


def done(site: Client, verb: str, *names: str) -> str:
    """What the browser shows after a question was answered with yes."""
    address = reverse("admin:agents_agent_act", args=[verb])
    asked = site.get(f"{address}?key={names[0]}").content.decode()
    assert all(name in asked for name in names[:1])
    return site.post(address, {"keys": json.dumps(names)}, follow=True).content.decode()


def test_agents_are_listed_with_their_health_and_lead_to_their_pages(site: Client, agent: Agent) -> None:
    page = site.get(reverse("admin:agents_agent_changelist")).content.decode()
    assert "Claude Code" in page
    assert "not connected" in page
    assert 'href="/agents/claude_code"' in page
    assert "Add agent" not in page


def test_hooks_are_installed_and_uninstalled_after_asking(site: Client, agent: Agent) -> None:
    settings = place_of(agent).folder / "settings.json"
    site.get(reverse("admin:agents_agent_act", args=["install"]) + "?key=claude_code")
    assert not settings.exists(), "a question changes nothing"
    assert "Hooks installed, for so many agents: 1." in done(site, "install", "claude_code")
    assert hooks.status(agent).installed
    done(site, "uninstall", "claude_code")
    assert not hooks.status(agent).installed


def test_switches_go_through_the_services(site: Client, agent: Agent) -> None:
    done(site, "prompts-on", "claude_code")
    assert registration.get("claude_code").prompt_context
    done(site, "prompts-off", "claude_code")
    assert not registration.get("claude_code").prompt_context
    done(site, "memory-off", "claude_code")
    assert json.loads((place_of(agent).folder / "settings.json").read_text()) == {"autoMemoryEnabled": False}
    done(site, "memory-back", "claude_code")
    assert not registration.get("claude_code").disable_native_memory


def test_what_cannot_be_done_is_told_and_the_others_are_done(site: Client, agent: Agent) -> None:
    registration.add("hermes")
    page = done(site, "install", "claude_code", "hermes", "gone")
    assert "no hooks that Coffer knows" in page
    assert "There is no agent" in page
    assert hooks.status(agent).installed


def test_rows_are_neither_made_nor_changed_by_hand(site: Client, agent: Agent) -> None:
    page = site.get(reverse("admin:agents_agent_changelist")).content.decode()
    assert "/add/" not in page
    Delivery.objects.create(agent="codex", event="SessionStart", bytes=3100, items=12, ms=7.5, outcome="delivered")
    row = Delivery.objects.get()
    listed = site.get(reverse("admin:agents_delivery_changelist")).content.decode()
    assert "SessionStart" in listed
    assert "_selected_action" not in listed
    for verb, arguments in (("add", ()), ("delete", (row.pk,)), ("change", (row.pk,))):
        answer = site.post(reverse(f"admin:agents_delivery_{verb}", args=arguments), {"post": "yes"})
        assert answer.status_code == 403


def test_empty_lists_say_what_to_do(site: Client) -> None:
    page = site.get(reverse("admin:agents_agent_changelist")).content.decode()
    assert "coffer connect" in page
