"""Facts and topics: remember, find by id, correct, delete.

A fact is one markdown file; once it is on disk the write has succeeded. An index that cannot be written now is caught
up by the next recall.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from django.db import DatabaseError, OperationalError
from django.utils import timezone

from coffer import db, fs, later, paths, scrub
from coffer.errors import Busy, Conflict, Invalid, MemoryNotFound, NotFound, Rejected, StorageFailed, TooLarge
from coffer.scrub import Redacted
from memory import retrieval
from memory.files import lanes, markdown, ulid
from memory.files.lanes import Kind
from memory.models import Document, Failure, Store, Use, Verdict
from memory.retrieval import MAX_BYTES, Entry
from memory.services import archive, counts, merge_record, uses, writes
from memory.services import stores as store_service
from memory.services.stores import Place

log = logging.getLogger("memory.facts")
Actor = Literal["agent", "user"]
RETRIES = 3
MAX_TITLE = 300


@dataclass(frozen=True)
class Remembered:
    """What a writer learns: where the fact lies, and whether recall's index has it already."""

    id: str
    path: Path
    scope: str
    indexed: bool
    masked: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """One line of a listing, from the index alone."""

    id: str
    title: str
    kind: str
    time: datetime

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, "title": self.title, "kind": self.kind, "time": markdown.stamp(self.time)}


@dataclass(frozen=True)
class Fact:
    """One file of the knowledge lane, as it stands on disk."""

    id: str
    kind: str
    title: str
    description: str
    text: str
    metadata: dict[str, str]
    created_at: datetime | None
    updated_at: datetime
    sha256: str
    path: Path
    problem: str
    size: int

    @property
    def folder_path(self) -> Path:
        return self.path.parent


def remember(
    store: Store, text: str, *, actor: Actor, session: str = "", title: str = "", description: str = ""
) -> Remembered:
    """Write a new fact into the inbox, no model involved (FR-001, FR-003, FR-005, FR-007).

    The text is kept as sent but for surrounding blank lines and trailing space, and for the secrets in what an agent
    says: ``masked`` tells which were taken out, each with its line. A person's own words stay. Raises Rejected when it
    is empty or longer than the store allows, StorageFailed when the disk refuses; then nothing is on disk.
    """
    said = _stored(checked_text(store, text), actor)
    text, masked = said.text, [vars(one) for one in said.found]
    identity = ulid.new()
    now = timezone.now()
    given = _one_line(_stored(title, actor).text)
    title = given or markdown.first_sentence(text)
    # A person's words stay, but names of files are shown where nobody asked for words.
    person = actor == "user"
    name = (scrub.redact(given).text or markdown.first_sentence(scrub.redact(text).text)) if person else title
    meta = {
        "id": identity,
        "title": title,
        "description": _one_line(_stored(description, actor).text),
        "metadata": {"actor": actor, "origin_session_id": markdown.clean(session)},
        "created_at": markdown.stamp(now),
        "updated_at": markdown.stamp(now),
    }
    relative = _write_new(store, name, identity, markdown.dump(meta, text))
    indexed = writes.settle(store, [relative], "fact_added", identity, actor, characters=len(text))
    path = store_service.folder(store) / relative
    return Remembered(identity, path, store_service.scope_of(store), indexed, masked)


def add(store: Store, text: str, *, actor: Actor = "user", title: str = "", description: str = "") -> Fact:
    """Remember a fact and give it back as it stands on disk."""
    saved = remember(store, text, actor=actor, title=title, description=description)
    return _loaded(store, saved.id, saved.path.relative_to(store_service.folder(store)).as_posix())


def remember_at(place: Place, scope: str, text: str, *, actor: Actor, session: str = "") -> Remembered:
    """Remember where a caller stands; the store is made by its first fact, and not by a text that is refused.

    Raises what ``remember`` raises, Invalid, ScopeUnresolved.
    """
    there = store_service.for_reading(place, scope)
    checked_text(there[0] if there else Store(), text)
    return remember(store_service.for_writing(place, scope), text, actor=actor, session=session)


def add_to(name: str, text: str, *, actor: Actor = "user", title: str = "", description: str = "") -> Fact:
    """The same in the store of a name, for the fact as it stands on disk. Raises StoreNotFound for what is no name."""
    checked_text(store_service.found(name) or Store(), text)
    return add(store_service.provision(name), text, actor=actor, title=title, description=description)


def newest(stores: Sequence[Store], *, limit: int = 100) -> tuple[list[Summary], int]:
    """The newest facts and topics over some stores, and how many there are in all (FR-006)."""
    rows, total = _newest(stores, limit)
    return [row.summary for row in rows], total


def most_used(store: Store, *, limit: int) -> list[Summary]:
    """What was recalled or opened most often, the most used first; as far as the index knows it now."""
    order = uses.most_used(store, limit)
    found = Document.objects.filter(store_id=store.pk or 0, ref__in=order).exclude(kind=Kind.JOURNAL)
    rows = {row[0]: Summary(*row) for row in found.values_list("ref", "title", "kind", "time")}
    return [rows[ref] for ref in order if ref in rows]


def page(store: Store, *, limit: int = 50, offset: int = 0) -> tuple[list[Fact], int]:
    """Facts and topics of one store with their texts, newest first, and the total."""
    rows, total = _newest([store], offset + limit)
    facts = []
    for row in rows[offset:]:
        with suppress(NotFound, Busy):  # deleted since the look a moment ago
            facts.append(_loaded(store, row.summary.id, row.path))
    return facts, total


def get(store: Store, identity: str) -> Fact:
    """One fact or topic by its id. Raises MemoryNotFound, TooLarge."""
    path, _ = _find(store, identity)
    fact = _loaded(store, identity, path)
    if fact.size > MAX_BYTES:
        raise TooLarge(f"{path} is larger than {MAX_BYTES} bytes; open the file itself.", path=path)
    return fact


def edit(
    store: Store,
    identity: str,
    *,
    text: str | None = None,
    title: str | None = None,
    description: str | None = None,
    if_sha256: str | None = None,
    actor: Actor = "user",
) -> Fact:
    """Correct a fact or topic; the version before goes to superseded/ (FR-006).

    ``if_sha256`` is the hash of the file that the caller read: Conflict when it is another one now. Without it the
    change is made to whatever is there, again if it changes meanwhile. A title that was the first sentence of the old
    text follows the new one. Secrets that an agent adds are taken out, as ``remember`` does.
    """
    change = _Change(text, title, description, if_sha256, actor)
    for attempt in range(RETRIES):
        path, _ = _find(store, identity)
        try:
            with store_service.write_lock(store) as folder:
                _edit_once(store, folder, path, change)
                fact = _fact(store, identity, path)
            break
        except FileNotFoundError:
            raise _missing(store, identity) from None
        except Conflict:
            if if_sha256 is not None or attempt == RETRIES - 1:
                raise
    writes.settle(store, [path], "fact_edited", identity, actor, characters=len(text or ""))
    return fact


def delete(store: Store, identity: str, *, forever: bool = False, actor: Actor = "user") -> Path | None:
    """Remove a fact or topic: into superseded/, or with ``forever`` so that no byte of it stays anywhere.

    Returns the archived file, if any.
    """
    archived = None
    path, claimed = _find(store, identity)
    with store_service.write_lock(store) as folder:
        if not archive.inside(folder, path).exists():
            raise _missing(store, identity)
        if forever:
            archive.erase(folder, path, claimed)
        else:
            archived = archive.remove(folder, path, "deleted")
    writes.settle(store, [path], "fact_erased" if forever else "fact_deleted", identity, actor)
    if forever:
        for other in store_service.names_on_disk():
            with fs.locked(f"{other}.write.lock"):
                archive.erase_moved(paths.store(other), claimed)
        merge_record.erase(store.name, path, claimed)
        _leave_no_byte(store, identity)
    return archived


def clear(store: Store, *, actor: Actor = "user") -> int:
    """Archive every fact and topic of a store; the store stays. Returns how many went."""
    if not store_service.folder(store).is_dir():
        return 0
    gone = []
    with store_service.write_lock(store) as folder:
        for relative in sorted(lanes.walk(folder).files):
            if lanes.recallable(relative) is not Kind.JOURNAL:
                with suppress(FileNotFoundError):  # deleted by hand meanwhile: it is gone all the same
                    archive.remove(folder, relative, "cleared")
                    gone.append(relative)
    writes.settle(store, gone, "store_cleared", "", actor, facts=len(gone))
    return len(gone)


def checked_text(store: Store, text: str) -> str:
    """The text as it will be stored. Raises Rejected with the reason and the number of characters (FR-005)."""
    text = markdown.clean(text).rstrip()
    text = "\n".join(_without_leading_blanks(text.split("\n")))
    most = store_service.max_fact_chars(store)
    if not text:
        raise Rejected("The text is empty; nothing was remembered.", reason="empty", characters=0)
    if len(text) > most:
        message = f"The text has {len(text)} characters, {most} are allowed; keep one conclusion per fact and split it."
        raise Rejected(message, reason="too_long", characters=len(text))
    return text


def _stored(text: str, actor: Actor, before: str = "") -> Redacted:
    """What is stored of a text: an agent's without secrets, but for those that stood there before."""
    return scrub.redact(text, keep=[before]) if actor == "agent" and text else Redacted(text, [])


def _without_leading_blanks(lines: list[str]) -> list[str]:
    while lines and not lines[0].strip():
        lines = lines[1:]
    return lines


def _one_line(text: str) -> str:
    return markdown.one_line(text)[:MAX_TITLE]


def _write_new(store: Store, name: str, identity: str, data: bytes) -> str:
    """Create the file under a name that is free, longer tails on collision."""
    with store_service.write_lock(store, begin=True) as folder:
        fs.ensure_dir(archive.inside(folder, lanes.INBOX))
        for file in lanes.fact_names(name, identity):
            with suppress(FileExistsError):
                fs.create(folder / lanes.INBOX / file, data)
                return f"{lanes.INBOX}/{file}"
    raise StorageFailed(f"No free file name for {identity} in {folder}; move old files away.")


@dataclass(frozen=True)
class _Change:
    text: str | None
    title: str | None
    description: str | None
    if_sha256: str | None
    actor: Actor


def _edit_once(store: Store, folder: Path, path: str, change: _Change) -> None:
    data = fs.read(archive.inside(folder, path))
    current = archive.sha256(data)
    if change.if_sha256 is not None and change.if_sha256 != current:
        raise Conflict(f"{path} changed since it was read; read it again and repeat the change.", sha256=current)
    page = markdown.parse(data)
    if page.raw_block is not None and (change.title, change.description) != (None, None):
        raise Invalid(f"The frontmatter of {path} is not valid YAML; correct the file by hand first.")
    body = None
    if change.text is not None:
        body = _stored(checked_text(store, change.text), change.actor, page.body).text
    updates = {"updated_at": markdown.stamp(timezone.now()), **_new_titles(page, change, body)}
    changed = markdown.replace(data, updates, body)
    archive.replace(folder, path, expected_sha256=current, data=changed, why="edited")


def _new_titles(page: markdown.Page, change: _Change, body: str | None) -> dict[str, str]:
    titles = {}
    if change.title is not None:
        given = _one_line(_stored(change.title, change.actor).text)
        titles["title"] = given or markdown.first_sentence(page.body if body is None else body)
    elif body is not None and page.meta.get("title") == markdown.first_sentence(page.body):
        titles["title"] = markdown.first_sentence(body)
    if change.description is not None:
        titles["description"] = _one_line(_stored(change.description, change.actor).text)
    return titles


@dataclass(frozen=True)
class _Row:
    summary: Summary
    path: str


def _newest(stores: Sequence[Store], limit: int) -> tuple[list[_Row], int]:
    """Rows of the index, and in their place what is on disk of files that the index is behind with."""
    behind = {store.name: store_service.refresh(store).behind for store in stores}
    late = {(store.pk, path) for store in stores for path in behind[store.name]}
    known = [store.pk for store in stores if store.pk is not None]
    found = Document.objects.filter(store_id__in=known).exclude(kind=Kind.JOURNAL).order_by("-time", "-id")
    columns = ("store_id", "path", "ref", "title", "kind", "time")
    indexed = [row for row in found.values_list(*columns)[: limit + len(late)] if row[:2] not in late]
    rows = [_Row(Summary(*row[2:]), row[1]) for row in indexed]
    if not late:
        return rows, found.count()
    # Times have whole seconds: of two in the same one, the file that is not indexed yet is the newer.
    rows = [_row(ref, entry) for store in stores for ref, entry in _late(store, behind[store.name], limit)] + rows
    rows.sort(key=lambda row: row.summary.time, reverse=True)
    return rows[:limit], sum(map(counts.fact_count, stores))


def _late(store: Store, behind: Sequence[str], limit: int | None = None) -> list[tuple[str, Entry]]:
    facts = [path for path in behind if lanes.recallable(path) is not Kind.JOURNAL]
    return retrieval.late(store, facts, limit)


def _row(ref: str, entry: Entry) -> _Row:
    return _Row(Summary(ref, entry.title, entry.kind.value, entry.time), entry.path)


def _find(store: Store, identity: str) -> tuple[str, str]:
    """The path of a fact or topic, and the id that its file claims when no other file does; a file that is being
    replaced at this moment is waited for. Raises MemoryNotFound, Busy."""
    for look in (store_service.refresh, store_service.refresh_undisturbed):
        found = _known(store, identity, look(store).behind)
        if found is not None:
            return found
    raise _missing(store, identity)


def _known(store: Store, identity: str, behind: Sequence[str]) -> tuple[str, str] | None:
    found = store.documents.exclude(kind=Kind.JOURNAL) if store.pk is not None else Document.objects.none()
    known = found.filter(ref=identity).values_list("path", "claimed").first()
    if known is not None and known[0] not in behind:
        path, claimed = known
        return path, claimed if found.filter(claimed=claimed).count() == 1 else ""
    for ref, entry in _late(store, behind):
        if ref == identity:
            return entry.path, ""
    return None


def _missing(store: Store, identity: str) -> MemoryNotFound:
    return MemoryNotFound(f"{store.name} holds no fact or topic {identity[:80]!r}.", store=store.name)


def _loaded(store: Store, identity: str, path: str) -> Fact:
    """A fact as its file says; one that is being replaced at this moment is waited for. Raises MemoryNotFound."""
    with suppress(MemoryNotFound):
        return _fact(store, identity, path)
    with store_service.write_lock(store, seconds=1.0):
        return _fact(store, identity, path)


def _fact(store: Store, identity: str, path: str) -> Fact:
    """The file alone, without a look at the index. Raises MemoryNotFound."""
    entry = retrieval.peek(store, path)
    if entry is None:
        raise _missing(store, identity)
    file = store_service.folder(store) / path
    return Fact(
        id=identity,
        kind=entry.kind.value,
        title=entry.title,
        description=entry.description,
        text=entry.body,
        metadata={"actor": entry.actor or "user", "origin_session_id": entry.session},
        created_at=entry.created_at,
        updated_at=entry.time,
        sha256=entry.sha256 if entry.stat.size <= MAX_BYTES else _digest(file),
        path=file,
        problem=entry.problem,
        size=entry.stat.size,
    )


def _digest(file: Path) -> str:
    with suppress(OSError), file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
    return ""


def _leave_no_byte(store: Store, identity: str) -> None:
    """Take a fact out of the index and rewrite the database file, so that no free page keeps a word of it."""
    for damaged in paths.backups().glob("damaged-*"):
        damaged.unlink(missing_ok=True)

    def write() -> None:
        if store_service.refresh(store).behind:
            raise OperationalError("database is locked")  # `later` waits as for any other lock
        with db.patience(1.0):
            Use.objects.filter(store=store.name, ref=identity).delete()
            Failure.objects.filter(store=store.name, ref=identity).delete()
            Verdict.objects.all().delete()  # what the engine said of stores may quote a title
            retrieval.optimize()
            db.compact()
        try:
            retrieval.erase_vectors(store)
        except Busy as error:
            raise OperationalError("database is locked") from error

    try:
        write()
    except DatabaseError:
        log.warning("the database is busy; an erased fact leaves its pages later")
        later.write(write)
