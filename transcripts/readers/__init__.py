"""Readers of past sessions, one for each agent that Coffer knows. Pure: paths in, values out, no Django, no writing."""

from transcripts.readers.base import UNREADABLE, VERSION, Reader, Session, Source, State, Turn, Unreadable
from transcripts.readers.claude_code import ClaudeCode
from transcripts.readers.codex import Codex
from transcripts.readers.copilot_cli import CopilotCli
from transcripts.readers.cursor import Cursor
from transcripts.readers.gemini_cli import GeminiCli
from transcripts.readers.hermes import Hermes
from transcripts.readers.openclaw import OpenClaw
from transcripts.readers.opencode import OpenCode

__all__ = ["READERS", "UNREADABLE", "VERSION", "Reader", "Session", "Source", "State", "Turn", "Unreadable"]

READERS: dict[str, Reader] = {
    reader.agent: reader
    for reader in (ClaudeCode(), Codex(), OpenCode(), Cursor(), GeminiCli(), CopilotCli(), OpenClaw(), Hermes())
}
