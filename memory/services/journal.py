"""The journal of a project: what happened, one file per UTC day; append-only, and recalled entry by entry."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.utils import timezone

from coffer.errors import Invalid, MemoryNotFound, ScopeUnresolved
from memory.files import journal as entries
from memory.files import lanes, markdown
from memory.files.journal import Said
from memory.files.lanes import Kind
from memory.models import Store
from memory.services import pages, writes
from memory.services import stores as store_service
from memory.services.pages import LanePage


@dataclass(frozen=True)
class Entry:
    """One thing that happened; a hand-made one may lack its stamp and its source."""

    stamp: datetime | None
    agent: str
    session: str
    text: str
    period: str


@dataclass(frozen=True)
class Day:
    """One file of the lane, as it is written."""

    period: str
    text: str
    path: Path


def append(
    store: Store, body: str, *, agent: str, session: str = "", at: datetime | None = None, actor: str = "agent"
) -> Entry | None:
    """Write one entry into the file of its UTC day; a blank body is none (FR-040, FR-042).

    Raises ScopeUnresolved for the global store: a journal belongs to a project.
    """
    if store_service.scope_of(store) == "global":
        raise ScopeUnresolved("A journal belongs to a project; there is no global one.")
    text = markdown.clean(body).replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not text.strip():
        return None
    moment = timezone.now() if at is None else at
    if moment.tzinfo is None:
        raise Invalid("The time of a journal entry needs its zone; give one such as Z or +02:00.")
    moment = moment.astimezone(UTC).replace(microsecond=0)
    said, period = Said(moment, agent, session, text), moment.date().isoformat()
    relative = f"{lanes.JOURNAL}/{period}.md"
    store_service.provision(store.name)

    def edit(page: markdown.Page | None) -> str:
        return entries.added(page.body if page else "", period, said)

    pages.change(store, relative, edit, "entry added", begin=True)
    writes.settle(store, [relative], "journal_append", period, actor, char_size=len(text))
    return Entry(moment, agent, session, text, period)


def recent(store: Store, limit: int) -> list[Entry]:
    """The newest entries first, at most ``limit``; 0 gives none (FR-042)."""
    found: list[Entry] = []
    for page in _newest_first(store):
        if len(found) >= limit:
            break
        found += _entries(page)
    return found[: max(limit, 0)]


def days(store: Store) -> list[Day]:
    """Every day with its text, newest first (FR-054)."""
    return [Day(page.stem, page.text, page.path) for page in _newest_first(store)]


def remove(store: Store, period: str, *, actor: str = "user") -> None:
    """Move one day to superseded/; recall forgets it. Raises MemoryNotFound."""
    missing = f"{store.name} holds no journal day {period[:40]!r}."
    page = next((page for page in _newest_first(store) if page.stem == period), None)
    if page is None:
        raise MemoryNotFound(missing, store=store.name)
    pages.remove(store, page, missing)
    writes.settle(store, [page.relative], "journal_deleted", period, actor)


def _newest_first(store: Store) -> Iterator[LanePage]:
    """The days as they are asked for: the caller may stop before all are read."""
    names = [name for name in pages.names(store, lanes.JOURNAL) if lanes.recallable(name) is Kind.JOURNAL]
    return pages.read_all(store, reversed(names))


def _entries(page: LanePage) -> list[Entry]:
    """The entries of a day, newest first; what has no stamp stands last, as it is older or its age is unknown."""
    said = [(one.stamp, number, one) for number, one in enumerate(entries.read(page.page.body))]
    early = datetime.min.replace(tzinfo=UTC)
    said.sort(key=lambda row: (row[0] or early, row[1]), reverse=True)
    return [Entry(one.stamp, one.agent, one.session, one.text, page.stem) for _, _, one in said]
