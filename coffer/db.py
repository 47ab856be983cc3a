"""SQLite under several processes: migrate once, wait briefly, come back from damage, write what can wait later.

Everything in the database is derived or a ledger: losing it loses nothing that a person wrote.
"""

import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from django.apps import apps
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from coffer import fs, paths, registry
from coffer.errors import ConfigInvalid

log = logging.getLogger("coffer.db")

_DAMAGE = (
    "malformed",
    "not a database",
    "no such table",
    "no such column",
    "disk i/o error",
    "vtable constructor failed",
    "fts5: corrupt",
    "missing row",
    "corruption found",
    "invalid fts5 file format",
    "sql logic error",  # what FTS5 says of a table of its own that is gone
)
# A disk that takes no more, under a limit on file sizes too: nothing is wrong with what is there.
_NOT_TAKEN = {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMOPEN"}


def prepare() -> None:
    """Bring the database to this program's schema; whoever comes first does it, under a lock.

    Raises ConfigInvalid when a newer Coffer has been here: its tables are not ours to guess about.
    """
    fs.ensure_dir(paths.home())
    wanted = _schema_mark()
    if _readable_mark() == wanted:
        return
    with fs.locked("migrate.lock", seconds=120):
        if _readable_mark() == wanted:
            return
        try:
            _migrate(wanted)
        except DatabaseError as error:
            if not damaged(error):
                raise
            _set_aside()
            _migrate(wanted)
        registry.rebuild()


def damaged(error: BaseException) -> bool:
    """Whether an error says that the file, not the query or a lock, is at fault.

    A database emptied in place under open connections also calls itself locked, and stays so: its mark is gone.
    """
    if not isinstance(error, DatabaseError | sqlite3.DatabaseError):
        return False
    if getattr(error.__cause__ or error, "sqlite_errorname", "") in _NOT_TAKEN:
        return False
    text = str(error).lower()
    return any(word in text for word in _DAMAGE) or (locked(error) and _readable_mark() != _schema_mark())


def locked(error: BaseException) -> bool:
    """Whether an error says only that somebody else is writing."""
    return isinstance(error, OperationalError | sqlite3.OperationalError) and "locked" in str(error).lower()


def recover() -> None:
    """Put a damaged or vanished database aside and fill a new one from the files."""
    with fs.locked("migrate.lock", seconds=120):
        refresh_connection()
        if _readable_mark() != _schema_mark() or not _sound():
            _set_aside()
            _migrate(_schema_mark())
        registry.rebuild()


def refresh_connection() -> None:
    """Drop this thread's connection when the file under it was replaced; one stat when all is well."""
    if connection.connection is None:
        return
    try:
        inode = paths.database().stat().st_ino
    except OSError:
        inode = -1
    if getattr(connection, "coffer_inode", None) != inode:
        connection.close()


@contextmanager
def raw() -> Iterator[sqlite3.Connection]:
    """The stdlib connection under Django's, sharing its transaction; its errors come out as Django's."""
    connection.ensure_connection()
    with connection.wrap_database_errors:
        yield cast(sqlite3.Connection, connection.connection)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Wait at most this long for a lock inside the block, instead of the usual time."""
    _wait_for_locks(seconds)
    try:
        yield
    finally:
        if connection.connection is not None:
            _wait_for_locks(connection.settings_dict["OPTIONS"]["timeout"])


def compact() -> None:
    """Leave no byte of deleted rows in the file or its log. Raises OperationalError while a reader needs the log."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if cursor.fetchone()[0]:
            raise OperationalError("database is locked")


def remember_inode(**_: object) -> None:
    """Note which file a fresh connection opened (connected to Django's ``connection_created``)."""
    with suppress(OSError):
        connection.coffer_inode = paths.database().stat().st_ino  # type: ignore[attr-defined]


def _wait_for_locks(seconds: float) -> None:
    with raw() as plain:
        plain.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")


def _migrate(mark: int) -> None:
    connection.close()
    loader = MigrationLoader(connection)
    unknown = [key for key in loader.applied_migrations if key not in loader.disk_migrations]
    if [key for key in unknown if apps.is_installed(key[0])]:
        raise ConfigInvalid(
            f"{paths.database()} was written by a newer Coffer; update this one, or move that file away to start "
            "from the memory files."
        )
    started = time.monotonic()
    call_command("migrate", verbosity=0, interactive=False, skip_checks=True)
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA user_version = {mark}")
    for suffix in ("", "-wal", "-shm"):  # private like the memory that it repeats, whatever the umask
        with suppress(FileNotFoundError):
            Path(f"{paths.database()}{suffix}").chmod(0o600)
    log.info("database migrated ms=%d", (time.monotonic() - started) * 1000)


def _set_aside() -> None:
    connections.close_all()
    database, kept = paths.database(), fs.ensure_dir(paths.backups())
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{database}{suffix}").replace(kept / f"damaged-{stamp}.sqlite3{suffix}")
    log.warning("database was damaged and set aside as backups/damaged-%s.sqlite3", stamp)


def _sound() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA quick_check(1)")
            if cursor.fetchone() != ("ok",):
                return False
        tables = connection.introspection
        if not set(tables.django_table_names()) <= set(tables.table_names()):
            return False
        return not MigrationExecutor(connection).migration_plan(MigrationExecutor(connection).loader.graph.leaf_nodes())
    except DatabaseError:
        return False


def _readable_mark() -> int | None:
    database = paths.database()
    if not database.exists():
        return None
    try:
        plain = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)
        try:
            return int(plain.execute("PRAGMA user_version").fetchone()[0])
        finally:
            plain.close()
    except sqlite3.Error:
        return None


def _schema_mark() -> int:
    """A number for the set of migrations on disk, read by listing folders: no migration is imported for it."""
    names = []
    for config in apps.get_app_configs():
        folder = Path(config.path) / "migrations"
        if folder.is_dir():
            names += [f"{config.label}.{file.stem}" for file in folder.glob("[0-9]*.py")]
    digest = hashlib.sha256("\n".join(sorted(names)).encode()).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF
