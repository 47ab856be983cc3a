"""The file behind a path in somebody else's folder: looked at once, replaced whole or not at all.

Links are followed and their target is replaced in its own folder, so that a dotfiles repository gets the change. A file
with several names (hard links) keeps its inode and is written in place. Mode and owner stay.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from coffer import fs
from coffer.errors import Invalid

_LEFTOVER = re.compile(r"[0-9a-f]{12}\.tmp")


class Changed(Exception):
    """The file is not what it was when it was looked at."""


@dataclass(frozen=True)
class Target:
    """A path as its program names it, the file it leads to, and that file's bytes; None when there is none."""

    path: Path
    real: Path
    data: bytes | None
    mode: int = 0o600
    group: int = -1
    names: int = 1


def look(path: Path) -> Target:
    """The file behind a path. Raises Invalid when it could not be replaced."""
    real = _resolved(path)
    try:
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        _check_folder(path, real)
        return Target(path, real, None)
    except OSError as error:
        raise Invalid(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    try:
        found = os.fstat(handle)
        _check_file(path, real, found)
        with open(handle, "rb", closefd=False) as file:
            return Target(path, real, file.read(), stat.S_IMODE(found.st_mode), found.st_gid, found.st_nlink)
    finally:
        os.close(handle)


def missing_folders(target: Target) -> list[Path]:
    """The folders that have to be made for a new file, the outermost first."""
    return [folder for folder in reversed(target.real.parents) if not folder.exists()]


def sweep(target: Target) -> None:
    """Remove what an edit that was killed has left beside a file; nobody may be editing it."""
    for leftover in _leftovers(target.real):
        leftover.unlink(missing_ok=True)


def replace(target: Target, data: bytes | None) -> None:
    """Put other bytes into a target's place; None removes it. Raises Changed, StorageFailed."""
    with fs.storage_errors(target.real):
        if data is None:
            _check_unchanged(target)
            for name in {target.real, target.path}:
                name.unlink(missing_ok=True)
            fs.sync_folder(target.real.parent)
            return
        for folder in missing_folders(target):
            folder.mkdir(mode=0o700, exist_ok=True)
            fs.sync_folder(folder.parent)
        if target.names > 1:
            _check_unchanged(target)
            _rewrite(target.real, data)
        else:
            _swap(target, data)


def _resolved(path: Path) -> Path:
    try:
        real = path.resolve()
        if path.is_symlink() and not real.exists():
            raise Invalid(f"{path} is a link to {real}, which does not exist; mend or remove the link.")
        for folder in path.parents:
            if folder.is_symlink() and not folder.exists():
                raise Invalid(f"{folder} is a link that leads nowhere; mend or remove the link.")
    except (OSError, RuntimeError) as error:  # a ring of links
        raise Invalid(f"{path} cannot be followed to a file; mend or remove the link.") from error
    return real


def _check_file(path: Path, real: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Invalid(f"{path} is not a regular file; a configuration file belongs there.")
    if found.st_uid != os.geteuid():
        raise Invalid(f"{real} belongs to another user; it is not changed. Ask for its owner's help.")
    if not found.st_mode & stat.S_IWUSR or not os.access(real, os.W_OK):
        raise Invalid(f"{real} is read-only; it is not changed. `chmod u+w` it if it is yours to change.")
    _check_folder(path, real)


def _check_folder(path: Path, real: Path) -> None:
    folder = next(folder for folder in real.parents if folder.exists())
    if not folder.is_dir():
        raise Invalid(f"{folder} is in the way of {path}: a folder belongs there; move it away.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Invalid(f"{path} cannot be written: {folder} is not yours to write; check its permissions.")


def _check_unchanged(target: Target) -> None:
    try:
        current: bytes | None = target.real.read_bytes()
    except FileNotFoundError:
        current = None
    if current != target.data:
        raise Changed


def _swap(target: Target, data: bytes) -> None:
    with fs.temporary(target.real, data) as name:
        os.chmod(name, target.mode)
        if target.group >= 0 and os.stat(name).st_gid != target.group:
            with suppress(PermissionError):  # a group that the person has left
                os.chown(name, -1, target.group)
                os.chmod(name, target.mode)
        _check_unchanged(target)
        os.replace(name, target.real)
    fs.sync_folder(target.real.parent)


def _rewrite(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        fs.write_all(handle, data)
        os.ftruncate(handle, len(data))
        os.fsync(handle)
    finally:
        os.close(handle)


def _leftovers(path: Path) -> Iterator[Path]:
    prefix = f".{path.name[:40]}."
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if name.startswith(prefix) and _LEFTOVER.fullmatch(name.removeprefix(prefix)):
                yield path.parent / name
