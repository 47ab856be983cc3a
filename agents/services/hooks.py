"""The hooks of one agent: whether they are installed, trusted and firing; install and uninstall (FR-049)."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from agents import config_files
from agents.kinds.base import HOOK
from agents.models import Agent
from agents.services import attachments, deliveries, native_memory, trust
from agents.services.places import kind_of, place_of
from coffer import paths
from coffer.errors import Invalid


@dataclass(frozen=True)
class HookStatus:
    """How one agent's hooks are.

    ``command`` is what the agent runs. ``trusted`` is None when the agent asks for no trust or it is not known.
    ``problems`` are sentences: what keeps hooks that are installed from working, and what to do.
    """

    installed: bool
    command: str
    supported: bool
    trusted: bool | None
    last_fired_at: datetime | None
    problems: list[str] = field(default_factory=list)


def status(agent: Agent) -> HookStatus:
    """What the agent's files say now; starts no program."""
    supported = bool(kind_of(agent.type).events)
    problems: list[str] = []
    installed = False
    try:
        installed = attachments.stands(agent, "hooks")
        if installed:
            problems += _obstacles(agent)
        elif any(edit.changes for edit in attachments.plan_undo(agent, "hooks")):
            problems.append(f"Its hooks are not as they should be; `coffer connect {agent.name}` mends them.")
    except Invalid as error:
        problems.append(error.message)
    fired = [row.at for event in kind_of(agent.type).events if (row := deliveries.last(agent.name, event)) is not None]
    return HookStatus(
        installed=installed,
        command=shlex.join([str(paths.launchers() / HOOK), "--agent", agent.name]) if supported else "",
        supported=supported,
        trusted=trust.known(agent) if installed else None,
        last_fired_at=max(fired, default=None),
        problems=problems,
    )


def install(agent: Agent, *, actor: str = "user") -> HookStatus:
    """Make our hooks stand in the agent's file. Raises Invalid, Conflict when that cannot be."""
    kind = kind_of(agent.type)
    if not kind.events:
        raise Invalid(f"{kind.title} has no hooks that Coffer knows; it gets the tools only. {kind.note}".strip())
    attachments.attach(agent, "hooks", actor=actor)
    return status(agent)


def uninstall(agent: Agent, *, actor: str = "user") -> HookStatus:
    """Take our hooks out again, and give the agent's own memory back (FR-052)."""
    attachments.detach(agent, "hooks", actor=actor)
    native_memory.restore(agent, actor=actor)
    return status(agent)


def _obstacles(agent: Agent) -> Iterator[str]:
    """What keeps hooks that stand in their file from working."""
    if not (paths.launchers() / HOOK).exists():
        yield f"{paths.launchers() / HOOK} is missing; `coffer up` writes it."
    switch = kind_of(agent.type).hooks_off(place_of(agent))
    if switch is not None and switch.path.exists() and not config_files.plan(attachments.owner(agent), switch).changes:
        name = ".".join(switch.entries[0].keys)
        yield f"{name} in {switch.path} switches all hooks off; remove it to let memory in."
