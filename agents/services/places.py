"""Where agents live on this machine."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from agents.kinds import KINDS, Kind, Place
from agents.models import Agent
from coffer.errors import Invalid, UnsupportedAgentType


def kind_of(type: str) -> Kind:
    """What is known of a kind. Raises UnsupportedAgentType."""
    if type not in KINDS:
        raise UnsupportedAgentType(f"{type[:60]!r} is no kind of agent that Coffer knows; it knows {', '.join(KINDS)}.")
    return KINDS[type]


def place_of(agent: Agent) -> Place:
    """Where an agent lives. Its row alone decides: the environment of whoever asks may be another one's."""
    return kind_of(agent.type).place(agent.folder, person(), {})


def folder_of_environment(kind: Kind, environment: Mapping[str, str] | None = None) -> str:
    """The folder that an environment, the caller's by default, gives to a kind of agent; "" when it says nothing."""
    place = kind.place("", person(), os.environ if environment is None else environment)
    return absolute(str(place.folder)) if place.overridden else ""


def person() -> Path:
    """The person's home folder: HOME, else what the user database says. Raises Invalid when neither does."""
    home = os.environ.get("HOME", "")
    if not home:
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            raise Invalid(
                f"HOME is not set, and user {os.getuid()} has no home folder in the user database; set HOME to find "
                "the agents."
            ) from None
    if not os.path.isabs(home):
        raise Invalid(f"HOME is {home!r}, a relative path; set it to an absolute one.")
    return Path(home)


def absolute(folder: str) -> str:
    """A folder as a person gives it, as an absolute path; "" stays."""
    if folder == "~" or folder.startswith("~/"):
        return str(person() / folder[2:])
    return os.path.abspath(folder) if folder else ""
