"""OpenCode: a tree of JSON files up to 1.1, then an SQLite database, with other tables since 2.0.

Upgrades leave the older store where it is, so one session may stand in all three: the tables of 2.x win over those of
1.x, a database over the tree. What is written in full on each change (the tables `event`, the part `snapshot`) is not
looked at.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from sqlite3 import Connection
from typing import Any

from transcripts.readers import files, sqlite, values
from transcripts.readers.base import Reader, Role, Session, Source, State, Turn, Unreadable
from transcripts.readers.lines import MAX_LINE


@dataclass(frozen=True)
class _Row:
    """A session as its store lists it; `mark` changes when its conversation may have."""

    session_id: str
    mark: str
    title: Any = None
    directory: Any = None
    created: Any = None
    updated: Any = None
    worker_of: Any = None
    fork_of: Any = None


class _Store(ABC):
    """One of the three; `passed_over` counts pieces that are no JSON objects or longer than MAX_LINE."""

    passed_over = 0

    @abstractmethod
    def rows(self) -> Iterator[_Row]: ...

    @abstractmethod
    def has(self, session_id: str) -> bool: ...

    @abstractmethod
    def turns(self, session_id: str) -> Iterator[Turn]: ...

    def _object(self, data: str | bytes | None) -> dict[str, Any]:
        found = None if data is None else values.loads(data)
        self.passed_over += found is None
        return found or {}


class _Tables(_Store):
    """What the tables of both versions have in common."""

    sessions, messages, own = "", "", ""

    def __init__(self, connection: Connection) -> None:
        self._db = connection
        self._of_message = sqlite.columns(connection, self.messages)

    def rows(self) -> Iterator[_Row]:
        there = sqlite.columns(self._db, self.sessions)
        wanted = ("id", "title", "directory", "time_created", "time_updated", "parent_id", "fork_session_id")
        named = ", ".join(name if name in there else "NULL" for name in wanted)
        changed = "time_updated" if "time_updated" in self._of_message else "rowid"
        counts = f"SELECT session_id, count(*), max({changed}) FROM {self.messages} GROUP BY session_id"
        marks = {session: [count, last] for session, count, last in self._db.execute(counts)}
        for row in self._db.execute(f"SELECT {named} FROM {self.sessions}"):
            if session_id := values.text(row[0]):
                yield _Row(session_id, _mark(row, marks.get(session_id)), *row[1:])

    def has(self, session_id: str) -> bool:
        return self._db.execute(f"SELECT 1 FROM {self.sessions} WHERE id = ?", (session_id,)).fetchone() is not None

    def _data(self, query: str, *parameters: str) -> Iterator[list[Any]]:
        """Rows whose last column is `data`, None where it is too long."""
        short = f"CASE WHEN length(data) <= {MAX_LINE} THEN data END"
        yield from self._db.execute(query.replace("data", short, 1), parameters)


class _Tables1(_Tables):
    """1.2 to 1.18: texts are parts of messages."""

    sessions, messages = "session", "message"

    def turns(self, session_id: str) -> Iterator[Turn]:
        order = ", ".join(name for name in ("time_created", "id") if name in self._of_message)
        query = f"SELECT id, data FROM message WHERE session_id = ? ORDER BY {order}"
        for message_id, data in self._data(query, session_id):
            parts = "SELECT data FROM part WHERE message_id = ? ORDER BY id"
            said = (self._object(part) for (part,) in self._data(parts, message_id) if _may_be_text(part))
            if turn := _of_parts(self._object(data), said):
                yield turn


class _Tables2(_Tables):
    """Since 2.0: a message holds its own text."""

    sessions, messages = "session_v2", "session_message"

    def turns(self, session_id: str) -> Iterator[Turn]:
        query = (
            "SELECT type, data FROM session_message WHERE session_id = ? AND type IN ('user', 'assistant') ORDER BY seq"
        )
        for role, data in self._data(query, session_id):
            message = self._object(data)
            if role == "user":
                texts = [values.text(message.get("text"))]
            else:
                content = values.items(message.get("content"))
                texts = [values.text(item.get("text")) for item in content if item.get("type") == "text"]
            if turn := _turn(role, texts, message):
                yield turn


class _Tree(_Store):
    """Up to 1.1: a file for each session, message and part, named by its id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def rows(self) -> Iterator[_Row]:
        for file in files.walk(self._folder / "session", 1, (".json",)):
            if file.problem:
                continue
            about = self._read(file.path)
            written = [(found.mtime_ns, found.size) for found in self._below("message", file.path.stem)]
            mark = _mark(file.mtime_ns, file.size, len(written), max(written, default=None))
            time = values.mapping(about.get("time"))
            yield _Row(
                file.path.stem, mark, about.get("title"), about.get("directory"), time.get("created"),
                time.get("updated"), about.get("parentID"),
            )  # fmt: skip

    def has(self, session_id: str) -> bool:
        return any(file.path.stem == session_id for file in files.walk(self._folder / "session", 1, (".json",)))

    def turns(self, session_id: str) -> Iterator[Turn]:
        messages = [(self._read(file.path), file.path.stem) for file in self._below("message", session_id)]
        for message, message_id in sorted(messages, key=_written):
            if turn := _of_parts(message, (self._read(file.path) for file in self._below("part", message_id))):
                yield turn

    def _below(self, kind: str, owner: str) -> Iterator[Source]:
        return files.walk(self._folder / kind / owner, 0, (".json",))

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            with path.open("rb") as file:
                data = file.read(MAX_LINE + 1)
        except OSError:
            data = b""
        return self._object(data if len(data) <= MAX_LINE else None)


class OpenCode(Reader):
    """Sessions of every store; those of agents that a session called in are told as subagents."""

    agent = "opencode"

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        folder = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
        named = [folder / env["OPENCODE_DB"]] if env.get("OPENCODE_DB", ":memory:") != ":memory:" else []
        paths = dict.fromkeys([*named, folder / "opencode.db", *sorted(folder.glob("opencode-*.db"))])
        databases = [found for path in paths if (found := sqlite.source(path))]
        yield from databases
        parts = list(files.walk(folder / "storage" / "session", 1, (".json",)))
        yield from (part for part in parts if part.problem)
        if any(not part.problem for part in parts):
            parts += [*files.walk(folder / "storage" / "message", 1, (".json",)), *databases]
            size, mtime = sum(part.size for part in parts), max(part.mtime_ns for part in parts)
            yield Source(os.fspath(folder / "storage"), size, mtime, over=tuple(found.path for found in databases))

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        with _stores(source.path) as stores:
            for store in stores:
                if store.has(session_id):
                    yield from store.turns(session_id)
                    return

    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]:
        known = values.mapping(state and state.get("sessions"))
        taken = {row.session_id for path in source.over for row in _rows(path)}
        kept: dict[str, Any] = {}
        found = []
        with _stores(source.path) as stores:
            for store in stores:
                for row in store.rows():
                    if row.session_id not in taken:
                        taken.add(row.session_id)
                        session = _unchanged(row, known, source) or self._session(source, store, row)
                        kept[row.session_id] = {"mark": row.mark, "session": session.as_dict()}
                        found.append(session)
        return found, {"sessions": kept}

    def _session(self, source: Source, store: _Store, row: _Row) -> Session:
        before = store.passed_over
        prompt, count = None, 0
        for turn in store.turns(row.session_id):
            count += 1
            if prompt is None and turn.role == "user":
                prompt = values.one_line(turn.text)
        passed_over = store.passed_over - before
        mtime = values.from_nanos(source.mtime_ns)
        worker_of = values.text(row.worker_of)
        return Session(
            agent=self.agent,
            session_id=row.session_id,
            title=values.one_line(row.title),
            own_title=None,
            first_prompt=prompt,
            project_path=values.text(row.directory) or None,
            message_count=count,
            started_at=values.moment(row.created) or mtime,
            last_activity_at=values.moment(row.updated) or mtime,
            source_path=str(source.path),
            size=source.size,
            mtime_ns=source.mtime_ns,
            parent=worker_of or values.text(row.fork_of) or None,
            subagent=bool(worker_of),
            unread=passed_over,
            notes=(f"{passed_over} pieces are damaged or too long: passed over",) if passed_over else (),
        )


@contextmanager
def _stores(path: Path) -> Iterator[list[_Store]]:
    """The stores of a source, the winning one first. Raises Unreadable."""
    if path.is_dir():
        yield [_Tree(path)]
        return
    with sqlite.opened(path) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        stores: list[_Store] = []
        if {"session_v2", "session_message"} <= tables:
            stores.append(_Tables2(connection))
        if {"session", "message", "part"} <= tables:
            stores.append(_Tables1(connection))
        if tables and not stores:
            why = "it has none of the tables of OpenCode 1.2 to 2.x; it may be newer than this version of Coffer"
            raise Unreadable(f"The database {path} is not read: {why}.", path=str(path))
        yield stores


def _rows(path: Path) -> list[_Row]:
    with suppress(Unreadable), _stores(path) as stores:  # the database says so itself, as a source
        return [row for store in stores for row in store.rows()]
    return []


def _unchanged(row: _Row, known: dict[str, Any], source: Source) -> Session | None:
    kept = values.mapping(known.get(row.session_id))
    if kept.get("mark") != row.mark:
        return None
    with suppress(KeyError, TypeError, ValueError):  # a state of another make
        return replace(Session.from_dict(kept["session"]), size=source.size, mtime_ns=source.mtime_ns)
    return None


def _mark(*signs: Any) -> str:
    """A hash: it is kept, and a title among the signs need not be."""
    return hashlib.blake2b(repr(signs).encode(errors="replace"), digest_size=12).hexdigest()


def _may_be_text(data: str | bytes | None) -> bool:
    """A look that spares parsing the output of most tools."""
    return data is None or (b'"text"' in data if isinstance(data, bytes) else '"text"' in data)


def _of_parts(message: dict[str, Any], parts: Iterable[dict[str, Any]]) -> Turn | None:
    role = message.get("role")
    if role not in ("user", "assistant") or message.get("summary") is True:
        return None
    texts = [
        values.text(part.get("text"))
        for part in parts
        if part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored")
    ]
    return _turn(role, texts, message)


def _turn(role: Role, texts: Iterable[str], message: dict[str, Any]) -> Turn | None:
    said = "\n\n".join(stripped for text in texts if (stripped := text.strip()))
    at = values.moment(values.mapping(message.get("time")).get("created"))
    return Turn(role, said, at) if said else None


def _written(message: tuple[dict[str, Any], str]) -> tuple[float, str]:
    at = values.moment(values.mapping(message[0].get("time")).get("created"))
    return (at.timestamp() if at else 0.0, message[1])
