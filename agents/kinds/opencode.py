"""OpenCode: no hooks in its configuration, but plugins: a file of ours that asks coffer-hook once per session."""

import json
from collections.abc import Mapping
from pathlib import Path

from agents.kinds.base import HOOK, SERVER, SHIM, ConfigFile, Entry, Event, Kind, Place, shim_arguments

PLUGIN = "coffer.js"
# Before it loads a plugin OpenCode fetches a library of its own from npm's registry and waits for that: without a
# network for more than six minutes at every start, as npm tries again and again (seen in 1.18.33).
_NPMRC = """\
# Written by `coffer connect`; `coffer disconnect` removes it.
# OpenCode asks npm's registry before it loads a plugin; where nobody answers it must not wait for minutes.
fetch-retries=0
fetch-timeout=10000
"""
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

    def files(self, place: Place, name: str, launchers: Path, *, prompt_context: bool) -> list[ConfigFile]:
        about = "keeps OpenCode from waiting for npm"
        npm = ConfigFile(place.folder / ".npmrc", "text", "hooks", text=_NPMRC, about=about, optional=True)
        return [*super().files(place, name, launchers, prompt_context=prompt_context), npm]

    def hooks(self, place: Place, name: str, launchers: Path, events: tuple[Event, ...]) -> ConfigFile:
        command = [str(launchers / HOOK), "--agent", name, "--event", "SessionStart"]
        text = _TEMPLATE.replace("__COMMAND__", json.dumps(command))
        about = "brings memory into its sessions"
        return ConfigFile(place.folder / "plugin" / PLUGIN, "text", "hooks", text=text, about=about)

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"type": "local", "command": [str(launchers / SHIM), *shim_arguments(name)], "enabled": True}
        return ConfigFile(
            place.folder / "opencode.json",
            "jsonc",
            "mcp",
            (Entry(("mcp", SERVER), server),),
            elsewhere=(place.folder / "opencode.jsonc", place.folder / "config.json"),
        )
