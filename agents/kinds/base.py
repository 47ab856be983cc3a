"""What is known of one kind of coding agent: where it lives, and what a connection puts into which of its files.

Pure: nothing here looks at the machine. A kind says what should be there; ``agents.config_files`` makes it so.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

Event = Literal["SessionStart", "SessionEnd", "UserPromptSubmit"]
Format = Literal["json", "jsonc", "toml", "text"]  # json: an agent that reads nothing of a file with comments in it
Purpose = Literal["hooks", "mcp", "native memory"]

HOOK, SHIM = "coffer-hook", "coffer-mcp-shim"
SERVER = "coffer"  # the name that our MCP server has in every agent's configuration


@dataclass(frozen=True)
class Entry:
    """One thing of ours in a configuration file: an item of the list at ``keys``, or the value of the member ``keys``.

    ``value`` is what JSON can say. An item of ours that is already there, whatever else it says, is replaced where it
    stands: agents know hooks by their position.
    """

    keys: tuple[str, ...]
    value: object
    item: bool = False


@dataclass(frozen=True)
class ConfigFile:
    """A file of an agent and what should stand in it.

    ``text`` is the whole of a file that is ours alone, whose first line tells that it is, and ``about`` what it is for;
    an ``optional`` one is made only where there is none, and what others add to it stays.
    """

    path: Path
    format: Format
    purpose: Purpose
    entries: tuple[Entry, ...] = ()
    text: str = ""
    about: str = ""
    optional: bool = False
    base: tuple[Entry, ...] = ()  # members that a new file needs beside ours, and that are not ours where they exist
    leftovers: tuple[tuple[str, ...], ...] = ()  # members that the agent made for our entries; they go with those
    elsewhere: tuple[Path, ...] = ()  # other names that the agent reads: one that exists is used when ``path`` does not


@dataclass(frozen=True)
class Place:
    """Where one agent lives: its folder, whether that is not the default one, and the person's home and environment."""

    folder: Path
    overridden: bool
    person: Path
    env: Mapping[str, str]


class Kind:
    """One kind of agent; the children say what differs."""

    type: ClassVar[str]
    title: ClassVar[str]
    program: ClassVar[str]  # what its executable is called
    folder: ClassVar[str]  # below the person's home
    variable: ClassVar[str] = ""  # the environment variable that moves the folder
    events: ClassVar[tuple[Event, ...]] = ()  # what its hooks can tell us; none: it has no hooks that we know
    prompts: ClassVar[bool] = False  # whether context can be added to a prompt
    trusted: ClassVar[bool] = False  # whether a person must trust a hook before it runs
    native_memory: ClassVar[bool] = False  # whether it has a memory of its own with a switch
    limit: ClassVar[int] = 10_000  # bytes of one injection that it takes whole, counted in its strictest unit
    note: ClassVar[str] = ""  # what a person should know of this connection

    def place(self, folder: str, person: Path, env: Mapping[str, str]) -> Place:
        """Where the agent lives: ``folder`` when given, else what the environment says, else the default."""
        given = folder or (env.get(self.variable, "") if self.variable else "")
        return Place(Path(given).expanduser() if given else person / self.folder, bool(given), person, env)

    def files(self, place: Place, name: str, launchers: Path, *, prompt_context: bool) -> list[ConfigFile]:
        """Every file that connects this agent, with our entries; empty when only a person can do it."""
        found = [self.hooks(place, name, launchers, self._asked(prompt_context)), self.mcp(place, name, launchers)]
        return [file for file in found if file is not None]

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile | None:
        """The file of its hooks, with one entry for each event."""
        return None

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile | None:
        """The file of its MCP servers, with ours."""
        return None

    def without_native_memory(self, place: Place) -> ConfigFile | None:
        """The file that switches its own memory off, with the members that do (FR-052)."""
        return None

    def hooks_off(self, place: Place) -> ConfigFile | None:
        """The file in which a person switches all hooks off, with the member that does."""
        return None

    def _asked(self, prompt_context: bool) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event != "UserPromptSubmit" or prompt_context)


def hook_command(launchers: Path, name: str, event: Event) -> str:
    """The command line of a hook, for a shell."""
    return shlex.join([str(launchers / HOOK), "--agent", name, "--event", event])


def shim_arguments(name: str) -> list[str]:
    return ["--agent", name]


def is_ours(value: object) -> bool:
    """Whether a value is ours alone: a server or hook that runs a launcher, or a group of nothing but such hooks."""
    if not isinstance(value, dict):
        return False
    hooks = value.get("hooks")
    if isinstance(hooks, list) and hooks:
        return all(map(is_ours, hooks))
    return _is_launcher(value.get("command"))


def ours_within(value: object) -> list[int]:
    """The positions of our hooks in a group that holds others as well."""
    hooks = value.get("hooks") if isinstance(value, dict) and not is_ours(value) else None
    return [place for place, hook in enumerate(hooks) if is_ours(hook)] if isinstance(hooks, list) else []


def grouped_hooks(
    launchers: Path, name: str, events: tuple[Event, ...], timeouts: Mapping[Event, int]
) -> tuple[Entry, ...]:
    """Hooks in the shape that Claude Code, Codex and Gemini CLI share; without a matcher, so that forks fire too."""
    return tuple(
        Entry(
            ("hooks", event),
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": hook_command(launchers, name, event),
                        "timeout": timeouts[event],
                    }
                ]
            },
            item=True,
        )
        for event in events
    )


def _is_launcher(command: object) -> bool:
    if isinstance(command, list):  # OpenCode writes program and arguments as one list
        command = command[0] if command else None
        return isinstance(command, str) and Path(command).name in (HOOK, SHIM)
    if not isinstance(command, str):
        return False
    if Path(command).name in (HOOK, SHIM):  # a program's path, which may hold spaces
        return True
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return bool(words) and Path(words[0]).name in (HOOK, SHIM)
