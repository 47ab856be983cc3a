"""Connecting the agents of this machine: what would change, the change, and the proof that memory arrives."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agents.config_files import Edit
from agents.kinds import KINDS, Kind, Purpose
from agents.models import Agent
from agents.services import attachments, discovery, native_memory, registration, trust
from agents.services.places import folder_of_environment, kind_of, place_of
from coffer.errors import CofferError, Invalid


@dataclass(frozen=True)
class AgentPlan:
    """What would be done for one agent; ``refused`` says why nothing can be."""

    agent: Agent
    edits: list[Edit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: str = ""

    @property
    def kind(self) -> Kind:
        return kind_of(self.agent.type)

    @property
    def title(self) -> str:
        """The kind's name, and the agent's own when that is another one."""
        return self.kind.title if self.agent.name == self.agent.type else f"{self.kind.title} ({self.agent.name})"

    @property
    def changes(self) -> list[Edit]:
        return [edit for edit in self.edits if edit.changes]


@dataclass(frozen=True)
class Outcome:
    """What was done for one agent; ``trusted`` as in ``hooks.HookStatus``, ``problem`` says what failed."""

    plan: AgentPlan
    made: list[Edit] = field(default_factory=list)
    trusted: bool | None = None
    problem: str = ""


State = Literal["connected", "partly", "not connected", "unreadable", "by hand"]


def plan(names: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> list[AgentPlan]:
    """What connecting would change: every agent found on this machine, or those named. Nothing is written.

    An agent is found when its folder or its program is there; ``environment``, the caller's own by default, may name
    another folder. Raises NotFound and Invalid for a name that is no agent's or is not here.
    """
    environment = os.environ if environment is None else environment
    agents = discovery.named(names, environment) if names else discovery.found(environment)
    return [_planned(agent, environment) for agent in agents]


def plan_removal(names: Sequence[str] | None = None) -> list[AgentPlan]:
    """What disconnecting would change: every known agent, or those named. Nothing is written. Raises NotFound."""
    return [_planned_removal(agent) for agent in _known(names or ())]


def apply(plans: Sequence[AgentPlan], *, actor: str = "user") -> list[Outcome]:
    """Do what was planned, agent by agent: a problem with one keeps none of the others from it."""
    return [_applied(one, actor) for one in plans if not one.refused and one.edits]


def disconnect(names: Sequence[str] | None = None, *, actor: str = "user") -> list[Outcome]:
    """Give every file back: byte for byte where nobody else changed it since, else without our entries."""
    return apply(plan_removal(names), actor=actor)


def state(agent: Agent) -> State:
    """How an agent's files are: everything of ours stands, some of it, or nothing."""
    try:
        edits = attachments.plan(agent, *attachments.CONNECTION)
        if not edits:
            return "by hand"
        if not any(edit.changes for edit in edits):
            return "connected"
        undo = attachments.plan_undo(agent, *attachments.CONNECTION)
        return "partly" if any(edit.changes for edit in undo) else "not connected"
    except Invalid:
        return "unreadable"


def refusal(agent: Agent) -> str:
    """Why connecting an agent would be refused; "" when it would not be. Nothing is written."""
    return _planned(agent, os.environ).refused


def _known(names: Sequence[str]) -> list[Agent]:
    """Every row, or those named; and agents without one in whose files something of ours is."""
    rows = {agent.name: agent for agent in registration.listing()}
    lost = [discovery.candidate(kind, os.environ) for kind in KINDS.values() if kind.type not in rows]
    known = rows | {agent.name: agent for agent in lost if _planned_removal(agent).changes}
    return [known.get(name) or registration.get(name) for name in dict.fromkeys(names)] if names else [*known.values()]


def _planned(agent: Agent, environment: Mapping[str, str]) -> AgentPlan:
    kind = kind_of(agent.type)
    notes = [kind.note] if kind.note else []
    try:
        notes += _moved(agent, environment)
        purposes: tuple[Purpose, ...] = attachments.CONNECTION
        if agent.disable_native_memory:
            purposes = attachments.EVERYTHING
        return AgentPlan(agent, attachments.plan(agent, *purposes), notes)
    except CofferError as error:
        return AgentPlan(agent, notes=notes, refused=error.message)


def _planned_removal(agent: Agent) -> AgentPlan:
    try:
        return AgentPlan(agent, attachments.plan_undo(agent, *attachments.EVERYTHING))
    except CofferError as error:
        return AgentPlan(agent, refused=error.message)


def _moved(agent: Agent, environment: Mapping[str, str]) -> list[str]:
    """Follow the environment to another folder, or say why not: an agent that is connected stays where it is."""
    kind = kind_of(agent.type)
    folder = folder_of_environment(kind, environment)
    if agent.pk is None or agent.name != kind.type or folder in ("", str(place_of(agent).folder)):
        return []
    if any(place_of(other).folder == Path(folder) for other in registration.listing() if other.type == kind.type):
        return []
    if state(agent) not in ("connected", "partly"):
        agent.folder = folder
        return []
    return [
        f"The environment says that {kind.title} lives in {folder}; {agent.name} is connected in "
        f"{place_of(agent).folder}. `coffer agent add {kind.type} --name {kind.type}_2 --folder {folder}` adds another."
    ]


def _applied(one: AgentPlan, actor: str) -> Outcome:
    undo = any(edit.undo for edit in one.edits)
    try:
        if not undo:
            _register(one.agent)
        made = attachments.make(one.edits, actor=actor)
        if undo:
            native_memory.forget(one.agent)
        return Outcome(one, made, None if undo else trust.ask(one.agent))
    except CofferError as error:
        return Outcome(one, problem=error.message)


def _register(agent: Agent) -> None:
    if agent.pk is None:
        row, _ = Agent.objects.get_or_create(name=agent.name, defaults={"type": agent.type, "folder": agent.folder})
        agent.pk = row.pk
    Agent.objects.filter(pk=agent.pk).update(folder=agent.folder)
