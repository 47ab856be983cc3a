"""What a person wants to see of a store that no other service tells: titles, counts, where a document comes from."""

import difflib
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from coffer.errors import CofferError
from coffer.models import AuditEntry
from memory import retrieval
from memory.files import journal, lanes, markdown
from memory.files.journal import Said
from memory.files.lanes import Kind, Listing
from memory.models import Document, Store, Use
from memory.services import archive, changelog, pages, rules, superseded
from memory.services import stores as store_service
from memory.services.archive import Superseded
from memory.services.recall import Hit

SHOWN = 1000
_LOOKED_AT = 2000  # archived files that are read to find one by its id
_DIFF_LINES = 4000
_LANES = (lanes.KNOWLEDGE, lanes.RULES, lanes.JOURNAL, lanes.HANDOFF)


Row = retrieval.Title  # one line of the knowledge list


@dataclass(frozen=True)
class Titles:
    """The newest titles of a store that hold the words asked for, and how many hold them; None without words."""

    topics: list[Row]
    inbox: list[Row]
    matching: int | None

    @property
    def shown(self) -> int:
        return len(self.topics) + len(self.inbox)


@dataclass(frozen=True)
class Counts:
    """How much each lane holds, as the disk says; None for a lane that cannot be read."""

    topics: int
    inbox: int
    rules: int | None
    days: int
    scenes: int | None
    changes: int | None
    skipped: list[tuple[str, str]]

    @property
    def knowledge(self) -> int:
        return self.topics + self.inbox

    @property
    def lanes(self) -> list[tuple[int, str]]:
        """What there is, each with its noun."""
        counted = (
            (self.topics, "topic"),
            (self.inbox, "note in the inbox,notes in the inbox"),
            (self.rules, "rule"),
            (self.days, "journal day"),
            (self.scenes, "handoff"),
        )
        return [(count, noun) for count, noun in counted if count]


@dataclass(frozen=True)
class Look:
    """A store as the index knows it now; ``behind`` names the files it could not take."""

    behind: frozenset[str]
    counts: Counts


@dataclass(frozen=True)
class Measure:
    counts: Counts
    disk_bytes: int
    last_write_at: datetime | None


@dataclass(frozen=True)
class Background:
    """Where a document comes from and what became of it."""

    use: Use
    history: list[AuditEntry]
    versions: list[Superseded]


@dataclass(frozen=True)
class Line:
    """One line of a comparison: ``+`` new, ``-`` gone, a blank for both, ``@`` for a gap."""

    sign: str
    text: str


@dataclass(frozen=True)
class Why:
    """What a person may want to know of a hit: its document, and what spoke for it."""

    hit: Hit
    share: int  # in percent of the best
    store: str
    title: str
    kind: str
    words: list[str] = field(default_factory=list)
    ranked: retrieval.Candidate | None = None  # None of what only the files themselves gave

    @property
    def day(self) -> str:
        return self.hit.id.removeprefix("journal/")


def look(store: Store) -> Look:
    """Bring the index in line with the files, in one walk, and count what each lane holds."""
    behind = frozenset(store_service.refresh(store).behind)
    return Look(behind, _counted(store, retrieval.listing(store)))


def counts(store: Store) -> Counts:
    """What each lane holds now."""
    return look(store).counts


def measure(store: Store) -> Measure:
    """The same from the disk alone, with sizes and the last write; the index is not asked."""
    folder = store_service.folder(store)
    listing = lanes.walk(folder)
    size = sum(stat.size for stat in listing.files.values())
    last = max((stat.mtime_ns for stat in listing.files.values()), default=0)
    for path, folders, names in os.walk(folder):
        if path == str(folder):
            folders[:] = [name for name in folders if name not in (lanes.KNOWLEDGE, lanes.JOURNAL)]
        for name in names:
            with suppress(FileNotFoundError):
                found = os.lstat(os.path.join(path, name))
                size, last = size + found.st_size, max(last, found.st_mtime_ns)
    return Measure(_counted(store, listing), size, datetime.fromtimestamp(last / 1e9, UTC) if last else None)


def titles(store: Store, looked: Look, query: str = "", *, limit: int = SHOWN) -> Titles:
    """Topics, then what waits in the inbox, newest first; all titles are searched, the first ``limit`` given."""
    words = [_folded(word) for word in query.split()]

    def holds(*texts: str) -> bool:
        text = _folded(" ".join(texts))
        return all(word in text for word in words)

    behind = looked.behind
    rows = _indexed(store, looked.counts, None if words or behind else limit, holds if words else None)
    if behind:
        late = [row for row in _late(store, behind) if holds(row.title, row.description, row.path)]
        rows = [*(row for row in rows if row.path not in behind), *late]
        rows.sort(key=lambda row: row.time, reverse=True)
    topics = [row for row in rows if row.kind == Kind.TOPIC][:limit]
    inbox = [row for row in rows if row.kind == Kind.FACT][: limit - len(topics)]
    return Titles(topics, inbox, len(rows) if words else None)


def background(store: Store, identity: str, path: Path) -> Background:
    """Provenance of one document: uses, changes, and the versions before this one."""
    relative = path.relative_to(store_service.folder(store)).as_posix()
    use = Use.objects.filter(store=store.name, ref=identity).first() or Use(store=store.name, ref=identity)
    history = AuditEntry.objects.filter(store=store.name, ref=identity[:200])[:50]
    return Background(use, list(history), versions(store, relative))


def versions(store: Store, relative: str) -> list[Superseded]:
    """The archived versions of one file, newest first."""
    return [line for line in archive_of(store) if line.path == relative]


def archive_of(store: Store) -> list[Superseded]:
    """Every archived version, newest first."""
    return superseded.listing(store)


def archived(store: Store, identity: str) -> list[Superseded]:
    """The archived versions of what once had this id, newest first: to offer when it is no longer there."""
    folder = store_service.folder(store)
    found = []
    for line in archive_of(store)[:_LOOKED_AT]:
        claimed = Path(line.path).stem if line.path else ""
        if identity == claimed or archive.claims(folder / archive.FOLDER / line.file, identity):
            found.append(line)
    return found


def entries(text: str) -> list[Said]:
    """A journal day entry by entry; what stands before the first mark has no time."""
    return journal.read(text)


def text_of(store: Store, relative: str) -> str | None:
    """What a lane's file says now; None when it is not there, or is no file of a lane."""
    if relative.partition("/")[0] not in _LANES:
        return None
    page = pages.read(store_service.folder(store), relative)
    return page.text if page is not None else None


def place_of(store: Store, path: Path) -> tuple[str, str]:
    """The lane of a file, and the id or name that its page has."""
    relative = path.relative_to(store_service.folder(store)).as_posix()
    known = Document.objects.filter(store_id=store.pk or 0, path=relative).exclude(kind=Kind.JOURNAL)
    return relative.partition("/")[0], known.values_list("ref", flat=True).first() or path.stem


def compare(old: str, new: str) -> list[Line] | None:
    """What was added and what went, with three lines around; None when the texts are too long to compare."""
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _DIFF_LINES:
        return None
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [Line("@", "") if line.startswith("@@") else Line(line[0], line[1:]) for line in lines]


def explain(stores: Sequence[Store], query: str, hits: Sequence[Hit], explanation: retrieval.Explanation) -> list[Why]:
    """The hits with their documents, how they stand, and which of the words asked for stand in them."""
    ranked = {(one.store, one.id): one for one in explanation.candidates}
    folders = {store_service.folder(store): store for store in stores}
    asked = list(dict.fromkeys(_folded(word) for word in re.findall(r"\w+", query)))
    found = []
    for hit, share in zip(hits, shares(hits), strict=True):
        path = Path(hit.source.partition(":")[2])
        store = next(store for folder, store in folders.items() if folder in path.parents)
        row = Document.objects.filter(store_id=store.pk or 0, ref=hit.id).values_list("title", "kind").first()
        title, kind = row or (path.stem, "file")
        text = _folded(f"{title} {hit.text}")
        words = [word for word in asked if word in text]
        found.append(Why(hit, share, store.name, title, kind, words, ranked.get((store.name, hit.id))))
    return found


def opening(text: str) -> str:
    """The first sentence, for a list."""
    return markdown.first_sentence(text)


def shares(hits: Sequence[Hit]) -> list[int]:
    """How well each hit answers in percent of the best one; scores compare within one answer only."""
    best = max((hit.score for hit in hits), default=0.0)
    return [round(100 * hit.score / best) if best > 0 else 100 for hit in hits]


def raw(store: Store, relative: str) -> str | None:
    """The whole text of a page of a lane, of the archive or of the log; None when there is no such page."""
    known = relative == lanes.LOG or relative.partition("/")[0] in (*_LANES, archive.FOLDER)
    page = pages.read(store_service.folder(store), relative) if known and relative.endswith(".md") else None
    return page.text if page is not None else None


def changes(log: str) -> list[str]:
    """The entries of a consolidation log, newest first; what somebody wrote above them comes last."""
    return [entry for entry in reversed(re.split(r"(?m)^(?=- )", log)) if entry.strip()]


def _counted(store: Store, listing: Listing) -> Counts:
    return Counts(
        topics=listing.kinds[Kind.TOPIC],
        inbox=listing.kinds[Kind.FACT],
        rules=_count(lambda: len(rules.listing(store))),
        days=listing.kinds[Kind.JOURNAL],
        scenes=_count(lambda: len(lanes.pages(store_service.folder(store), lanes.HANDOFF))),
        changes=_count(lambda: len(re.findall(r"^- ", changelog.read(store).text or "", re.MULTILINE))),
        skipped=listing.skipped,
    )


def _count(count: Callable[[], int]) -> int | None:
    """A lane's count; None when it cannot be read: its own page says why."""
    try:
        return count()
    except (CofferError, OSError):
        return None


def _indexed(store: Store, counts: Counts, limit: int | None, holds: Callable[..., bool] | None) -> list[Row]:
    """The newest of each kind there is: to look for one that is not there means to look at all."""
    kinds = ((Kind.TOPIC, counts.topics), (Kind.FACT, counts.inbox))
    if store.pk is None:
        return []
    return [row for kind, count in kinds if count for row in retrieval.titles(store, kind.value, limit, holds)]


def _late(store: Store, behind: Collection[str]) -> list[Row]:
    """Files that the index is behind with, as they are on disk."""
    wanted = [path for path in behind if lanes.recallable(path) is not Kind.JOURNAL]
    return [retrieval.title_of(ref, entry) for ref, entry in retrieval.late(store, wanted)]


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold()
