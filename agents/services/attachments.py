"""Our entries in the files of one agent: planned, made to stand, taken out again."""

from collections.abc import Sequence

from agents import config_files
from agents.config_files import Edit, Owner, Pending
from agents.kinds import ConfigFile, Purpose
from agents.models import Agent
from agents.services import trust
from agents.services.places import kind_of, place_of
from coffer import launchers, paths
from memory.services import trail

CONNECTION: tuple[Purpose, ...] = ("hooks", "mcp")
EVERYTHING: tuple[Purpose, ...] = (*CONNECTION, "native memory")
_EVENTS = {  # what the audit trail calls an edit and its end
    "hooks": ("agent_hook_installed", "agent_hook_uninstalled"),
    "native memory": ("agent_native_memory_disabled", "agent_native_memory_restored"),
}


def files(agent: Agent, *purposes: Purpose) -> list[ConfigFile]:
    """The agent's files for these purposes, with what of ours should stand in each."""
    kind, place = kind_of(agent.type), place_of(agent)
    found = kind.files(place, agent.name, paths.launchers(), prompt_context=agent.prompt_context)
    switch = kind.without_native_memory(place)
    return [file for file in (*found, switch) if file is not None and file.purpose in purposes]


def plan(agent: Agent, *purposes: Purpose) -> list[Edit]:
    """The edits that would attach the agent; touches nothing. Raises Invalid when a file cannot be edited."""
    pending: Pending = {}
    return [config_files.plan(owner(agent), file, pending) for file in files(agent, *purposes)]


def plan_undo(agent: Agent, *purposes: Purpose) -> list[Edit]:
    """The edits that would detach the agent; touches nothing. Raises Invalid when a file cannot be edited."""
    found = files(agent, *purposes)
    if "hooks" in purposes:
        found += trust.leftovers(agent)
    return config_files.plan_undo(owner(agent), found)


def stands(agent: Agent, *purposes: Purpose) -> bool:
    """Whether everything of ours is in the agent's files as it should be; False where it has none for it."""
    edits = plan(agent, *purposes)
    return bool(edits) and not any(edit.changes for edit in edits)


def make(edits: Sequence[Edit], *, actor: str = "user") -> list[Edit]:
    """Make planned edits, each planned anew as its file is now; those that changed something.

    The launchers that they name are brought up to date first. Raises Invalid, Conflict, StorageFailed, Busy; the edits
    before the one that failed are made.
    """
    if any(not edit.undo for edit in edits):
        launchers.write()
    made = []
    for edit in edits:
        done = config_files.apply(edit)
        if done.changes:
            made.append(done)
            _note(done, actor)
    for agent in {edit.owner.name for edit in edits if edit.undo}:
        config_files.tidy(agent)
    return made


def attach(agent: Agent, *purposes: Purpose, actor: str = "user") -> list[Edit]:
    """Make our entries stand; the edits that changed something."""
    return make(plan(agent, *purposes), actor=actor)


def detach(agent: Agent, *purposes: Purpose, actor: str = "user") -> list[Edit]:
    """Take our entries out; the edits that changed something."""
    return make(plan_undo(agent, *purposes), actor=actor)


def owner(agent: Agent) -> Owner:
    """The agent as the journal of edits names it."""
    return Owner(agent.name, agent.type, agent.folder)


def _note(edit: Edit, actor: str) -> None:
    for purpose in sorted(edit.purposes & _EVENTS.keys()):
        trail.record(_EVENTS[purpose][edit.undo], store="", ref=edit.owner.name, actor=actor)
