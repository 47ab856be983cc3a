"""What every reader gives: sources to look at, sessions to list, turns to distil.

A reader is pure: paths and an environment go in, values come out, nothing of the agent's is changed. Who lists calls
`sources` each time (it only stats), keeps what `resume` gave for each source under ``(path, size, mtime_ns)``, and asks
again when the key has changed.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

from coffer.errors import CofferError
from transcripts.readers.values import from_nanos

VERSION = 1
"""Goes up whenever readers make something else of the same bytes: what was kept under another version is worthless."""

UNREADABLE = "the file cannot be read"
"""How the note of a session begins whose file is there and could not be opened."""

Role = Literal["user", "assistant"]
State = Mapping[str, Any]
"""Where a reading stopped, to continue from: JSON values of the reader's own, without any text but titles."""


class Unreadable(CofferError):
    """A source gives no sessions at all; the message says why."""

    code = "TRANSCRIPT_UNREADABLE"
    status = 422


@dataclass(frozen=True, slots=True)
class Source:
    """A file, database or tree of small files that holds sessions, at an absolute place.

    `size` (bytes) and `mtime_ns` change whenever its content may have. `over` names databases whose sessions win over
    those of this source. One with a `problem` is there but cannot be read: `resume` raises it. Of one that is not
    `growing` any more a reader need not say where it stopped.
    """

    place: str  # thousands are made to look at them only, and a Path costs more than the look
    size: int
    mtime_ns: int
    over: tuple[Path, ...] = ()
    problem: str = ""
    growing: bool = True

    @property
    def path(self) -> Path:
        return Path(self.place)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.place.rpartition("/")[2]


class Turn(NamedTuple):
    """What a person typed or what the agent answered, without anything that tools, hooks or the agent put in.

    `at` is None where the agent records no time, `own_id` the agent's own id where copies of the turn keep it.
    """

    role: Role
    text: str
    at: datetime | None
    own_id: str = ""

    @property
    def uid(self) -> str:
        """What finds the same turn again in a fork or a resumed copy; copies with new ids have the digest alone."""
        return self.own_id or self.digest

    @property
    def digest(self) -> str:
        """A hash of role and text, white space folded: copies of a turn have the same."""
        return hashlib.blake2b(f"{self.role}\0{' '.join(self.text.split())}".encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Session:
    """One session as a list shows it.

    `title` is the agent's own, else the first prompt, in one line of at most 80 characters (FR-038); `own_title` the
    one that a person gave, `first_prompt` the prompt in any case. `project_path` is the working directory it began in,
    as recorded, which need not be a path of this machine. Times are the least and greatest that are recorded, the
    file's own where none is. `parent` is the session that this one was forked from or works for; a `subagent` is no
    session of a person's. `unread` counts lines that are no JSON objects; `notes` says what was not read, and why.
    """

    agent: str
    session_id: str
    title: str | None
    own_title: str | None
    first_prompt: str | None
    project_path: str | None
    message_count: int
    started_at: datetime
    last_activity_at: datetime
    source_path: str
    size: int
    mtime_ns: int
    parent: str | None = None
    subagent: bool = False
    unread: int = 0
    notes: tuple[str, ...] = ()

    @property
    def shown_title(self) -> str | None:
        """The title that outranks the others."""
        return self.own_title or self.title or self.first_prompt

    @property
    def active_at(self) -> datetime:
        """The last activity; the file's own time where the recorded one is a day ahead of it: a clock went wrong."""
        written = from_nanos(self.mtime_ns)
        return written if self.last_activity_at > written + timedelta(days=1) else self.last_activity_at

    def as_dict(self) -> dict[str, Any]:
        """JSON values that `from_dict` takes back."""
        times = {"started_at": self.started_at.isoformat(), "last_activity_at": self.last_activity_at.isoformat()}
        return {**asdict(self), **times, "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """A session that `as_dict` gave. Raises KeyError, ValueError or TypeError for anything else."""
        values = {field.name: kept[field.name] for field in fields(cls)}
        for name in ("started_at", "last_activity_at"):
            values[name] = datetime.fromisoformat(values[name])
        return cls(**{**values, "notes": tuple(values["notes"])})


class Reader(ABC):
    """Reads the sessions of one agent (FR-037, FR-038)."""

    agent: ClassVar[str]
    unsupported: ClassVar[str] = ""
    """Why the sessions of this agent are not read; empty when they are."""

    @abstractmethod
    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        """What there is to read below a person's home, by name and stat alone; no file is opened, no link loops."""

    def sessions(self, source: Source) -> list[Session]:
        """The sessions of a source. Raises Unreadable."""
        return self.resume(source)[0]

    def resume(self, source: Source, state: State | None = None) -> tuple[list[Session], State | None]:
        """The sessions of a source, and a state from which a later call reads only what is new.

        A state that does not fit the source any more (cut, replaced) is read past, as None is: from the start. One bad
        line never hides a session: it stands in its notes, as does a file that cannot be read. A file that is gone
        gives no session. Raises Unreadable when nothing of the source is a session that could carry a note.
        """
        if source.problem:
            raise Unreadable(source.problem, path=str(source.path))
        return self._resume(source, state)

    @abstractmethod
    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        """The conversation of one session in order, in flat memory. Raises Unreadable, also in the middle."""

    def names_file(self, home: Path, env: Mapping[str, str]) -> Path | None:
        """The file that `names` reads; None for an agent that keeps no names outside its sessions."""
        return None

    def names(self, home: Path, env: Mapping[str, str]) -> dict[str, str]:
        """Names of sessions, by session id, that the agent keeps outside them; they are own titles, and outrank."""
        return {}

    @abstractmethod
    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]: ...
