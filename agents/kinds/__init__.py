"""The kinds of coding agents that Coffer knows, in the order in which they are shown."""

from agents.kinds.base import ConfigFile, Entry, Event, Kind, Place, Purpose, is_ours, ours_within
from agents.kinds.claude_code import ClaudeCode
from agents.kinds.codex import Codex
from agents.kinds.cursor import Cursor
from agents.kinds.gemini_cli import GeminiCli
from agents.kinds.opencode import OpenCode
from agents.kinds.others import CopilotCli, Hermes, OpenClaw

__all__ = ["KINDS", "ConfigFile", "Entry", "Event", "Kind", "Place", "Purpose", "is_ours", "ours_within"]

KINDS: dict[str, Kind] = {
    kind.type: kind
    for kind in (ClaudeCode(), Codex(), OpenCode(), Cursor(), GeminiCli(), CopilotCli(), OpenClaw(), Hermes())
}
