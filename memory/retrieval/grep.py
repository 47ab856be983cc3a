"""Literal search of files for what words cannot find: signs, parts of words, files not indexed yet (FR-008, FR-032).

ripgrep, where it is installed, only narrows the files down; what matches is decided here, so that its absence changes
nothing but the time. A query is an argument among others to another program, hence the care: it is never a pattern,
a flag or a path.
"""

import codecs
import os
import re
import shutil
import stat
import subprocess
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.files.words import ENGLISH_STOP_WORDS

MAX_PIECES = 32
MAX_PIECE_CHARS = 1_000
MAX_LINE_CHARS = 300
# ripgrep gets this much of a piece: enough to narrow down, and far from the limit of a command line.
MAX_ARGUMENT_CHARS = 200
MAX_FOLDERS = 200
MAX_FILE_BYTES = 16 * 1024 * 1024
TIME_LIMIT_SECONDS = 2.0
# Below this many files, starting a program takes longer than reading them.
MIN_FILES_FOR_RIPGREP = 50

_RIPGREP_FLAGS = (
    *("--no-config", "--no-messages", "--files-with-matches", "--null", "--fixed-strings", "--ignore-case", "--text"),
    *("--no-ignore", "--hidden", "--no-follow", "--max-depth=1", "--threads=2"),
)


@dataclass(frozen=True, slots=True)
class Match:
    """A file that holds the query or pieces of it, and where: offset in its text, line (from 1) and that line."""

    path: Path
    offset: int
    line_number: int
    line: str


@dataclass(frozen=True, slots=True)
class _Needles:
    whole: str
    pieces: tuple[str, ...]


def search(query: str, files: Sequence[Path], limit: int) -> list[Match]:
    """Return the files that hold the query, then those with most of its pieces; ties keep the order of `files`."""
    needles = _needles(query)
    if not needles.pieces or limit < 1:
        return []
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    found: list[tuple[int, Match]] = []
    for path in _narrowed(needles, files, deadline):
        if time.monotonic() > deadline:
            break
        rated = _rate(needles, path, _read(path))
        if rated:
            found.append(rated)
    found.sort(key=lambda rated: -rated[0])
    return [match for _, match in found[:limit]]


def _needles(query: str) -> _Needles:
    whole = _folded(" ".join(query.split()))[:MAX_PIECE_CHARS]
    pieces = list(dict.fromkeys(piece[:MAX_PIECE_CHARS] for piece in whole.split()))
    # `a` or `the` stands in every file, as a part of other words if nothing else.
    telling = [
        piece
        for piece in pieces
        if piece not in ENGLISH_STOP_WORDS and (len(piece) > 1 or not re.match("[a-z0-9]", piece))
    ]
    return _Needles(whole, tuple((telling or pieces)[:MAX_PIECES]))


def _rate(needles: _Needles, path: Path, text: str) -> tuple[int, Match] | None:
    folded = _folded(text)
    present = [piece for piece in needles.pieces if piece in folded]
    if not present:
        return None
    # Where the query stands as it was typed, the file is as good as one with all pieces, and better.
    whole = needles.whole in folded
    offset = folded.find(needles.whole) if whole else min(folded.find(piece) for piece in present)
    number = folded.count("\n", 0, offset)
    line = _line(text, number).strip()
    return len(present) + (MAX_PIECES if whole else 0), Match(path, offset, number + 1, line[:MAX_LINE_CHARS])


def _narrowed(needles: _Needles, files: Sequence[Path], deadline: float) -> Iterable[Path]:
    """Return the files that ripgrep finds a piece in, or all of them where it cannot be asked."""
    program = shutil.which("rg")
    folders = list(dict.fromkeys(str(path.parent) for path in files))
    # Only for ASCII is it certain that ripgrep and Python agree on what is the same letter in upper and lower case.
    askable = all(piece.isascii() and "\0" not in piece for piece in needles.pieces)
    fitting = len(files) >= MIN_FILES_FOR_RIPGREP and len(folders) <= MAX_FOLDERS and all(map(os.path.isabs, folders))
    if program is None or not askable or not fitting:
        return files
    names = _ripgrep(program, needles.pieces, folders, (deadline - time.monotonic()) / 2)
    return files if names is None else [path for path in files if str(path) in names]


def _ripgrep(program: str, pieces: Iterable[str], folders: list[str], seconds: float) -> set[str] | None:
    patterns = [argument for piece in pieces for argument in ("-e", piece[:MAX_ARGUMENT_CHARS])]
    environment = {name: value for name, value in os.environ.items() if name != "RIPGREP_CONFIG_PATH"}
    try:
        # Whole folders instead of file names: ten thousand of those do not fit a command line.
        done = subprocess.run(
            [program, *_RIPGREP_FLAGS, *patterns, "--", *folders],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=seconds,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    # 0 found, 1 found nothing; anything else, a file that it may not read too, means that the answer is not whole.
    return set(os.fsdecode(done.stdout).split("\0")) if done.returncode in (0, 1) else None


def _read(path: Path) -> str:
    """Return a file's text, and none for what is no plain file: a link may lead out of the store, a pipe never ends."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            content = file.read(MAX_FILE_BYTES) if plain else b""
    except (OSError, ValueError):
        return ""
    encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    return content.decode(encoding, errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def _folded(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).lower()


def _line(text: str, number: int) -> str:
    return text.split("\n", number + 1)[number]
