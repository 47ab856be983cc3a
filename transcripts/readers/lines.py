"""JSONL that another program may be writing: records of whole lines, in flat memory, from a place on."""

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from transcripts.readers import values

MAX_LINE = 16 * 2**20
_CHUNK = 2**18
_MARK = 512
_COMPRESSED = ".zst"
_PADDING = b" \t\r\n\0"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Position:
    """How far a file was read: bytes of whole lines, a hash of the last of these, and lines passed over so far."""

    offset: int = 0
    mark: str = ""
    unread: int = 0
    oversized: int = 0


class Lines:
    """The records of a file. Iterate `whole`, then `tail`; `position` is then where a later reading goes on.

    Blank lines, CR, NUL and a byte-order mark are no content. Lines that are no JSON objects (`unread`) and those
    longer than MAX_LINE (`oversized`) are passed over and counted. A position that does not fit the file is not used:
    `fresh` says so. Raises OSError.
    """

    def __init__(self, path: Path, position: Position | None = None) -> None:
        self.path = path
        self.fresh = position is None or not _fits(path, position)
        self.position = Position() if self.fresh or position is None else position
        self._rest = b""

    def whole(self) -> Iterator[dict[str, Any]]:
        """The records of lines that are ended."""
        offset, unread, oversized = self.position.offset, self.position.unread, self.position.oversized
        with _opened(self.path) as file:
            if offset:
                file.seek(offset)
            while data := file.readline(MAX_LINE):
                if data.endswith(b"\n"):
                    offset += len(data)
                    if (record := values.loads(data) or _record(data)) is not None:
                        yield record
                    elif data.strip(_PADDING):
                        unread += 1
                elif len(data) == MAX_LINE and (more := _skip_line(file)):
                    offset += MAX_LINE + more
                    oversized += 1
                else:
                    self._rest = data
                    break
            mark = "" if self.path.suffix == _COMPRESSED else _mark(file, offset)
        if self.path.suffix == _COMPRESSED and not offset and not self._rest:
            raise OSError(0, "no zstd data in it")  # what is cut off early is no error to the library
        self.position = Position(offset, mark, unread, oversized)

    def tail(self) -> Iterator[dict[str, Any]]:
        """The record of a last line that is not ended, when it is whole already. The offset stays before it."""
        data, self._rest = self._rest, b""
        if len(data) == MAX_LINE:
            self.position = replace(self.position, oversized=self.position.oversized + 1)
        elif (record := _record(data)) is not None:
            yield record
        elif data.strip(_PADDING):
            self.position = replace(self.position, unread=self.position.unread + 1)


def records(path: Path) -> Iterator[dict[str, Any]]:
    """All records of a file. Raises OSError."""
    lines = Lines(path)
    yield from lines.whole()
    yield from lines.tail()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb", buffering=_CHUNK) as raw:
        if path.suffix != _COMPRESSED:
            yield raw
            return
        import zstandard  # noqa: PLC0415 - for the few who have such files

        try:
            plain = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            yield io.BufferedReader(plain, _CHUNK)
        except zstandard.ZstdError as error:
            raise OSError(0, f"not valid zstd: {error}") from error


def _skip_line(file: BinaryIO) -> int:
    """Pass over the rest of a line; its length, 0 when it has no end yet."""
    length = 0
    while data := file.readline(_CHUNK):
        length += len(data)
        if data.endswith(b"\n"):
            return length
    return 0


def _record(data: bytes) -> dict[str, Any] | None:
    """The record of a line, whatever stands around or in it that is no content."""
    data = data.strip(_PADDING).removeprefix(_BOM)
    record = values.loads(data)
    return values.loads(data.replace(b"\0", b"")) if record is None and b"\0" in data else record


def _mark(file: BinaryIO, offset: int) -> str:
    """A hash of the bytes before the offset."""
    file.seek(max(0, offset - _MARK))
    return hashlib.blake2b(file.read(min(offset, _MARK)), digest_size=8).hexdigest()


def _fits(path: Path, position: Position) -> bool:
    """Whether the bytes before the offset are still those that were read."""
    if not position.mark:
        return False
    try:
        with path.open("rb") as file:
            return _mark(file, position.offset) == position.mark
    except OSError:
        return False
