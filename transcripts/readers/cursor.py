"""Cursor: not read, and the reason."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from transcripts.readers.base import Reader, Session, Source, State, Turn, Unreadable


class Cursor(Reader):
    """An answer for whoever asks for Cursor's sessions."""

    agent = "cursor"
    unsupported = (
        "Cursor's transcripts record no working directory, no times and no ids, so a session cannot be told to belong "
        "to a project: they are not read."
    )

    def sources(self, home: Path, env: Mapping[str, str]) -> Iterator[Source]:
        yield from ()

    def turns(self, source: Source, session_id: str) -> Iterator[Turn]:
        raise Unreadable(self.unsupported)

    def _resume(self, source: Source, state: State | None) -> tuple[list[Session], State | None]:
        raise Unreadable(self.unsupported)
