"""Gemini CLI: one file a session below ``~/.gemini/tmp/<project>/chats``, JSONL since 2026 and one JSON object before.

A line may replace the whole conversation or take back its end, so a file is always read from the start. The working
directory stands beside the sessions, not in them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from transcripts.readers import files, values
from transcripts.readers.base import UNREADABLE, Reader, Role, Session, Source, State, Turn
from transcripts.readers.jsonl import Summary, passed_over, readable
from transcripts.readers.lines import MAX_LINE, Lines, Position

_ROLES: dict[str, Role] = {"user": "user", "gemini": "assistant"}
_OPENINGS = ("<session_context>", "This is the Gemini CLI. We are setting up the context for our chat.")
_SPANS = ("hook_context",)


@dataclass
class _Chat(Summary):
    turns: dict[str, Turn | None] = field(default_factory=dict)
    """By message id, in order; None for what is no turn, which a rewind may name all the same."""

    def feed(self, record: dict[str, Any]) -> None:
        changed = record.get("$set")
        if isinstance(changed, dict):
            self._head(changed)
            if isinstance(changed.get("messages"), list):
                self.turns = {}
                self._add(changed["messages"])
        elif isinstance(target := record.get("$rewindTo"), str):
            order = list(self.turns)
            for message in order[order.index(target) :] if target in self.turns else []:
                del self.turns[message]
        elif "type" in record:
            self._add([record])
        else:
            self._head(record)
            self._add(record.get("messages"))

    def finish(self) -> None:
        """Count what is left of the conversation."""
        for turn in self.turns.values():
            if turn:
                self.count(turn)

    def _head(self, header: dict[str, Any]) -> None:
        self.session_id = values.text(header.get("sessionId")) or self.session_id
        self.subagent = self.subagent or header.get("kind") == "subagent"
        self.stamp(header.get("startTime"))
        self.stamp(header.get("lastUpdated"))

    def _add(self, messages: Any) -> None:
        for message in values.items(messages):
            at = self.stamp(message.get("timestamp"))
            role, content = _ROLES.get(values.text(message.get("type"))), message.get("content")
            texts = [content] if isinstance(content, str) else [item.get("text") for item in values.items(content)]
            parts = [values.without_spans(values.text(text), _SPANS).strip() for text in texts]
            said = "\n\n".join(part for part in parts if part and not part.startswith(_OPENINGS))
            key = values.text(message.get("id")) or f"#{len(self.turns)}"
            self.turns[key] = Turn(role, said, at) if role and said else None


class GeminiCli(Reader):
    """Sessions of every project."""

    agent = "gemini_cli"

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        found: dict[Path, Source] = {}
        for source in files.walk(home / ".gemini" / "tmp", 2, (".json", ".jsonl")):
            if source.problem:
                yield source
            elif source.path.parent.name == "chats" and source.path.name.startswith("session-"):
                found[source.path.with_suffix("")] = source  # the JSONL of a converted session comes second, and wins
        yield from found.values()

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        with readable(source):
            chat, _ = _chat(source.path)
        yield from filter(None, chat.turns.values())

    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]:
        chat, unread, notes = _Chat(), 0, []
        try:
            chat, position = _chat(source.path)
            unread, notes = position.unread, list(passed_over(position))
        except FileNotFoundError:
            return [], None
        except OSError as error:
            notes.append(f"{UNREADABLE}: {error.strerror}")
        chat.place(_project(source.path.parents[1]))
        return [chat.session(self.agent, source, unread, notes)], None


def _chat(path: Path) -> tuple[_Chat, Position]:
    """The conversation as it stands, and what was passed over. Raises OSError."""
    chat = _Chat()
    if path.suffix == ".json":
        whole = _read(path)
        if whole is None:
            return chat, Position(oversized=1)
        record = values.loads(whole)
        chat.feed(record or {})
        position = Position(unread=int(record is None))
    else:
        lines = Lines(path)
        for record in chain(lines.whole(), lines.tail()):
            chat.feed(record)
        position = lines.position
    chat.finish()
    return chat, position


def _project(folder: Path) -> str:
    """The working directory of a project's folder, as Gemini notes it beside the sessions or in its list."""
    with suppress(OSError, UnicodeDecodeError):
        return (_read(folder / ".project_root") or b"").decode().strip()
    with suppress(OSError):
        listed = values.mapping((values.loads(_read(folder.parents[1] / "projects.json") or b"") or {}).get("projects"))
        for path, name in listed.items():
            # Folders were named by a hash of the path before they had names.
            if folder.name in (name, hashlib.sha256(values.text(path).encode()).hexdigest()):
                return path
    return ""


def _read(path: Path) -> bytes | None:
    """A file's bytes; None when it is too long. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_LINE + 1)
    return data if len(data) <= MAX_LINE else None
