"""The index's rows as SQL, for the two hot paths: indexing files and reading hits.

The tables are the ORM's; through its objects the same work takes three times as long, most of it for one small fact.
Every function takes the connection of the transaction it belongs to.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from memory.files.lanes import Stat
from memory.models import Store
from memory.retrieval import keyword
from memory.retrieval.entries import Entry

_COLUMNS = (
    "id, store_id, path, kind, ref, claimed, title, description, actor, session, created_at, time, sha256, "
    "size, mtime_ns, ctime_ns, inode, hashed_ns, problem"
)
_INSERT_DOCUMENT = f"INSERT INTO memory_document ({_COLUMNS}) VALUES ({', '.join('?' * 19)})"
_INSERT_CHUNK = "INSERT INTO memory_chunk (id, document_id, position, heading, text) VALUES (?, ?, ?, ?, ?)"
_LAST_IDS = """
SELECT (SELECT coalesce(max(id), 0) FROM memory_document), (SELECT coalesce(max(id), 0) FROM memory_chunk)
"""
_ADVANCE = """
UPDATE memory_store SET generation = generation + 1, updated_at = max(updated_at, ?)
WHERE id = ? AND name = ? RETURNING generation
"""
_BY_PATH = """
SELECT id, claimed FROM memory_document WHERE store_id = ? AND path IN (SELECT value FROM json_each(?))
"""
_RESTAMP = """
UPDATE memory_document SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, hashed_ns = ?
WHERE store_id = ? AND path = ?
"""
_CLAIMED = """
SELECT id, claimed, path, ref FROM memory_document
WHERE store_id = ? AND claimed IN (SELECT value FROM json_each(?)) ORDER BY claimed, path
"""
_TITLES = """
SELECT ref, kind, title, description, actor, CAST(time AS TEXT), path, problem FROM memory_document
WHERE store_id = ? AND kind = ? {} ORDER BY time DESC LIMIT ?
"""
_ALL, _HOLDING = _TITLES.format(""), _TITLES.format("AND holds(title, description, path)")
_PASSAGE = """
chunk.id, chunk.text, document.id, document.store_id, document.ref, document.kind, document.path,
CAST(document.time AS TEXT), -- as text: Django's connection converts columns of a time type itself
document.title, document.sha256, chunk.position
"""
_PASSAGES = f"""
SELECT {_PASSAGE} FROM memory_chunk AS chunk JOIN memory_document AS document ON document.id = chunk.document_id
WHERE chunk.id IN (SELECT value FROM json_each(?))
"""
_PASSAGES_AT = f"""
SELECT {_PASSAGE} FROM json_each(?) AS wanted
CROSS JOIN memory_document AS document ON document.store_id = json_extract(wanted.value, '$[0]')
  AND document.path = json_extract(wanted.value, '$[1]') AND document.sha256 = json_extract(wanted.value, '$[2]')
CROSS JOIN memory_chunk AS chunk ON chunk.document_id = document.id
  AND chunk.position = json_extract(wanted.value, '$[3]')
"""


Holds = Callable[[str, str, str], bool]  # whether a title, description and path are of those wanted


class Title(NamedTuple):
    """One document as a list shows it; the time as it is stored, whose order as text is its order."""

    id: str
    kind: str
    title: str
    description: str
    actor: str
    time: str
    path: str
    problem: str

    @property
    def when(self) -> datetime:
        return read_time(self.time)


class Passage(NamedTuple):
    """A passage, with what a hit tells of its document; the time as it is stored."""

    chunk: int
    text: str
    document: int
    store: int
    ref: str
    kind: str
    path: str
    time: str
    title: str
    sha256: str  # of the file's bytes; with it and the position a passage is the same one in any other index
    position: int

    @property
    def when(self) -> datetime:
        return read_time(self.time)


def scope_token(store: Store) -> str:
    """The word that stands for a store in the full-text table."""
    return f"s{store.pk}"


def generation(con: sqlite3.Connection, store: Store) -> int:
    """The number of the index's last change of a store. Raises Store.DoesNotExist when its row is another's now."""
    query = "SELECT generation FROM memory_store WHERE id = ? AND name = ?"
    row = con.execute(query, (store.pk, store.name)).fetchone()
    if row is None:
        raise Store.DoesNotExist(store.name)
    return int(row[0])


def advance(con: sqlite3.Connection, store: Store, newest: datetime | None) -> int:
    """Count one change, let the last write be no older than the newest file; the new generation.

    Raises Store.DoesNotExist when the store's row is another's now.
    """
    time = stored_time(newest) if newest is not None else ""
    row = con.execute(_ADVANCE, (time, store.pk, store.name)).fetchone()
    if row is None:
        raise Store.DoesNotExist(store.name)
    return int(row[0])


def listing(con: sqlite3.Connection, store: Store) -> Iterator[tuple[str, Stat, int]]:
    """Every indexed file of a store: its path, the signature it was indexed with, and when that was (ns)."""
    columns = "path, size, mtime_ns, ctime_ns, inode, hashed_ns"
    for path, *stat, hashed in con.execute(f"SELECT {columns} FROM memory_document WHERE store_id = ?", (store.pk,)):
        yield path, Stat(*stat), hashed


def hashes(con: sqlite3.Connection, store: Store, paths: Collection[str]) -> dict[str, str]:
    """The hashes that some files were indexed with."""
    query = "SELECT path, sha256 FROM memory_document WHERE store_id = ? AND path IN (SELECT value FROM json_each(?))"
    return dict(con.execute(query, (store.pk, json.dumps(list(paths)))))


def ref_of(con: sqlite3.Connection, store: Store, path: str) -> str:
    """The id of an indexed file; empty when there is none."""
    row = con.execute("SELECT ref FROM memory_document WHERE store_id = ? AND path = ?", (store.pk, path)).fetchone()
    return row[0] if row is not None else ""


def drop(con: sqlite3.Connection, store: Store, paths: Collection[str]) -> set[str]:
    """Remove the rows of some files; returns the ids that they claimed."""
    if not paths:
        return set()
    found = con.execute(_BY_PATH, (store.pk, json.dumps(list(paths)))).fetchall()
    _delete(con, [row for row, _ in found])
    return {claimed for _, claimed in found}


def drop_all(con: sqlite3.Connection, store: Store) -> None:
    """Remove every row of a store."""
    _delete(con, [row for (row,) in con.execute("SELECT id FROM memory_document WHERE store_id = ?", (store.pk,))])


def insert(con: sqlite3.Connection, store: Store, entries: Sequence[Entry]) -> None:
    """Add rows for files just read, with ids given here: the full-text rows must carry those of their passages."""
    if not entries:
        return
    document_id, chunk_id = con.execute(_LAST_IDS).fetchone()
    documents, chunks, texts = [], [], []
    for entry in entries:
        document_id += 1
        documents.append(_document(document_id, store, entry))
        for position, passage in enumerate(entry.passages):
            chunk_id += 1
            chunks.append((chunk_id, document_id, position, passage.heading, passage.text))
            texts.append((chunk_id, scope_token(store), *entry.columns(position)))
    con.executemany(_INSERT_DOCUMENT, documents)
    con.executemany(_INSERT_CHUNK, chunks)
    keyword.add(con, texts)


def restamp(con: sqlite3.Connection, store: Store, entries: Sequence[Entry]) -> None:
    """Note new signatures of files whose bytes are the same: no word needs indexing again."""
    con.executemany(_RESTAMP, [(*entry.stat, entry.hashed_ns, store.pk, entry.path) for entry in entries])


def settle_refs(con: sqlite3.Connection, store: Store, claims: Collection[str]) -> None:
    """One file per id: the first by path keeps it, the others get a suffix made of their path."""
    if not claims:
        return
    previous = None
    for row, claimed, path, ref in con.execute(_CLAIMED, (store.pk, json.dumps(list(claims)))).fetchall():
        wanted = claimed if claimed != previous else f"{claimed}~{sha256(path.encode()).hexdigest()[:6]}"
        if ref != wanted:
            con.execute("UPDATE memory_document SET ref = ? WHERE id = ?", (wanted, row))
        previous = claimed


def passages(con: sqlite3.Connection, chunks: Collection[int]) -> list[Passage]:
    """Passages by their rows in the full-text table, in no order."""
    return [Passage(*row) for row in con.execute(_PASSAGES, (json.dumps(list(chunks)),))]


def passages_at(con: sqlite3.Connection, places: Sequence[tuple[int, str, str, int]]) -> list[Passage]:
    """Passages by store, path, hash of the file and position; those that are no longer so are left out."""
    return [Passage(*row) for row in con.execute(_PASSAGES_AT, (json.dumps(places),))]


def titles(
    con: sqlite3.Connection, store: Store, kind: str, limit: int | None, holds: Holds | None = None
) -> list[Title]:
    """The newest documents of one kind; all of them without a limit, only those that are asked for with ``holds``."""
    if holds is not None:
        # Asked within SQLite: to hand thousands of rows over for the sake of a few takes three times as long.
        con.create_function("holds", 3, holds, deterministic=True)
    found = con.execute(_ALL if holds is None else _HOLDING, (store.pk, kind, -1 if limit is None else limit))
    return [Title._make(row) for row in found]


def title_of(ref: str, entry: Entry) -> Title:
    """The same of a file just read."""
    about = (entry.title, entry.description, entry.actor)
    return Title(ref, entry.kind.value, *about, stored_time(entry.time), entry.path, entry.problem)


def stored_time(time: datetime) -> str:
    """A time as Django keeps it in SQLite: UTC without a zone, fixed width so that text order is time order."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")


def read_time(text: str) -> datetime:
    """The opposite of ``stored_time``."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _document(pk: int, store: Store, entry: Entry) -> tuple[object, ...]:
    created = stored_time(entry.created_at) if entry.created_at else None
    about = (entry.path, entry.kind.value, entry.claimed, entry.claimed, entry.title, entry.description)
    writer = (entry.actor, entry.session, created, stored_time(entry.time))
    return (pk, store.pk, *about, *writer, entry.sha256, *entry.stat, entry.hashed_ns, entry.problem)


def _delete(con: sqlite3.Connection, documents: Sequence[int]) -> None:
    wanted = (json.dumps(documents),)
    chunks = con.execute("SELECT id FROM memory_chunk WHERE document_id IN (SELECT value FROM json_each(?))", wanted)
    keyword.remove(con, [row for (row,) in chunks.fetchall()])
    con.execute("DELETE FROM memory_chunk WHERE document_id IN (SELECT value FROM json_each(?))", wanted)
    con.execute("DELETE FROM memory_document WHERE id IN (SELECT value FROM json_each(?))", wanted)
