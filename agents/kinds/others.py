"""Agents that are known by their sessions but have no hooks that could carry memory into them."""

from pathlib import Path

from agents.kinds.base import SERVER, SHIM, ConfigFile, Entry, Kind, Place, shim_arguments


class CopilotCli(Kind):
    type = "copilot_cli"
    title = "Copilot CLI"
    program = "copilot"
    folder = ".copilot"
    note = "Copilot CLI gets the tools only: whether its hooks may add context to a session is not settled."

    def mcp(self, place: Place, name: str, launchers: Path) -> ConfigFile:
        server = {"type": "local", "command": str(launchers / SHIM), "args": shim_arguments(name), "tools": ["*"]}
        return ConfigFile(place.folder / "mcp-config.json", "jsonc", "mcp", (Entry(("mcpServers", SERVER), server),))


class OpenClaw(Kind):
    type = "openclaw"
    title = "OpenClaw"
    program = "openclaw"
    folder = ".openclaw"
    variable = "OPENCLAW_STATE_DIR"
    note = "Add the MCP server coffer-mcp-shim in OpenClaw itself; its configuration is not edited."


class Hermes(Kind):
    type = "hermes"
    title = "Hermes"
    program = "hermes"
    folder = ".hermes"
    variable = "HERMES_HOME"
    note = "Add the MCP server coffer-mcp-shim in Hermes itself; its configuration is not edited."
