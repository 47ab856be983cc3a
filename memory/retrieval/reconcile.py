"""Bring the index in line with the files: a pure diff of two listings, then one transaction per batch (FR-010).

Each process keeps the listing it last saw of a store, so that a recall costs one walk and one comparison; the store's
``generation`` tells when another process has indexed something since.
"""

import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from django.db import DatabaseError, transaction

from coffer import db, paths
from memory.files import lanes
from memory.files.lanes import Listing, Stat
from memory.models import Store
from memory.retrieval import rows
from memory.retrieval.entries import Entry, read_entry

log = logging.getLogger("memory.index")
BATCH = 500
# A file indexed this soon after its last change may have changed again without a new time stamp.
SETTLED_NS = 2_000_000_000
LOCK_PATIENCE = 0.3  # seconds; a reader never waits long for a writer


@dataclass(frozen=True)
class Changes:
    """What a reconcile found; ``behind`` are files whose newest state the index could not take now."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass
class Snapshot:
    """A store's index as this process last saw it; ``racy`` files are hashed again until they have settled."""

    generation: int
    files: dict[str, Stat]
    racy: set[str] = field(default_factory=set)


_snapshots: dict[tuple[str, int, int], Snapshot] = {}
_locks: dict[tuple[str, int, int], threading.RLock] = {}
_waited_in_vain: dict[tuple[str, int, int], float] = {}
_reported: set[tuple[str, str]] = set()
_walked: dict[tuple[str, int, int], Listing] = {}


def diff(listing: Mapping[str, Stat], indexed: Mapping[str, Stat], racy: Collection[str] = ()) -> Changes:
    """Compare two listings by size, mtime, ctime and inode; racy files count as changed. Pure."""
    if listing == indexed and not racy:
        return Changes()
    added = tuple(sorted(listing.keys() - indexed.keys()))
    removed = tuple(sorted(indexed.keys() - listing.keys()))
    changed = sorted(
        path for path, stat in listing.items() if path in indexed and (indexed[path] != stat or path in racy)
    )
    return Changes(added, tuple(changed), removed)


def refresh(store: Store, folder: Path, paths: Sequence[str] | None = None) -> Changes:
    """Index what changed on disk: the whole store, or only ``paths`` (relative) when the caller knows them.

    Never raises for a database that is locked, full or read-only: what could not be written is in ``behind``, and the
    next call tries again. Raises Store.DoesNotExist when the store's row has gone.
    """
    if paths is not None:
        # No lock: the caller has the database's, and a reader that holds ours may be waiting for that one.
        return _refresh_known(store, folder, paths)
    asked = time.monotonic()
    with _lock(store):
        return _refresh_all(store, folder, asked)


def forget(store: Store) -> None:
    """Drop a store's rows, full text included."""
    with _lock(store), transaction.atomic(), db.raw() as con:
        rows.drop_all(con, store)
        rows.advance(con, store, None)
        _snapshots.pop(_key(store), None)


def walked(store: Store) -> Listing | None:
    """What the last walk of a store found; None when this process has made none."""
    return _walked.get(_key(store))


def reset() -> None:
    """Forget every snapshot of this process (the database under them was replaced)."""
    _snapshots.clear()


def _refresh_known(store: Store, folder: Path, paths: Sequence[str]) -> Changes:
    listing = {path: stat for path in paths if (stat := lanes.stat(folder, path)) is not None}
    gone = tuple(path for path in paths if path not in listing)
    generation = _apply(store, list(_entries(folder, listing, {})), gone, expected=None)
    transaction.on_commit(lambda: _keep_step(store, generation, listing, gone))
    return Changes(added=tuple(listing), removed=gone)


def _keep_step(store: Store, generation: int, written: Mapping[str, Stat], removed: Iterable[str]) -> None:
    """Note in this process's snapshot what it has just written, unless others wrote something before it."""
    with _lock(store):
        snapshot = _snapshots.get(_key(store))
        if snapshot is not None and generation == snapshot.generation + 1:
            _patch(snapshot, generation, written, removed)


def _refresh_all(store: Store, folder: Path, asked: float) -> Changes:
    kept = _snapshots.get(_key(store))
    found = lanes.walk(folder, kept.files if kept is not None else None)
    _walked[_key(store)] = found
    _report_skipped(store, found.skipped)
    for _ in range(20):  # another process may index the same files meanwhile: look again, it did our work
        snapshot = _snapshot(store)
        changes = diff(found.files, snapshot.files, snapshot.racy)
        if not changes:
            return changes
        # Of many that came at once only the first waits: what it waited for in vain, the others need not.
        patience = LOCK_PATIENCE if _waited_in_vain.get(_key(store), 0.0) < asked else 0.0
        try:
            if _catch_up(store, folder, found.files, snapshot, changes, patience):
                return changes
        except DatabaseError as error:
            if db.damaged(error):
                raise
            _waited_in_vain[_key(store)] = time.monotonic()
            break
    changed = tuple(path for path in changes.changed if snapshot.files.get(path) != found.files[path])
    behind = changes.added + changed + changes.removed
    log.info("index is behind store=%s files=%d", store.name, len(behind))
    return Changes(changes.added, changes.changed, changes.removed, behind)


def _catch_up(
    store: Store, folder: Path, listing: Mapping[str, Stat], snapshot: Snapshot, changes: Changes, patience: float
) -> bool:
    """Write the changes in batches; False when another process was faster and the diff is stale."""
    with db.raw() as con:
        known = rows.hashes(con, store, changes.changed)
    removed: Sequence[str] = changes.removed
    pending = {path: listing[path] for path in (*changes.changed, *changes.added)}
    entries = _entries(folder, pending, known)
    while True:
        batch = list(islice(entries, BATCH))
        if not batch and not removed:
            return True
        batch = [entry for entry in batch if not _unsettled(entry, snapshot)]
        if not batch and not removed:
            continue
        try:
            with db.patience(patience):
                generation = _apply(store, batch, removed, expected=snapshot.generation)
        except _StaleSnapshot:
            return False
        _patch(snapshot, generation, {entry.path: entry.stat for entry in batch}, removed)
        removed = ()


def _unsettled(entry: Entry, snapshot: Snapshot) -> bool:
    """Whether a file is as indexed but still too young to be trusted: nothing to write, look again next time."""
    young = entry.hashed_ns - entry.stat.mtime_ns < SETTLED_NS
    return entry.unchanged and young and snapshot.files.get(entry.path) == entry.stat


class _StaleSnapshot(Exception):
    """Another process changed the index since the snapshot was read."""


def _apply(store: Store, entries: Sequence[Entry], removed: Sequence[str], *, expected: int | None) -> int:
    """One transaction: rows of changed and removed files out, new ones in. Returns the new generation."""
    with transaction.atomic(savepoint=False), db.raw() as con:
        new = [entry for entry in entries if not entry.unchanged]
        generation = rows.advance(con, store, max((entry.time for entry in new), default=None))
        if expected is not None and generation != expected + 1:
            raise _StaleSnapshot
        claims = rows.drop(con, store, [*(entry.path for entry in new), *removed])
        rows.insert(con, store, new)
        rows.restamp(con, store, [entry for entry in entries if entry.unchanged])
        rows.settle_refs(con, store, claims | {entry.claimed for entry in new})
    return generation


def _entries(folder: Path, listing: Mapping[str, Stat], known: Mapping[str, str]) -> Iterator[Entry]:
    """Read, parse and cut the files, one at a time; a file that vanished meanwhile is left for the next walk."""
    for path, stat in listing.items():
        try:
            entry = read_entry(folder, path, stat, known.get(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            entry = Entry.unreadable(path, stat, os.strerror(error.errno or 0))
        if entry.problem and not entry.unchanged:
            log.warning("file needs a look path=%s problem=%s", path, entry.problem)
        yield entry


def _snapshot(store: Store) -> Snapshot:
    """The kept listing when it is current, else a new one from the index."""
    with db.raw() as con:
        generation = rows.generation(con, store)
        snapshot = _snapshots.get(_key(store))
        if snapshot is None or snapshot.generation != generation:
            snapshot = _snapshots[_key(store)] = Snapshot(generation, {})
            for path, stat, hashed in rows.listing(con, store):
                snapshot.files[path] = stat
                if hashed - stat.mtime_ns < SETTLED_NS:
                    snapshot.racy.add(path)
    return snapshot


def _patch(snapshot: Snapshot, generation: int, written: Mapping[str, Stat], removed: Iterable[str]) -> None:
    now = time.time_ns()
    for path in removed:
        snapshot.files.pop(path, None)
        snapshot.racy.discard(path)
    for path, stat in written.items():
        snapshot.files[path] = stat
        if now - stat.mtime_ns < SETTLED_NS:
            snapshot.racy.add(path)
        else:
            snapshot.racy.discard(path)
    snapshot.generation = generation


def _report_skipped(store: Store, skipped: Iterable[tuple[str, str]]) -> None:
    for path, reason in skipped:
        if (store.name, path) not in _reported:
            _reported.add((store.name, path))
            log.warning("not served store=%s path=%s reason=%s", store.name, path, reason)


def _key(store: Store) -> tuple[str, int, int]:
    """A store of one database file: one that was replaced under a running process has other rows."""
    try:
        inode = paths.database().stat().st_ino
    except OSError:
        inode = -1
    return str(paths.database()), inode, store.pk


def _lock(store: Store) -> threading.RLock:
    return _locks.setdefault(_key(store), threading.RLock())
