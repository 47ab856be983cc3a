"""Readers of agents that keep one session in one JSONL file: what is common to them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from transcripts.readers import values
from transcripts.readers.base import UNREADABLE, Reader, Session, Source, State, Turn, Unreadable
from transcripts.readers.lines import MAX_LINE, Lines, Position, records


@dataclass
class Summary(ABC):
    """What the records of a file have said so far.

    An agent's `feed` is the one place that chooses turns and counts them. It may take turns back: `messages` then falls
    by as many, and they are the last ones of the agent's.
    """

    session_id: str = ""
    cwd: str = ""
    messages: int = 0
    first: datetime | None = None
    last: datetime | None = None
    prompt: str | None = None
    title: str | None = None
    own_title: str | None = None
    parent: str | None = None
    subagent: bool = False

    @classmethod
    def of(cls, path: Path) -> Self:
        """The summary of a file before its first record."""
        return cls()

    @abstractmethod
    def feed(self, record: dict[str, Any]) -> Turn | None:
        """Take the next record in; the turn, or the piece of one, that it is."""

    def stamp(self, value: Any) -> datetime | None:
        """Take a record's time into account, and give it back; what is no time changes nothing."""
        at = values.moment(value)
        if at is not None:
            if self.first is None or at < self.first:
                self.first = at
            if self.last is None or at > self.last:
                self.last = at
        return at

    def place(self, value: Any) -> None:
        """Take a working directory; the first one stays."""
        if not self.cwd:
            self.cwd = values.text(value)

    def count(self, turn: Turn) -> Turn:
        """Count a turn, and keep the first prompt."""
        self.messages += 1
        if self.prompt is None and turn.role == "user" and turn.text != values.IMAGE:
            self.prompt = values.opening(turn.text)
        return turn

    def save(self) -> dict[str, Any]:
        """JSON values that `load` takes back."""
        self._settle()
        times = {name: at and at.isoformat() for name, at in (("first", self.first), ("last", self.last))}
        return {**{item.name: copy(getattr(self, item.name)) for item in fields(self)}, **times}

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Self:
        """The summary that `save` gave. Raises KeyError, ValueError or TypeError for anything else."""
        times = {name: saved[name] and datetime.fromisoformat(saved[name]) for name in ("first", "last")}
        return cls(**{item.name: {**saved, **times}[item.name] for item in fields(cls)})

    def session(self, agent: str, source: Source, unread: int = 0, notes: Iterable[str] = ()) -> Session:
        """The row of a list."""
        self._settle()
        mtime = values.from_nanos(source.mtime_ns)
        return Session(
            agent=agent,
            session_id=self.session_id or source.path.name.partition(".")[0],
            title=self.title or self.prompt,
            own_title=self.own_title,
            first_prompt=self.prompt,
            project_path=self.cwd or None,
            message_count=self.messages,
            started_at=self.first or mtime,
            last_activity_at=self.last or mtime,
            source_path=str(source.path),
            size=source.size,
            mtime_ns=source.mtime_ns,
            parent=self.parent,
            subagent=self.subagent,
            unread=unread,
            notes=tuple(notes),
        )

    def _settle(self) -> None:
        """Make titles of what titles are made of; only now, as many records may each have brought one."""
        self.title, self.own_title, self.prompt = map(values.title, (self.title, self.own_title, self.prompt))


class JsonlReader(Reader):
    """Reads files of records; an agent says where they lie, and has a summary of its own."""

    summary: ClassVar[type[Summary]]

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        summary = self.summary.of(source.path)
        with readable(source):
            for record in records(source.path):
                if turn := summary.feed(record):
                    yield turn

    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]:
        summary, lines = self._start(source, state)
        kept: State | None = None
        notes = []
        try:
            for record in lines.whole():
                summary.feed(record)
            if source.growing:
                kept = {"position": asdict(lines.position), "summary": summary.save()}
            for record in lines.tail():
                summary.feed(record)
        except FileNotFoundError:
            return [], None
        except OSError as error:
            notes.append(f"{UNREADABLE}: {error.strerror}")
        notes += passed_over(lines.position)
        return [summary.session(self.agent, source, lines.position.unread, notes)], kept

    def _start(self, source: Source, state: State | None) -> tuple[Summary, Lines]:
        if state is not None:
            with suppress(KeyError, TypeError, ValueError):  # a state of another make
                lines = Lines(source.path, Position(**state["position"]))
                if not lines.fresh:
                    return self.summary.load(state["summary"]), lines
        return self.summary.of(source.path), Lines(source.path)


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Failures of reading a source's files, as Unreadable."""
    try:
        yield
    except OSError as error:
        raise Unreadable(f"{source.path} cannot be read ({error.strerror}).", path=str(source.path)) from error


def passed_over(position: Position) -> Iterator[str]:
    """Notes on the lines that were not read."""
    for count, what in (
        (position.unread, "no whole JSON object"),
        (position.oversized, f"longer than {MAX_LINE // 2**20} MiB"),
    ):
        if count:
            yield f"{count} {'line is' if count == 1 else 'lines are'} {what}: passed over"
