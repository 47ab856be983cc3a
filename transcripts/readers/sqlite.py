"""Another program's SQLite database, read beside that program without leaving anything in its folder."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from transcripts.readers import files
from transcripts.readers.base import Source, Unreadable

_SIDE_FILES = ("-wal", "-journal")
_TRIES = 5
_WAL_MODE = 2
_SECONDS = 2.0


def source(path: Path, *, over: tuple[Path, ...] = ()) -> Source | None:
    """The database with its write-ahead log as a source; None when there is none."""
    found = [about for name in ("", "-wal") if (about := files.stat(_beside(path, name)))]
    if not files.stat(path):
        return None
    return Source(
        os.fspath(path), sum(about.st_size for about in found), max(about.st_mtime_ns for about in found), over
    )


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """One unchanging view of a database. Raises Unreadable, also for failures within.

    A database that is open elsewhere is read beside its log. One that is closed would be given a log by the first who
    opens it, and by a reader it would be left behind: it is read from a copy.
    """
    try:
        with ExitStack() as stack:
            yield _connected(path, stack)
    except (sqlite3.Error, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Unreadable(f"The database {path} cannot be read ({why}).", path=str(path)) from error


def columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """The names of a table's columns; none when there is no such table."""
    return {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}


def _connected(path: Path, stack: ExitStack) -> sqlite3.Connection:
    if _leaves_no_trace(path):
        with suppress(sqlite3.OperationalError):  # no right to take part in the log of the other program
            return _connect(path, "ro", stack)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="coffer-"))
    return _connect(_copy(path, folder), "rw", stack)


def _connect(path: Path, mode: str, stack: ExitStack) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=_SECONDS, isolation_level=None
    )
    stack.enter_context(closing(connection))
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA query_only = on")
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM sqlite_master")  # only now the view stands, and the log was opened
    return connection


def _leaves_no_trace(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(20)
    if len(header) < 20 or header[19] != _WAL_MODE:
        return not _beside(path, "-journal").exists()
    return _beside(path, "-wal").exists() and _beside(path, "-shm").exists()


def _copy(path: Path, folder: str) -> Path:
    """A copy of what belongs together: taken again when it was written to meanwhile."""
    for _ in range(_TRIES):
        before = _state(path)
        for name in ("", *_SIDE_FILES):
            target = Path(folder) / f"copy.db{name}"
            target.unlink(missing_ok=True)
            if _beside(path, name).exists():
                shutil.copyfile(_beside(path, name), target)
        if _state(path) == before:
            return Path(folder) / "copy.db"
    raise Unreadable(f"The database {path} is being written to all the time; try again later.", path=str(path))


def _state(path: Path) -> list[Any]:
    found = [files.stat(_beside(path, name)) for name in ("", *_SIDE_FILES)]
    return [about and (about.st_ino, about.st_size, about.st_mtime_ns) for about in found]


def _beside(path: Path, name: str) -> Path:
    return path.with_name(path.name + name)
