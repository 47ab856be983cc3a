"""Claude Code: hooks and its memory switch in settings.json, MCP servers in .claude.json."""

from pathlib import Path

from agents.kinds.base import SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, grouped_hooks, shim_arguments


class ClaudeCode(Kind):
    type = "claude_code"
    title = "Claude Code"
    program = "claude"
    folder = ".claude"
    variable = "CLAUDE_CONFIG_DIR"
    events = ("SessionStart", "SessionEnd", "UserPromptSubmit")
    prompts = True
    native_memory = True

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        # Without a timeout of its own a SessionEnd hook is killed after 1.5 s.
        timeouts: dict[Event, int] = {"SessionStart": 5, "SessionEnd": 5, "UserPromptSubmit": 5}
        return ConfigFile(
            place.folder / "settings.json", "json", "hooks", grouped_hooks(launchers, name, events, timeouts)
        )

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        folder = place.folder if place.overridden else place.person
        server = {
            "type": "stdio",
            "command": str(launchers / SHIM),
            "args": shim_arguments(name),
            "alwaysLoad": True,  # else the model sees only the names of the tools and must search for them first
        }
        return ConfigFile(folder / ".claude.json", "json", "mcp", (Entry(("mcpServers", SERVER), server),))

    def without_native_memory(self, place: Place) -> ConfigFile:
        return ConfigFile(
            place.folder / "settings.json", "json", "native memory", (Entry(("autoMemoryEnabled",), False),)
        )

    def hooks_off(self, place: Place) -> ConfigFile:
        return ConfigFile(place.folder / "settings.json", "json", "hooks", (Entry(("disableAllHooks",), True),))
