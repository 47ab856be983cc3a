"""OpenClaw: one JSONL file a session below ``~/.openclaw/agents/<agent>/sessions``, the working directory in its head.

Copies that OpenClaw keeps of a session (checkpoints, trajectories, reset and deleted ones) have longer endings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transcripts.readers import files, values
from transcripts.readers.base import Source, Turn
from transcripts.readers.jsonl import JsonlReader, Summary


@dataclass
class _Summary(Summary):
    def feed(self, record: dict[str, Any]) -> Turn | None:
        at = self.stamp(record.get("timestamp"))
        if record.get("type") == "session":
            self.session_id = self.session_id or values.text(record.get("id"))
            self.place(record.get("cwd"))
        if record.get("type") != "message":
            return None
        message = values.mapping(record.get("message"))
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            return None
        texts = [content] if isinstance(content, str) else [
            item.get("text") for item in values.items(content) if item.get("type") == "text"
        ]  # fmt: skip
        said = "\n\n".join(stripped for text in texts if (stripped := values.text(text).strip()))
        return self.count(Turn(role, said, at, values.text(record.get("id")))) if said else None


class OpenClaw(JsonlReader):
    """Sessions of every agent that OpenClaw runs."""

    agent = "openclaw"
    summary = _Summary

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        root = Path(env.get("OPENCLAW_STATE_DIR") or home / ".openclaw")
        for source in files.walk(root / "agents", 2, (".jsonl",)):
            if source.problem or (source.path.parent.name == "sessions" and "." not in source.path.stem):
                yield source
