"""Which agents Coffer knows: one row each, made by a person or by the agent's own first sign of life."""

import re
from pathlib import Path

from django.db import IntegrityError

from agents import config_files
from agents.kinds import KINDS
from agents.models import Agent
from agents.services import attachments, hooks, native_memory
from agents.services.places import absolute, folder_of_environment, kind_of, place_of
from coffer import later
from coffer.errors import Conflict, Invalid, NotFound

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


def listing() -> list[Agent]:
    """Every known agent, by name."""
    return list(Agent.objects.all())


def get(name: str) -> Agent:
    """One agent. Raises NotFound."""
    agent = Agent.objects.filter(name=name).first()
    if agent is None:
        raise NotFound(f"There is no agent {name[:80]!r}; `coffer agent list` names those there are.")
    return agent


def ensure(name: str, *, folder: str = "") -> Agent:
    """The agent of that name; a known kind registers itself, with the folder that its hook names.

    One query when there is a row; a new row is written after the answer. Raises UnsupportedAgentType when there is
    none and the name is no kind's.
    """
    agent = known(name)
    if agent.pk is not None:
        return agent
    agent.folder = absolute(folder)
    later.write(lambda: Agent.objects.get_or_create(name=name, defaults={"type": name, "folder": agent.folder}))
    return agent


def known(name: str) -> Agent:
    """The agent of that name, without a row when it is only a kind's. Raises UnsupportedAgentType for neither."""
    agent = Agent.objects.filter(name=name).first()
    return agent or Agent(name=name, type=kind_of(name).type)


def add(type: str, *, name: str = "", folder: str = "") -> Agent:
    """Register an agent: ``coffer agent add``, POST /agents.

    The name is the kind's unless given, the folder what the environment says unless given, "" for the default. Raises
    UnsupportedAgentType, Invalid for a folder that is relative or not there, Conflict when the name or the folder has
    an agent already.
    """
    kind = kind_of(type)
    name = _checked_name(name or type, type)
    agent = Agent(name=name, type=type, folder=_checked_folder(folder) or folder_of_environment(kind))
    for other in Agent.objects.filter(type=type).exclude(name=name):
        if place_of(other).folder.resolve() == place_of(agent).folder.resolve():
            raise Conflict(f"{other.name} is the agent of {place_of(other).folder}; a second one needs another folder.")
    try:
        agent.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"There is an agent {name} already; give the second one another --name.") from None
    return agent


def change(
    name: str,
    *,
    disable_native_memory: bool | None = None,
    prompt_context: bool | None = None,
    actor: str = "user",
) -> Agent:
    """Switch an agent's options; what is None stays (PATCH /agents).

    Hooks that are installed are installed anew for another ``prompt_context``. Raises NotFound, Invalid for an option
    that the agent has not, and what an edit raises.
    """
    agent = get(name)
    if prompt_context is not None and prompt_context != agent.prompt_context:
        _change_prompt_context(agent, prompt_context, actor)
    if disable_native_memory is True:
        native_memory.disable(agent, actor=actor)
    elif disable_native_memory is False:
        native_memory.restore(agent, actor=actor)
    return agent


def remove(name: str, *, actor: str = "user") -> None:
    """Disconnect an agent, its own memory given back, then forget it. Raises NotFound, and what an edit raises."""
    agent = get(name)
    attachments.detach(agent, *attachments.EVERYTHING, actor=actor)
    agent.delete()


def rebuild() -> None:
    """Bring rows back from the journal of edits, after the database was lost: what is connected stays known."""
    for owner, purposes in config_files.owners().items():
        if owner.type not in KINDS:
            continue
        noted = {"type": owner.type, "folder": owner.folder}
        agent, made = Agent.objects.get_or_create(name=owner.name, defaults=noted)
        if made:
            agent.disable_native_memory = "native memory" in purposes
            agent.prompt_context = _asks_for_prompts(agent)
            agent.save()


def _asks_for_prompts(agent: Agent) -> bool:
    """Whether the hooks in the agent's file are those with prompt context."""
    asking = Agent(name=agent.name, type=agent.type, folder=agent.folder, prompt_context=True)
    try:
        return attachments.stands(asking, "hooks")
    except Invalid:
        return False


def _change_prompt_context(agent: Agent, wanted: bool, actor: str) -> None:
    kind = kind_of(agent.type)
    if wanted and not kind.prompts:
        raise Invalid(f"{kind.title} takes no context beside a prompt, as far as Coffer knows.")
    installed = attachments.stands(agent, "hooks")
    agent.prompt_context = wanted
    if installed:
        hooks.install(agent, actor=actor)
    agent.save(update_fields=["prompt_context"])


def _checked_name(name: str, type: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name[:80]!r} is no name for an agent: up to 60 of a-z, 0-9 and _, a letter first.")
    if name in KINDS and name != type:
        raise Invalid(f"{name} is the name of another kind of agent; choose a name like {type}_2.")
    return name


def _checked_folder(folder: str) -> str:
    if folder and not folder.startswith(("/", "~")):
        raise Invalid(f"{folder[:200]!r} is a relative path; give the agent's folder as an absolute one.")
    path = absolute(folder)
    if path and not Path(path).is_dir():
        raise Invalid(f"There is no folder {path}; start the agent there once, or make it, then add the agent again.")
    return path
