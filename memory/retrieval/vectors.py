"""Vectors of passages in a file of their own, searched with sqlite-vec (FR-008); all of it can be made anew.

A space is what one model makes: vectors of two spaces are never compared. A passage is known by its file's hash and
its position, so that nothing here has to follow the other database. Nearness is measured twice: roughly over one bit
a dimension, which takes a scan of a few kilobytes a thousand, then exactly over the best of those.
"""

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import apsw

from coffer import fs, paths
from coffer.errors import Busy

log = logging.getLogger("memory.vectors")
FAILURES = (
    apsw.Error,
    Busy,
    OSError,
    ImportError,
)  # what any function here may raise, of a file that cannot be used now
NOT_LOADABLE = (ImportError, apsw.ExtensionLoadingError)  # of those the ones that do not pass by themselves
_DAMAGE = (apsw.CorruptError, apsw.NotADBError)
_VERSION = 1
_ROUGHLY = 3  # times as many by bits as are wanted in the end; measured on all sets to lose none that matters
_PATIENCE_MS = 1_000
_PAGE = 8192  # of the usual 4096 a vector of 512 numbers leaves half empty
_SCHEMA = """
CREATE TABLE IF NOT EXISTS space(
    id INTEGER PRIMARY KEY AUTOINCREMENT, model TEXT NOT NULL, probe BLOB NOT NULL, least REAL NOT NULL,
    reads_cjk INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS document(
    id INTEGER PRIMARY KEY, space INTEGER NOT NULL, store TEXT NOT NULL, path TEXT NOT NULL, sha256 TEXT NOT NULL,
    failures INTEGER NOT NULL, retry_at REAL NOT NULL, UNIQUE(space, store, path)
);
CREATE TABLE IF NOT EXISTS passage(
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, position INTEGER NOT NULL, digest BLOB NOT NULL,
    vector BLOB NOT NULL, UNIQUE(document, position)
);
CREATE INDEX IF NOT EXISTS passage_digest ON passage(digest);
CREATE TABLE IF NOT EXISTS sketch(
    space INTEGER, store TEXT, passage INTEGER, bits BLOB NOT NULL, PRIMARY KEY(space, store, passage)
) WITHOUT ROWID;
"""
# CROSS JOIN keeps the order in which the tables are written: any other one reads them whole.
_NEAREST = """
WITH rough(passage) AS (
    SELECT passage FROM sketch WHERE space = ?1 AND store IN (SELECT value FROM json_each(?2))
    ORDER BY vec_distance_hamming(vec_bit(bits), vec_quantize_binary(?3)) LIMIT ?4
)
SELECT document.store, document.path, document.sha256, passage.position,
       1 - vec_distance_cosine(passage.vector, ?3) AS cosine
FROM rough CROSS JOIN passage ON passage.id = rough.passage CROSS JOIN document ON document.id = passage.document
ORDER BY cosine DESC LIMIT ?5
"""
_COSINES = """
SELECT document.store, document.path, document.sha256, passage.position,
       1 - vec_distance_cosine(passage.vector, ?2)
FROM json_each(?3) AS wanted
CROSS JOIN document ON document.space = ?1 AND document.store = wanted.value ->> 0
  AND document.path = wanted.value ->> 1 AND document.sha256 = wanted.value ->> 2
CROSS JOIN passage ON passage.document = document.id AND passage.position = wanted.value ->> 3
"""
_SKETCH = "INSERT INTO sketch(space, store, passage, bits) VALUES (?, ?, ?, vec_quantize_binary(?))"
_KNOWN = """
SELECT passage.digest, passage.vector FROM json_each(?2) AS wanted
CROSS JOIN passage ON passage.digest = unhex(wanted.value) CROSS JOIN document ON document.id = passage.document
WHERE document.space = ?1
"""
_FORGET_SKETCHES = """
DELETE FROM sketch WHERE (space, store, passage) IN (
    SELECT document.space, document.store, passage.id FROM json_each(?) AS gone
    JOIN document ON document.id = gone.value JOIN passage ON passage.document = document.id
)
"""
_DOCUMENT = (
    "INSERT INTO document(space, store, path, sha256, failures, retry_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id"
)
_PASSAGE = "INSERT INTO passage(document, position, digest, vector) VALUES (?, ?, ?, ?) RETURNING id"


class Space(NamedTuple):
    """What one model makes: ``probe`` is its vector of a known text, ``least`` the cosine of what is not related."""

    id: int
    model: str
    probe: bytes
    least: float
    reads_cjk: bool

    @property
    def dimension(self) -> int:
        return len(self.probe) // 4


class Place(NamedTuple):
    """A passage: its store, its file with the hash of its bytes, and the number of the passage in it."""

    store: str
    path: str
    sha256: str
    position: int


class State(NamedTuple):
    """What is embedded of a file: of which bytes, how often it failed in a row, and when to try again."""

    sha256: str
    failures: int
    retry_at: float


class Embedded(NamedTuple):
    """A file to be kept: the passages that have a vector, as (position, digest, vector)."""

    path: str
    state: State
    passages: Sequence[tuple[int, bytes, bytes]]


_open = threading.local()


def spaces(model: str | None = None) -> list[Space]:
    """The spaces of a model, or all, the newest first."""
    rows = _read("SELECT id, model, probe, least, reads_cjk FROM space ORDER BY id DESC", ())
    found = [Space(row[0], row[1], row[2], row[3], bool(row[4])) for row in rows]
    return [space for space in found if model in (None, space.model)]


def add_space(model: str, probe: bytes, least: float, reads_cjk: bool) -> Space:
    """Begin a space."""
    with _writing() as con:
        con.execute(
            "INSERT INTO space(model, probe, least, reads_cjk) VALUES (?, ?, ?, ?)", (model, probe, least, reads_cjk)
        )
        return Space(con.last_insert_rowid(), model, probe, least, reads_cjk)


def nearest(space: Space, stores: Sequence[str], vector: bytes, limit: int) -> list[tuple[Place, float]]:
    """The passages nearest to a vector of the same space, each with its cosine, the nearest first."""
    given = (space.id, json.dumps(list(stores)), vector, limit * _ROUGHLY, limit)
    return [(Place(*row[:4]), row[4]) for row in _read(_NEAREST, given)]


def cosines(space: Space, vector: bytes, places: Sequence[Place]) -> dict[Place, float]:
    """How near some passages are; those without a vector are left out."""
    return {Place(*row[:4]): row[4] for row in _read(_COSINES, (space.id, vector, json.dumps(places)))}


def states(space: Space, store: str) -> dict[str, State]:
    """What is embedded of a store, by path."""
    query = "SELECT path, sha256, failures, retry_at FROM document WHERE space = ? AND store = ?"
    return {row[0]: State(*row[1:]) for row in _read(query, (space.id, store))}


def known(space: Space, digests: Collection[bytes]) -> dict[bytes, bytes]:
    """Vectors that the same texts have already, wherever they stand."""
    return dict(_read(_KNOWN, (space.id, json.dumps([digest.hex() for digest in digests]))))


def keep(space: Space, store: str, files: Sequence[Embedded], indexed: Callable[[], Mapping[str, str]]) -> None:
    """Put files in the place of what was kept of them.

    ``indexed`` tells the hash of each file in the index; it is asked once nobody else can write here, so that nothing
    is kept of a file that was erased meanwhile.
    """
    with _writing() as con:
        _keep_space(con, space)
        hashes = indexed()
        for file in files:
            if hashes.get(file.path) != file.state.sha256:
                continue
            _drop(con, "space = ? AND store = ? AND path = ?", (space.id, store, file.path))
            row = (space.id, store, file.path, *file.state)
            (document,) = cast(tuple[int], con.execute(_DOCUMENT, row).fetchone())
            for position, digest, vector in file.passages:
                added = con.execute(_PASSAGE, (document, position, digest, vector)).fetchone()
                (passage,) = cast(tuple[int], added)
                con.execute(_SKETCH, (space.id, store, passage, vector))


def retain(store: str, paths: Collection[str]) -> int:
    """Drop what is kept of a store's other files, in every space; how many files that were."""
    with _writing() as con:
        kept = json.dumps(list(paths))
        return _drop(con, "store = ? AND path NOT IN (SELECT value FROM json_each(?))", (store, kept))


def retain_stores(stores: Collection[str]) -> None:
    """Drop what is kept of other stores."""
    with _writing() as con:
        _drop(con, "store NOT IN (SELECT value FROM json_each(?))", (json.dumps(list(stores)),))


def retain_space(space: Space, store: str) -> None:
    """Drop what other spaces keep of a store, and the spaces that then keep nothing."""
    with _writing() as con:
        _drop(con, "store = ? AND space <> ?", (store, space.id))
        con.execute("DELETE FROM space WHERE id <> ? AND id NOT IN (SELECT space FROM document)", (space.id,))


def compact() -> None:
    """Leave no byte of what was dropped in the file or its log."""
    if paths.vectors().exists():
        _connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def discard() -> None:
    """Begin with an empty file."""
    _forget_connection()
    with fs.locked("vectors.lock"):
        _remove(paths.vectors())


def _keep_space(con: apsw.Connection, space: Space) -> None:
    """The space is there again, should it have gone as one that held nothing. Raises Busy for another in its place."""
    con.execute("INSERT OR IGNORE INTO space(id, model, probe, least, reads_cjk) VALUES (?, ?, ?, ?, ?)", space)
    if con.execute("SELECT probe FROM space WHERE id = ?", (space.id,)).fetchone() != (space.probe,):
        raise Busy("The file of vectors was made anew meanwhile; try again in a moment.")


def _drop(con: apsw.Connection, where: str, given: tuple[object, ...]) -> int:
    gone = [row[0] for row in con.execute(f"SELECT id FROM document WHERE {where}", given)]
    wanted = (json.dumps(gone),)
    con.execute(_FORGET_SKETCHES, wanted)
    con.execute("DELETE FROM passage WHERE document IN (SELECT value FROM json_each(?))", wanted)
    con.execute("DELETE FROM document WHERE id IN (SELECT value FROM json_each(?))", wanted)
    return len(gone)


def _read(query: str, given: tuple[object, ...]) -> list[tuple[Any, ...]]:
    """Rows of one query; none when there is no file yet, or none that is sound."""
    if not paths.vectors().exists():
        return []
    try:
        return _connection().execute(query, given).fetchall()
    except _DAMAGE as error:
        _damaged(error)
        return []


@contextmanager
def _writing() -> Iterator[apsw.Connection]:
    """One transaction; a damaged file is gone afterwards, and whoever tries again begins with a new one."""
    try:
        con = _connection()
        con.execute("BEGIN IMMEDIATE")
        try:
            yield con
            con.execute("COMMIT")
        except BaseException:
            if con.in_transaction:
                con.execute("ROLLBACK")
            raise
    except _DAMAGE as error:
        _damaged(error)
        raise


def _connection() -> apsw.Connection:
    """This thread's connection to the file that is there now."""
    path = paths.vectors()
    kept = getattr(_open, "connection", None)
    try:
        stat = path.stat()
        identity = (str(path), stat.st_dev, stat.st_ino)
    except FileNotFoundError:
        identity = None
    if kept is not None and identity is not None and _open.identity == identity:
        return cast(apsw.Connection, kept)
    _forget_connection()
    with fs.locked("vectors.lock", seconds=1.0):
        con = _opened(path)
    stat = path.stat()
    _open.connection, _open.identity = con, (str(path), stat.st_dev, stat.st_ino)
    return con


def _opened(path: Path) -> apsw.Connection:
    if not path.exists():
        fs.ensure_dir(path.parent)
        with suppress(FileExistsError):
            fs.create(path, b"")
    con = apsw.Connection(str(path))
    con.set_busy_timeout(_PATIENCE_MS)
    con.enable_load_extension(True)
    con.load_extension(_extension())
    con.enable_load_extension(False)
    con.execute(f"PRAGMA page_size = {_PAGE}")  # of a new file
    con.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON").fetchall()
    version = con.pragma("user_version")
    if version not in (0, _VERSION):  # of another Coffer: made anew, as all of it can be
        con.close()
        _remove(path)
        return _opened(path)
    if version == 0:
        con.execute(f"BEGIN IMMEDIATE; {_SCHEMA}; PRAGMA user_version = {_VERSION}; COMMIT")
    return con


@cache
def _extension() -> str:
    """Where sqlite-vec lies: importing it would load numpy too, where that is installed, and its threads."""
    spec = find_spec("sqlite_vec")
    if spec is None or spec.origin is None:
        raise ImportError("sqlite-vec is not installed")
    return str(Path(spec.origin).with_name("vec0"))


def _damaged(error: Exception) -> None:
    log.warning("the file of vectors is damaged and begins anew error=%s", type(error).__name__)
    discard()


def _forget_connection() -> None:
    kept = getattr(_open, "connection", None)
    if kept is not None:
        _open.connection = None
        with suppress(apsw.Error):
            kept.close()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
