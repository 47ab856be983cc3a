"""Facts and topics: remember, find by id, correct, delete.

A fact is one markdown file; once it is on disk the write has succeeded. An index that cannot be written now is caught
up by the next recall.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from django.db import DatabaseError, transaction
from django.utils import timezone

from coffer import audit, db, fs, later, paths
from coffer.errors import Conflict, Invalid, MemoryNotFound, Rejected, StorageFailed, TooLarge
from memory import retrieval
from memory.files import lanes, markdown, ulid
from memory.models import Document, Store, Use
from memory.retrieval import MAX_BYTES
from memory.services import archive
from memory.services import stores as store_service

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

    @property
    def folder_path(self) -> Path:
        return self.path.parent


def remember(
    store: Store, text: str, *, actor: Actor, session: str = "", title: str = "", description: str = ""
) -> Remembered:
    """Write a new fact into the inbox, no model involved (FR-001, FR-003, FR-005, FR-007).

    The text is kept as sent but for surrounding blank lines and trailing space. Raises Rejected when it is empty or
    longer than the store allows, StorageFailed when the disk refuses; then nothing is on disk.
    """
    text = checked_text(store, text)
    identity = ulid.new()
    now = timezone.now()
    title = _one_line(title) or markdown.first_sentence(text)
    meta = {
        "id": identity,
        "title": title,
        "description": _one_line(description),
        "metadata": {"actor": actor, "origin_session_id": markdown.clean(session)},
        "created_at": markdown.stamp(now),
        "updated_at": markdown.stamp(now),
    }
    with store_service.write_lock(store) as folder:
        relative = _write_new(folder, title, identity, markdown.dump(meta, text))
    indexed = _settle(store, [relative], "fact_added", identity, actor, characters=len(text))
    scope = "global" if store.name == "global" else "project"
    return Remembered(identity, folder / relative, scope, indexed)


def newest(stores: Sequence[Store], *, limit: int = 100) -> tuple[list[Summary], int]:
    """The newest facts and topics over some stores, and how many there are in all (FR-006)."""
    for store in stores:
        store_service.refresh(store)
    known = [store.pk for store in stores if store.pk is not None]
    rows = Document.objects.filter(store_id__in=known).exclude(kind="journal").order_by("-time", "-id")
    found = [Summary(*row) for row in rows.values_list("ref", "title", "kind", "time")[:limit]]
    return found, rows.count()


def page(store: Store, *, limit: int = 50, offset: int = 0) -> tuple[list[Fact], int]:
    """Facts and topics of one store with their texts, newest first, and the total."""
    store_service.refresh(store)
    if store.pk is None:
        return [], 0
    rows = store.documents.exclude(kind="journal").order_by("-time", "-id")
    facts = []
    for document in rows[offset : offset + limit]:
        try:
            facts.append(_load(store, document))
        except FileNotFoundError:
            continue  # deleted since the refresh a moment ago
    return facts, rows.count()


def get(store: Store, identity: str) -> Fact:
    """One fact or topic by its id. Raises MemoryNotFound, TooLarge."""
    document = _find(store, identity)
    if document.size > MAX_BYTES:
        raise TooLarge(f"{document.path} is larger than {MAX_BYTES} bytes; open the file itself.", path=document.path)
    try:
        return _load(store, document)
    except FileNotFoundError:
        raise _missing(store, identity) from None


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
    change is made to whatever is there, again if it changes meanwhile.
    """
    for attempt in range(RETRIES):
        try:
            relative = _edit_once(store, identity, text, title, description, if_sha256)
            break
        except Conflict:
            if if_sha256 is not None or attempt == RETRIES - 1:
                raise
    _settle(store, [relative], "fact_edited", identity, actor, characters=len(text or ""))
    return get(store, identity)


def delete(store: Store, identity: str, *, forever: bool = False, actor: Actor = "user") -> None:
    """Remove a fact or topic: into superseded/, or with ``forever`` so that no byte of it stays anywhere."""
    document = _find(store, identity)
    with store_service.write_lock(store) as folder:
        if not archive.inside(folder, document.path).exists():
            raise _missing(store, identity)
        if forever:
            archive.erase(folder, document.path, document.claimed)
        else:
            archive.remove(folder, document.path, "deleted")
    event = "fact_erased" if forever else "fact_deleted"
    _settle(store, [document.path], event, identity, actor)
    if forever:
        Use.objects.filter(store=store.name, ref=identity).delete()
        _leave_no_byte()


def clear(store: Store, *, actor: Actor = "user") -> int:
    """Archive every fact and topic of a store; the store stays. Returns how many went."""
    if not paths.store(store.name).is_dir():
        return 0
    store_service.refresh(store)
    files = list(store.documents.exclude(kind="journal").values_list("path", flat=True))
    gone = []
    with store_service.write_lock(store) as folder:
        for relative in files:
            try:
                archive.remove(folder, relative, "cleared")
            except FileNotFoundError:
                continue  # deleted by hand meanwhile: it is gone all the same
            gone.append(relative)
    _settle(store, gone, "store_cleared", "", actor, facts=len(gone))
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


def _without_leading_blanks(lines: list[str]) -> list[str]:
    while lines and not lines[0].strip():
        lines = lines[1:]
    return lines


def _one_line(text: str) -> str:
    return " ".join(markdown.clean(text).split())[:MAX_TITLE]


def _write_new(folder: Path, title: str, identity: str, data: bytes) -> str:
    """Create the file under a name that is free, longer tails on collision."""
    fs.ensure_dir(archive.inside(folder, "knowledge/inbox"))
    for name in lanes.fact_names(title, identity):
        relative = f"knowledge/inbox/{name}"
        try:
            fs.create(folder / relative, data)
            return relative
        except FileExistsError:
            continue
    raise StorageFailed(f"No free file name for {identity} in {folder}; move old files away.")


def _edit_once(
    store: Store, identity: str, text: str | None, title: str | None, description: str | None, if_sha256: str | None
) -> str:
    document = _find(store, identity)
    with store_service.write_lock(store) as folder:
        try:
            data = fs.read(archive.inside(folder, document.path))
        except FileNotFoundError:
            raise _missing(store, identity) from None
        current = archive.sha256(data)
        if if_sha256 is not None and if_sha256 != current:
            raise Conflict(
                f"{document.path} changed since it was read; read it again and repeat the change.", sha256=current
            )
        if (title is not None or description is not None) and markdown.parse(data).raw_block is not None:
            raise Invalid(f"The frontmatter of {document.path} is not valid YAML; correct the file by hand first.")
        updates: dict[str, Any] = {"updated_at": markdown.stamp(timezone.now())}
        if title is not None:
            updates["title"] = _one_line(title)
        if description is not None:
            updates["description"] = _one_line(description)
        body = checked_text(store, text) if text is not None else None
        changed = markdown.replace(data, updates, body)
        archive.replace(folder, document.path, expected_sha256=current, data=changed, why="edited")
    return document.path


def _find(store: Store, identity: str) -> Document:
    store_service.refresh(store)
    document = store.documents.exclude(kind="journal").filter(ref=identity).first() if store.pk else None
    if document is None:
        raise _missing(store, identity)
    return document


def _missing(store: Store, identity: str) -> MemoryNotFound:
    return MemoryNotFound(f"{store.name} holds no fact or topic {identity[:80]!r}.", store=store.name)


def _load(store: Store, document: Document) -> Fact:
    path = paths.store(store.name) / document.path
    if document.size > MAX_BYTES:
        data, text = b"", ""
    else:
        data = fs.read(path)
        text = markdown.parse(data).body
    return Fact(
        id=document.ref,
        kind=document.kind,
        title=document.title,
        description=document.description,
        text=text,
        metadata={"actor": document.actor or "user", "origin_session_id": document.session},
        created_at=document.created_at,
        updated_at=document.time,
        sha256=archive.sha256(data) if data else document.sha256,
        path=path,
        problem=document.problem,
    )


def _settle(store: Store, files: Sequence[str], event: str, ref: str, actor: Actor, **counts: int) -> bool:
    """Index and audit in one transaction; False when the database cannot be written now (the files are what counts)."""

    def write_audit() -> None:
        audit.record(event, store=store.name, ref=ref, actor=actor, **counts)

    try:
        with db.patience(1.0), transaction.atomic():
            changes = store_service.refresh(store, files)
            write_audit()
        return not changes.behind
    except DatabaseError as error:
        log.warning("not indexed yet store=%s files=%d error=%s", store.name, len(files), type(error).__name__)
        later.write(write_audit)
        return False


def _leave_no_byte() -> None:
    """Rewrite index and database file, so that no free page keeps a word."""
    retrieval.optimize()
    db.compact()
