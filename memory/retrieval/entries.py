"""One file as the index sees it: what it claims to be, when, and its passages."""

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from coffer import fs
from memory.files import journal, lanes, markdown
from memory.files.lanes import Kind, Stat
from memory.retrieval.chunking import Passage, chunk_markdown, context

MAX_BYTES = 4 * 1024 * 1024
MAX_PASSAGES = 2000  # a file of a hundred thousand headings would hold up every recall until it is indexed
_SOUND_ID = re.compile(r"[^/\\\x00-\x20\x7f]{1,200}")


@dataclass(frozen=True)
class Entry:
    """A file read and cut; ``unchanged`` when its bytes are those already indexed (then the rest is empty)."""

    path: str
    stat: Stat
    hashed_ns: int
    sha256: str
    unchanged: bool = False
    kind: Kind = Kind.FACT
    claimed: str = ""
    title: str = ""
    description: str = ""
    extra: str = ""
    actor: str = ""
    session: str = ""
    created_at: datetime | None = None
    time: datetime = datetime.min
    problem: str = ""
    body: str = ""
    passages: Sequence[Passage] = ()

    @classmethod
    def unreadable(cls, path: str, stat: Stat, reason: str, sha256: str = "") -> "Entry":
        """A file that is listed with the reason why it cannot be searched."""
        kind = lanes.recallable(path) or Kind.FACT
        stem = Path(path).stem
        return cls(
            path,
            stat,
            time.time_ns(),
            sha256,
            kind=kind,
            claimed=claimed_id(kind, path, ""),
            title=stem,
            time=_mtime(stat),
            problem=reason,
        )

    def columns(self, position: int) -> tuple[str, str, str]:
        """The words of one passage: title with headings, body, and context (neighbours, further frontmatter)."""
        passage = self.passages[position]
        title = " ".join(part for part in (self.title, self.description, passage.heading) if part)
        near = context(self.passages, position)
        return title, passage.text, f"{near} {self.extra}" if self.extra else near


def read_entry(folder: Path, path: str, stat: Stat, known_sha256: str | None) -> Entry:
    """Read one file below ``folder``; raises OSError (FileNotFoundError when it has gone)."""
    now = time.time_ns()
    if stat.size > MAX_BYTES:
        signature = hashlib.sha256(str(stat).encode()).hexdigest()
        if signature == known_sha256:
            return Entry(path, stat, now, signature, unchanged=True)
        return Entry.unreadable(path, stat, f"larger than {MAX_BYTES // 1024 // 1024} MiB, not searched", signature)
    data = fs.read(folder / path)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 == known_sha256:
        return Entry(path, stat, now, sha256, unchanged=True)
    if b"\0" in data[:8192] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Entry.unreadable(path, stat, "binary data, not searched", sha256)
    return _parsed(path, stat, now, sha256, data)


def claimed_id(kind: Kind, path: str, written: str) -> str:
    """A fact's id is the one written in it, a topic's its slug, a day's ``journal/<date>``; else the file's stem."""
    stem = Path(path).stem
    if kind is Kind.JOURNAL:
        return f"journal/{stem}"
    if kind is Kind.FACT and _SOUND_ID.fullmatch(written):
        return written
    return stem


def _parsed(path: str, stat: Stat, now: int, sha256: str, data: bytes) -> Entry:
    kind = lanes.recallable(path) or Kind.FACT
    page = markdown.parse(data)
    details = page.meta.get("metadata")
    details = details if isinstance(details, dict) else {}
    passages = _passages(kind, page.body)
    cut = [f"only the first {MAX_PASSAGES} of {len(passages)} passages are searched"] * (len(passages) > MAX_PASSAGES)
    return Entry(
        path,
        stat,
        now,
        sha256,
        kind=kind,
        claimed=claimed_id(kind, path, markdown.text_of(page, "id")),
        title=markdown.title_of(page, Path(path).stem),
        description=markdown.text_of(page, "description"),
        extra=_further_words(page),
        actor=_text(details.get("actor"))[:10],
        session=_text(details.get("origin_session_id"))[:255],
        created_at=markdown.timestamp(markdown.text_of(page, "created_at")),
        time=_time(kind, path, page, stat),
        problem="; ".join([*page.problems, *cut]),
        body=page.body,
        passages=passages[:MAX_PASSAGES],
    )


def _passages(kind: Kind, body: str) -> list[Passage]:
    """A journal day is cut at its entries, so that a hit is what one session said."""
    if kind is not Kind.JOURNAL:
        return chunk_markdown(body)
    head, entries = journal.entries(body)
    return [passage for part in (head, *entries) if part.strip() for passage in chunk_markdown(part)]


def _further_words(page: markdown.Page) -> str:
    """Frontmatter that is not ours is still somebody's words: searchable, with little weight."""
    ours = {"id", "title", "description", "metadata", "created_at", "updated_at"}
    return " ".join(_words(value) for key, value in page.meta.items() if key not in ours)


def _words(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(_words(item) for item in value)
    return str(value)


def _time(kind: Kind, path: str, page: markdown.Page, stat: Stat) -> datetime:
    if kind is Kind.JOURNAL:
        return datetime.fromisoformat(Path(path).stem).replace(tzinfo=UTC)
    return markdown.timestamp(markdown.text_of(page, "updated_at")) or _mtime(stat)


def _mtime(stat: Stat) -> datetime:
    return datetime.fromtimestamp(stat.mtime_ns / 1e9, UTC)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
