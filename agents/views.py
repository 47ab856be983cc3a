"""The pages about agents: whether memory reaches each, and exactly what it would be told now."""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.models import Agent, Delivery
from agents.services import connections, context, deliveries, discovery, health, registration
from agents.services.connections import State
from agents.services.context import Context
from agents.services.health import Health
from agents.services.places import kind_of, place_of
from memory.services import stores

SHOWN = 50


@dataclass(frozen=True)
class Card:
    """One agent: how it is, how its files are, and where it was found."""

    health: Health
    state: State
    program: str
    folder: Path
    folder_exists: bool

    @property
    def name(self) -> str:
        return self.health.agent.name


@dataclass(frozen=True)
class Preview:
    """What a session in one project would begin with now."""

    store: str
    stores: list[tuple[str, str]]
    context: Context
    budget: int


@dataclass(frozen=True)
class Deliveries:
    rows: list[tuple[Delivery, str]]
    total: int


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Every known agent, and kinds that are on this machine without being known yet."""
    cards = [_card(one) for one in health.everyone()]
    return render(request, "agents/agents.html", {"cards": cards, "unknown": _unknown()})


@require_safe
def agent(request: HttpRequest, name: str) -> HttpResponse:
    """One agent: its state, what a session of it would be told, and what it was told."""
    found = registration.get(name)
    rows, total = deliveries.page(name, limit=SHOWN)
    names = {store.name: stores.display_name(store) for store in stores.all_stores()}
    page = {
        "card": _card(health.of(found)),
        "preview": _preview(found, request.GET.get("store", ""), rows, names),
        "deliveries": Deliveries([(row, names.get(row.project, row.project)) for row in rows], total),
    }
    return render(request, "agents/agent.html", page)


def _card(one: Health) -> Card:
    folder = place_of(one.agent).folder
    return Card(one, connections.state(one.agent), shutil.which(one.kind.program) or "", folder, folder.is_dir())


def _unknown() -> list[str]:
    """The titles of agents that are on this machine and have no row yet."""
    return [kind_of(one.type).title for one in discovery.found(os.environ) if one.pk is None]


def _preview(agent: Agent, chosen: str, rows: Iterable[Delivery], names: dict[str, str]) -> Preview:
    """For the project that was asked for, else for the one that the agent was last in."""
    name = chosen or next((row.project for row in rows if row.project in names), "global")
    made = context.preview(agent, context.place_in(name))
    return Preview(name, list(names.items()), made, context.budget())
