"""Cursor: hooks in hooks.json, in a schema of its own, and MCP servers in mcp.json."""

from pathlib import Path

from agents.kinds.base import SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, hook_command, shim_arguments

_NAMES: dict[Event, str] = {"SessionStart": "sessionStart", "SessionEnd": "sessionEnd"}


class Cursor(Kind):
    type = "cursor"
    title = "Cursor"
    program = "cursor-agent"
    folder = ".cursor"
    events = ("SessionStart", "SessionEnd")
    note = "Some versions of the Cursor editor drop what a session start hook says; `coffer doctor` shows what arrived."

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        entries = tuple(
            Entry(
                ("hooks", _NAMES[event]),
                {"command": hook_command(launchers, name, event), "timeout": 5},
                item=True,
            )
            for event in events
        )
        return ConfigFile(place.folder / "hooks.json", "jsonc", "hooks", entries, base=(Entry(("version",), 1),))

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"command": str(launchers / SHIM), "args": shim_arguments(name)}
        return ConfigFile(place.folder / "mcp.json", "jsonc", "mcp", (Entry(("mcpServers", SERVER), server),))
