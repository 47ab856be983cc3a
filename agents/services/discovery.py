"""Which agents are on this machine: by their folder, by their program, or by a row that names another folder."""

import shutil
from collections.abc import Mapping, Sequence

from agents.kinds import KINDS, Kind
from agents.models import Agent
from agents.services import registration
from agents.services.places import folder_of_environment, kind_of, place_of
from coffer.errors import Invalid

Environment = Mapping[str, str]


def found(environment: Environment) -> list[Agent]:
    """The agents on this machine, known or not: those of a kind's own name first, in the order of the kinds."""
    known = {agent.name: agent for agent in registration.listing()}
    firsts = [known.get(kind.type) or candidate(kind, environment) for kind in KINDS.values()]
    others = [agent for agent in known.values() if agent.name not in KINDS]
    return [agent for agent in [*firsts, *others] if (agent.pk and agent.folder) or is_here(agent, environment)]


def named(names: Sequence[str], environment: Environment) -> list[Agent]:
    """The agents of these names, known or not. Raises NotFound for a name of none, Invalid for one that is not here."""
    known = {agent.name: agent for agent in registration.listing()}
    chosen = []
    for name in dict.fromkeys(names):
        agent = known.get(name)
        if agent is None:
            agent = candidate(KINDS[name], environment) if name in KINDS else registration.get(name)
            if not is_here(agent, environment):
                raise Invalid(
                    f"{KINDS[name].title} is not on this machine: there is no folder {place_of(agent).folder} and no "
                    f"program {KINDS[name].program} on PATH. `coffer agent add {name} --folder …` names another folder."
                )
        chosen.append(agent)
    return chosen


def candidate(kind: Kind, environment: Environment) -> Agent:
    """An agent of a kind that has no row yet, where the environment says unless another agent lives there."""
    agent = Agent(name=kind.type, type=kind.type, folder=folder_of_environment(kind, environment))
    others = [place_of(other).folder for other in registration.listing() if other.type == kind.type]
    if place_of(agent).folder in others:
        agent.folder = ""
    return agent


def is_here(agent: Agent, environment: Environment) -> bool:
    """Whether an agent's folder is there or its program on PATH."""
    program = shutil.which(kind_of(agent.type).program, path=environment.get("PATH"))
    return program is not None or place_of(agent).folder.is_dir()
