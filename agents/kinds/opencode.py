"""OpenCode: no hooks in its configuration, but plugins: a file of ours that asks coffer-hook once per session."""

import json
from collections.abc import Mapping
from pathlib import Path

from agents.kinds.base import HOOK, SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, shim_arguments

PLUGIN = "coffer.js"
_TEMPLATE = (Path(__file__).parent / "opencode_plugin.js").read_text(encoding="utf-8")


class OpenCode(Kind):
    type = "opencode"
    title = "OpenCode"
    program = "opencode"
    folder = ".config/opencode"
    events = ("SessionStart",)
    note = "OpenCode has no event for the end of a session; its sessions are captured once they have settled."

    def place(self, folder: str, person: Path, env: Mapping[str, str]) -> Place:
        config = env.get("XDG_CONFIG_HOME", "")
        return super().place(folder or (f"{config}/opencode" if config else ""), person, env)

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        command = [str(launchers / HOOK), "--agent", name, "--event", "SessionStart"]
        text = _TEMPLATE.replace("__COMMAND__", json.dumps(command))
        return ConfigFile(place.folder / "plugin" / PLUGIN, "text", "hooks", text=text)

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"type": "local", "command": [str(launchers / SHIM), *shim_arguments(name)], "enabled": True}
        return ConfigFile(
            place.folder / "opencode.json",
            "json",
            "mcp",
            (Entry(("mcp", SERVER), server),),
            elsewhere=(place.folder / "opencode.jsonc", place.folder / "config.json"),
        )
