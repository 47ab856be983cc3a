"""Finding files by name and stat alone."""

import os
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from transcripts.readers.base import Source


def walk(folder: Path, depth: int, suffixes: tuple[str, ...]) -> Iterator[Source]:
    """Files with one of the suffixes in a folder and down to `depth` folders below it, each once, in order of name.

    Links to files and folders are followed; the depth ends loops, and a second way to a file or folder gives nothing. A
    folder that cannot be listed is a source with a problem; one that is not there gives nothing.
    """
    yield from _walk(os.fspath(folder), depth, suffixes, set())


def stat(path: Path) -> os.stat_result | None:
    """The stat of a regular file, links followed; None when there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a NUL in a name that came from the environment
        return None
    return found if S_ISREG(found.st_mode) else None


def _walk(folder: str, depth: int, suffixes: tuple[str, ...], seen: set[tuple[int, int]]) -> Iterator[Source]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=_name)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return
    except OSError as error:
        yield Source(folder, 0, 0, problem=f"The folder {folder} cannot be listed ({error.strerror}).")
        return
    for entry in found:
        wanted = entry.name.endswith(suffixes)
        if not wanted and not depth:
            continue
        try:
            about = entry.stat()
        except OSError:  # gone since, or a link to nothing
            continue
        identity = (about.st_dev, about.st_ino)
        if identity in seen:
            continue
        if depth and S_ISDIR(about.st_mode):
            seen.add(identity)
            yield from _walk(entry.path, depth - 1, suffixes, seen)
        elif wanted and S_ISREG(about.st_mode):
            seen.add(identity)
            yield Source(entry.path, about.st_size, about.st_mtime_ns)


_name = attrgetter("name")
