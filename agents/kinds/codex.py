"""Codex: hooks in hooks.json, which a person must trust; MCP servers and memories in config.toml."""

from pathlib import Path

from agents.kinds.base import SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, grouped_hooks, shim_arguments


class Codex(Kind):
    type = "codex"
    title = "Codex"
    program = "codex"
    folder = ".codex"
    variable = "CODEX_HOME"
    events = ("SessionStart", "SessionEnd", "UserPromptSubmit")
    prompts = True
    trusted = True
    native_memory = True

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        # SessionEnd: Codex cuts more than 3 s down to 3 and warns about it at every start.
        timeouts: dict[Event, int] = {"SessionStart": 5, "SessionEnd": 3, "UserPromptSubmit": 5}
        return ConfigFile(
            place.folder / "hooks.json", "json", "hooks", grouped_hooks(launchers, name, events, timeouts)
        )

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"command": str(launchers / SHIM), "args": shim_arguments(name)}
        return ConfigFile(place.folder / "config.toml", "toml", "mcp", (Entry(("mcp_servers", SERVER), server),))

    def without_native_memory(self, place: Place) -> ConfigFile:
        off = (("features", "memories"), ("memories", "generate_memories"), ("memories", "use_memories"))
        return ConfigFile(
            place.folder / "config.toml", "toml", "native memory", tuple(Entry(keys, False) for keys in off)
        )

    def hooks_off(self, place: Place) -> ConfigFile:
        return ConfigFile(place.folder / "config.toml", "toml", "hooks", (Entry(("features", "hooks"), False),))
