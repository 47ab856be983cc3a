"""Hermes: an SQLite database ``state.db`` for a person, and one for each profile.

Sessions of chat platforms have no working directory and are left out. Messages that a compaction set aside were said
all the same; those that a person took back, and the summaries themselves, were not.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from transcripts.readers import sqlite, values
from transcripts.readers.base import Reader, Session, Source, State, Turn, Unreadable

_TERMINALS = ("cli", "tui")
_SUMMARY = "[CONTEXT COMPACTION"


class Hermes(Reader):
    """Sessions held in a terminal."""

    agent = "hermes"

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        root = Path(env.get("HERMES_HOME") or home / ".hermes")
        for path in [root / "state.db", *sorted(root.glob("profiles/*/state.db"))]:
            if found := sqlite.source(path):
                yield found

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        with sqlite.opened(source.path) as connection:
            yield from _turns(connection, session_id)

    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]:
        with sqlite.opened(source.path) as connection:
            if not {"session_id", "role", "content", "timestamp"} <= sqlite.columns(connection, "messages"):
                why = "it has no messages as Coffer knows them; it may be of another version"
                raise Unreadable(f"The database {source.path} is not read: {why}.", path=str(source.path))
            return [self._session(source, connection, row) for row in _rows(connection)], None

    def _session(self, source: Source, connection: Connection, row: dict[str, Any]) -> Session:
        turns = _turns(connection, row["id"])
        prompt, count, last = None, 0, values.moment(row["started_at"])
        for turn in turns:
            count += 1
            if prompt is None and turn.role == "user":
                prompt = values.one_line(turn.text)
            last = max(filter(None, (last, turn.at)), default=None)
        mtime = values.from_nanos(source.mtime_ns)
        return Session(
            agent=self.agent,
            session_id=row["id"],
            title=values.one_line(row["title"]) or prompt,
            own_title=None,
            first_prompt=prompt,
            project_path=values.text(row["cwd"]) or None,
            message_count=count,
            started_at=values.moment(row["started_at"]) or mtime,
            last_activity_at=last or mtime,
            source_path=str(source.path),
            size=source.size,
            mtime_ns=source.mtime_ns,
            parent=values.text(row["parent_session_id"]) or None,
        )


def _rows(connection: Connection) -> list[dict[str, Any]]:
    there = sqlite.columns(connection, "sessions")
    wanted = ("id", "title", "cwd", "started_at", "parent_session_id", "source")
    named = ", ".join(name if name in there else "NULL" for name in wanted)
    query = f"SELECT {named} FROM sessions"
    if "id" not in there:  # the first versions kept messages alone
        query = "SELECT DISTINCT session_id, NULL, NULL, NULL, NULL, NULL FROM messages ORDER BY session_id"
    rows = [dict(zip(wanted, row, strict=True)) for row in connection.execute(query)]
    return [row for row in rows if isinstance(row["id"], str) and row["source"] in (*_TERMINALS, None)]


def _turns(connection: Connection, session_id: str) -> Iterator[Turn]:
    there = sqlite.columns(connection, "messages")
    said = "role IN ('user', 'assistant')"
    if {"active", "compacted"} <= there:
        said += " AND (active OR compacted)"
    query = f"SELECT role, content, timestamp FROM messages WHERE session_id = ? AND {said} ORDER BY id"
    for role, content, at in connection.execute(query, (session_id,)):
        text = values.text(content).strip()
        if text and not text.startswith(_SUMMARY):
            yield Turn(role, text, values.moment(at))
