"""An agent's own memory: switched off when a person asks for it, and given back exactly as it was (FR-052).

Nothing here is ever touched while the option is off, which it is by default.
"""

from agents.models import Agent
from agents.services import attachments
from agents.services.places import kind_of
from coffer.errors import Invalid


def is_off(agent: Agent) -> bool:
    """Whether the agent's files say now that its memory is off, whoever wrote it there."""
    return attachments.stands(agent, "native memory")


def disable(agent: Agent, *, actor: str = "user") -> None:
    """Switch it off. Raises Invalid when the agent has no such switch, and what an edit raises."""
    kind = kind_of(agent.type)
    if not kind.native_memory:
        raise Invalid(f"{kind.title} has no memory of its own with a switch that Coffer knows.")
    attachments.attach(agent, "native memory", actor=actor)
    _note(agent, True)


def restore(agent: Agent, *, actor: str = "user") -> None:
    """Give it back; what was absent is absent again. Only what we have switched off is touched."""
    attachments.detach(agent, "native memory", actor=actor)
    forget(agent)


def forget(agent: Agent) -> None:
    """Note that it was given back."""
    _note(agent, False)


def _note(agent: Agent, disabled: bool) -> None:
    agent.disable_native_memory = disabled
    Agent.objects.filter(name=agent.name).update(disable_native_memory=disabled)
