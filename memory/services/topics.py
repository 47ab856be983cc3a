"""Topics: the few that a note may belong to, their next version, and the catalogue of all of them."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from django.utils import timezone

from coffer import fs, llm
from memory import retrieval
from memory.files import lanes, markdown, sections
from memory.files.lanes import Kind
from memory.models import Store
from memory.services import archive
from memory.services import stores as store_service

CANDIDATES = 3
WHOLE_TOKENS, PART_TOKENS = 3_000, 1_500  # what is sent of one topic
_QUERY_CHARS = 1_000
_MAX_BYTES = 1024 * 1024
_PLAIN = re.compile(r"[a-zA-Z0-9_./-]+")  # a path that needs no quoting
_MARKS = str.maketrans({char: f"\\{char}" for char in "\\[]<>`"})


@dataclass(frozen=True)
class Topic:
    """One topic document as it is on disk."""

    ref: str
    path: str
    data: bytes
    page: markdown.Page

    @property
    def sha256(self) -> str:
        return archive.sha256(self.data)

    @property
    def body(self) -> str:
        return self.page.body

    @property
    def title(self) -> str:
        return markdown.title_of(self.page, Path(self.path).stem)


@dataclass(frozen=True)
class Listed:
    """One topic as the catalogue knows it."""

    ref: str
    path: str
    title: str
    description: str


@dataclass(frozen=True)
class Candidate:
    """A topic as a model is shown it: whole, or of a long one the part that may be rewritten, empty for none."""

    topic: Topic
    part: str | None = None


def candidates(store: Store, words: str, behind: Collection[str] = ()) -> list[Candidate]:
    """The topics that a text fits best, by the search engine alone (FR-028)."""
    late = {store.name: tuple(behind)}
    hits = retrieval.search([store], words[:_QUERY_CHARS], CANDIDATES, late, kind=Kind.TOPIC)
    folder = store_service.folder(store)
    found = [(read(store, hit.path.relative_to(folder).as_posix(), hit.ref), hit.text) for hit in hits]
    return [Candidate(topic, _part(topic.body, passage)) for topic, passage in found if topic is not None]


def read(store: Store, path: str, ref: str = "") -> Topic | None:
    """One topic; None when it has gone, or is nothing that could be written again without a loss."""
    folder = store_service.folder(store)
    if not lanes.is_plain(folder, path) or lanes.stat(folder, path) is None:
        return None
    try:
        if (folder / path).lstat().st_size > _MAX_BYTES:
            return None
        data = fs.read(folder / path)
    except OSError:
        return None
    return Topic(ref or Path(path).stem, path, data, markdown.parse(data)) if markdown.is_text(data) else None


def free_path(store: Store, slug: str) -> str:
    """Where a topic of this name stands or may be made: in the first place that holds none we cannot write."""
    folder = store_service.folder(store)
    names = (f"{lanes.KNOWLEDGE}/{slug}{suffix}.md" for suffix in ("", *(f"-{count}" for count in range(2, 1000))))
    return next(name for name in names if read(store, name) is not None or not os.path.lexists(folder / name))


def created(title: str, description: str, body: str) -> bytes:
    """A new topic's file."""
    title = title or markdown.first_sentence(body)
    meta = {"title": title, "description": description, "updated_at": markdown.stamp(timezone.now())}
    return markdown.dump(meta, body)


def changed(topic: Topic, body: str, title: str = "", description: str = "") -> bytes:
    """The next version of a topic's file; title and description are taken where it has none of its own."""
    meta: Mapping[str, str] = {"title": title, "description": description}
    missing = {key: value for key, value in meta.items() if value and not markdown.text_of(topic.page, key)}
    return markdown.replace(topic.data, {**missing, "updated_at": markdown.stamp(timezone.now())}, body)


def listing(store: Store, behind: Collection[str] = ()) -> list[Listed]:
    """All topics by title; ``behind`` are files that the index could not take."""
    rows = retrieval.titles(store, Kind.TOPIC.value, None) if store.pk is not None else []
    late = [(ref, entry) for ref, entry in retrieval.late(store, tuple(behind)) if entry.kind is Kind.TOPIC]
    known = [Listed(row.id, row.path, row.title, row.description) for row in rows if row.path not in behind]
    known += [Listed(ref, entry.path, entry.title, entry.description) for ref, entry in late]
    return sorted(known, key=lambda one: (one.title.casefold(), one.path))


def write_index(store: Store, behind: Collection[str] = ()) -> None:
    """Make INDEX.md anew: one line per topic, by title (FR-030); ``behind`` are files that the index could not take."""
    lines = [_line(one.title, one.path, one.description) for one in listing(store, behind)]
    with store_service.write_lock(store) as folder:
        fs.write(archive.inside(folder, lanes.INDEX), "".join(f"{line}\n" for line in lines).encode())


def _line(title: str, path: str, description: str) -> str:
    """Words of a model, or of a note: they can neither end the line nor make a link of their own."""
    said = " ".join(title.split()).translate(_MARKS)
    about = " ".join(description.split()).translate(_MARKS)
    link = path.removeprefix(f"{lanes.KNOWLEDGE}/")
    link = link if _PLAIN.fullmatch(link) else quote(link)
    return f"- [{said}]({link}) - {about}" if about else f"- [{said}]({link})"


def _part(body: str, passage: str) -> str | None:
    """None for the whole text; else the section that holds the passage, or nothing when even that is too long."""
    if llm.estimate(body) <= WHOLE_TOKENS:
        return None
    section = sections.holding(body, passage)
    return section if llm.estimate(section) <= PART_TOKENS else ""
