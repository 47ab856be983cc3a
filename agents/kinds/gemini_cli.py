"""Gemini CLI: hooks and MCP servers in settings.json."""

from pathlib import Path

from agents.kinds.base import SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, grouped_hooks, shim_arguments


class GeminiCli(Kind):
    type = "gemini_cli"
    title = "Gemini CLI"
    program = "gemini"
    folder = ".gemini"
    events = ("SessionStart", "SessionEnd")

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        timeouts: dict[Event, int] = {"SessionStart": 5000, "SessionEnd": 5000}  # milliseconds here
        return ConfigFile(
            place.folder / "settings.json", "jsonc", "hooks", grouped_hooks(launchers, name, events, timeouts)
        )

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"command": str(launchers / SHIM), "args": shim_arguments(name)}
        return ConfigFile(place.folder / "settings.json", "jsonc", "mcp", (Entry(("mcpServers", SERVER), server),))

    def hooks_off(self, place: Place) -> ConfigFile:
        return ConfigFile(place.folder / "settings.json", "jsonc", "hooks", (Entry(("hooksConfig", "enabled"), False),))
