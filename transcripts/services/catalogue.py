"""What is known of an agent's sessions, kept on disk and brought in line with its files (FR-039).

Looking costs a stat of each file; only those that changed are opened, and growing ones are read on from where they
were. Everything here may be deleted: it is read again.
"""

import json
import logging
import os
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from django.db import transaction

from coffer import db, fs
from coffer.errors import where
from transcripts.models import KnownSession, KnownSource
from transcripts.readers import UNREADABLE, VERSION, Session, Source, State, Unreadable
from transcripts.services.homes import Home

log = logging.getLogger("transcripts.catalogue")
GROWING = 3 * 86_400 * 10**9  # nanoseconds after its last change for which a file is read on and not anew
_BATCH_SOURCES, _BATCH_SECONDS = 200, 1.0  # what is written together: the database's lock is never held while reading
_AGAIN = -1  # a size no file has: what cannot be read now may be readable next time without having changed
_KNOWN = "SELECT place, id, size, mtime_ns, version FROM transcripts_knownsource WHERE agent = ?"


def refresh(home: Home, *, room: int | None = None, patience: float = 600.0) -> bool:
    """Bring what is known of an agent in line with its files, the newest first; False when not all could be read.

    With ``room`` only about so many bytes are read. Raises Busy when another process has been reading for ``patience``
    seconds.
    """
    found, named_by = list(home.sources()), _names_source(home)
    if not _behind(home, found, named_by):
        return True
    with fs.locked(f"sessions-{home.agent}.lock", seconds=patience):
        behind = _behind(home, found, named_by)  # the process before may have read it all
        names = home.names()
        _forget(behind.gone)
        changed = sorted(behind.changed, key=lambda pair: -pair[0].mtime_ns)
        taken = changed if room is None else list(_within(changed, room))
        for batch in _batches(_read(home, source, known) for source, known in taken):
            _write(home, batch, names)
        if behind.renamed:
            _rename(home, names, named_by)
        return len(taken) == len(changed)


def sources(home: Home) -> dict[str, Source]:
    """What there is to read now, by place as it is known."""
    return {spelled(source.place): source for source in home.sources()}


def spelled(path: str) -> str:
    """A path as text that can be written; bytes in it that are no UTF-8 are spelled out."""
    return path if path.isascii() else path.encode("utf-8", "backslashreplace").decode()


def folded(text: str) -> str:
    """How titles and paths are compared with what is searched for."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


@dataclass(frozen=True)
class _Behind:
    """What differs from what is known: sources with the id of their row, rows of sources that are gone, names."""

    changed: Sequence[tuple[Source, int | None]]
    gone: Sequence[int]
    renamed: bool

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.renamed)


@dataclass(frozen=True)
class _Reading:
    source: Source
    sessions: Sequence[Session]
    state: State | None
    problem: str


def _behind(home: Home, found: Iterable[Source], named_by: Source | None) -> _Behind:
    with db.raw() as con:
        known = {place: row for place, *row in con.execute(_KNOWN, (home.agent,))}
    changed: list[tuple[Source, int | None]] = []
    for source in found:
        row = known.pop(spelled(source.place), None)
        if row is None or row[1] != source.size or row[2] != source.mtime_ns or row[3] != VERSION:
            changed.append((source, row and row[0]))
    file = home.names_file()
    names = known.pop(spelled(str(file)), None) if file is not None else None
    key = [named_by.size, named_by.mtime_ns, VERSION] if named_by is not None else None
    renamed = (names and names[1:]) != key
    return _Behind(changed, [row[0] for row in known.values()], renamed)


def _names_source(home: Home) -> Source | None:
    path = home.names_file()
    if path is None:
        return None
    with suppress(OSError):
        found = path.stat()
        return Source(os.fspath(path), found.st_size, found.st_mtime_ns)
    return None


def _within(changed: Iterable[tuple[Source, int | None]], room: int) -> Iterator[tuple[Source, int | None]]:
    for source, known in changed:
        room -= source.size
        if room < 0:
            return
        yield source, known


def _read(home: Home, source: Source, known: int | None) -> _Reading:
    state = None
    if known is not None:
        row = KnownSource.objects.filter(pk=known, version=VERSION).values_list("state", "size").first()
        # A file of lines that has changed and is no longer than before was not added to: it was written anew.
        state = json.loads(row[0]) if row and row[0] and row[1] != source.size else None
    try:
        growing = time.time_ns() - source.mtime_ns < GROWING
        sessions, state = home.reader.resume(replace(source, growing=growing), state)
    except Unreadable as error:
        return _Reading(source, (), None, error.message)
    except Exception as error:  # one file of another program must not hide the others
        log.error("source failed agent=%s error=%s", home.agent, where(error))
        return _Reading(source, (), None, f"{source.place} cannot be read: something went wrong ({where(error)}).")
    return _Reading(source, sessions, state if growing else None, "")


def _batches(readings: Iterable[_Reading]) -> Iterator[list[_Reading]]:
    batch: list[_Reading] = []
    began = time.monotonic()
    for reading in readings:
        batch.append(reading)
        if len(batch) == _BATCH_SOURCES or time.monotonic() - began > _BATCH_SECONDS:
            yield batch
            batch, began = [], time.monotonic()
    if batch:
        yield batch


def _write(home: Home, batch: Sequence[_Reading], names: Mapping[str, str]) -> None:
    rows = [_source_row(home, reading) for reading in batch]
    with transaction.atomic():
        made = KnownSource.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["agent", "place"],
            update_fields=["size", "mtime_ns", "version", "problem", "state"],
        )
        KnownSession.objects.filter(source__in=[row.pk for row in made]).delete()
        KnownSession.objects.bulk_create(
            _session_row(row, session, names.get(session.session_id, ""))
            for row, reading in zip(made, batch, strict=True)
            for session in reading.sessions
            if not session.subagent
        )


def _source_row(home: Home, reading: _Reading) -> KnownSource:
    notes = (note for session in reading.sessions for note in session.notes)
    again = reading.problem or any(note.startswith(UNREADABLE) for note in notes)
    return KnownSource(
        agent=home.agent,
        place=spelled(reading.source.place),
        size=_AGAIN if again else reading.source.size,
        mtime_ns=reading.source.mtime_ns,
        version=VERSION,
        problem=spelled(reading.problem),
        state="" if reading.state is None else json.dumps(reading.state, separators=(",", ":")),
    )


def _session_row(source: KnownSource, session: Session, name: str) -> KnownSession:
    return KnownSession(
        source=source,
        agent=source.agent,
        session_id=session.session_id,
        title=session.shown_title,
        name=name,
        searched=_searched(name or session.shown_title, session.project_path),
        project_path=session.project_path,
        message_count=session.message_count,
        started_at=session.started_at,
        last_activity_at=session.last_activity_at,
        active_at=session.active_at,
        notes=list(session.notes),
    )


def _searched(title: str | None, project: str | None) -> str:
    return folded(f"{title or ''}\n{project or ''}")


def _forget(gone: Sequence[int]) -> None:
    for at in range(0, len(gone), _BATCH_SOURCES):
        some = gone[at : at + _BATCH_SOURCES]
        with transaction.atomic():
            KnownSession.objects.filter(source__in=some).delete()
            KnownSource.objects.filter(pk__in=some).delete()


def _rename(home: Home, names: Mapping[str, str], named_by: Source | None) -> None:
    """Lay the names that the agent keeps elsewhere over all its sessions."""
    changed = []
    for row in KnownSession.objects.filter(agent=home.agent).only("session_id", "title", "name", "project_path"):
        name = names.get(row.session_id, "")
        if name != row.name:
            row.name = name
            row.searched = _searched(row.shown_title, row.project_path)
            changed.append(row)
    with transaction.atomic():
        KnownSession.objects.bulk_update(changed, ["name", "searched"], batch_size=_BATCH_SOURCES)
        place = spelled(str(home.names_file()))
        if named_by is None:
            KnownSource.objects.filter(agent=home.agent, place=place).delete()
        else:
            key = {"size": named_by.size, "mtime_ns": named_by.mtime_ns, "version": VERSION}
            KnownSource.objects.update_or_create(agent=home.agent, place=place, defaults=key)
