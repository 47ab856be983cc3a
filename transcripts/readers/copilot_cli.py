"""Copilot CLI: the events of a session in ``~/.copilot/session-state/<id>/events.jsonl``.

A prompt is read as it was typed, not as the program transformed it; what subagents say hangs on a tool call.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from transcripts.readers import files, values
from transcripts.readers.base import Role, Source, Turn
from transcripts.readers.jsonl import JsonlReader, Summary

_ROLES: dict[str, Role] = {"user.message": "user", "assistant.message": "assistant"}


@dataclass
class _Summary(Summary):
    @classmethod
    def of(cls, path: Path) -> Self:
        return cls(session_id=path.parent.name)

    def feed(self, record: dict[str, Any]) -> Turn | None:
        at = self.stamp(record.get("timestamp"))
        kind, data = values.text(record.get("type")), values.mapping(record.get("data"))
        if kind in ("session.start", "session.resume"):
            self.place(values.mapping(data.get("context")).get("cwd"))
            self.session_id = values.text(data.get("sessionId")) or self.session_id
        said = values.text(data.get("content")).strip()
        role = _ROLES.get(kind)
        if role is None or not said or data.get("parentToolCallId"):
            return None
        return self.count(Turn(role, said, at, values.text(record.get("id"))))


class CopilotCli(JsonlReader):
    """Sessions, each in a folder of its own."""

    agent = "copilot_cli"
    summary = _Summary

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        for source in files.walk(home / ".copilot" / "session-state", 1, (".jsonl",)):
            if source.problem or source.name == "events.jsonl":
                yield source
