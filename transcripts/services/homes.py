"""Where the sessions of each agent lie on this machine, and who reads them."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.kinds import KINDS
from agents.models import Agent
from agents.services import discovery, registration
from agents.services.places import folder_of_environment, kind_of, place_of
from coffer.errors import UnsupportedAgentType
from transcripts.readers import READERS, Reader, Source

_OF_OPENCODE = ("XDG_DATA_HOME", "OPENCODE_DB")  # it keeps data and configuration apart


@dataclass(frozen=True)
class Home:
    """One agent with its reader, and where that is to look."""

    agent: str
    title: str
    reader: Reader
    person: Path
    env: Mapping[str, str]

    def sources(self) -> Iterator[Source]:
        return self.reader.sources(self.person, self.env)

    def names_file(self) -> Path | None:
        return self.reader.names_file(self.person, self.env)

    def names(self) -> dict[str, str]:
        return self.reader.names(self.person, self.env)


def get(name: str) -> Home:
    """One agent; a known kind registers itself. Raises UnsupportedAgentType for a name that is no agent's."""
    folder = folder_of_environment(KINDS[name]) if name in KINDS else ""
    return _home(registration.ensure(name, folder=folder))


def of(name: str) -> Home:
    """The same for who needs its sessions. Raises UnsupportedAgentType, with the reason, when they are not read."""
    home = get(name)
    if home.reader.unsupported:
        raise UnsupportedAgentType(home.reader.unsupported)
    return home


def registered() -> list[Home]:
    """The agents that have a row and sessions that are read."""
    return _readable(registration.listing())


def everywhere() -> list[Home]:
    """Those on this machine too that have no row yet."""
    return _readable(discovery.found(os.environ))


def _readable(agents: list[Agent]) -> list[Home]:
    return [home for home in map(_home, agents) if not home.reader.unsupported]


def _home(agent: Agent) -> Home:
    kind, place = kind_of(agent.type), place_of(agent)
    env = {name: os.environ[name] for name in _OF_OPENCODE if os.environ.get(name)}
    if place.overridden and kind.variable:
        env[kind.variable] = str(place.folder)
    # A kind without a variable is found by its folder's name alone.
    moved = place.overridden and not kind.variable and place.folder.name == kind.folder
    person = place.folder.parent if moved else place.person
    title = kind.title if agent.name == kind.type else f"{kind.title} ({agent.name})"
    return Home(agent.name, title, READERS[agent.type], person, env)
