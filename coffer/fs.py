"""Files that are whole or absent, and the locks around them.

A write goes to a temporary name in the same folder, is fsynced and moved into place; the folder is fsynced too, so
that a confirmed file survives a power cut.
"""

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coffer import paths
from coffer.errors import Busy, StorageFailed

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def ensure_dir(path: Path) -> Path:
    """Make a private folder (0700) and its missing parents below COFFER_HOME."""
    if not path.is_dir():
        with storage_errors(path):
            if path != paths.home() and paths.home() in path.parents:
                ensure_dir(path.parent)
            try:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise StorageFailed(f"{path} is in the way: a folder belongs there; move it away.") from None
    return path


def ensure_home() -> Path:
    """Make COFFER_HOME itself. Raises StorageFailed for any place where no folder can be."""
    try:
        return ensure_dir(paths.home())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageFailed(f"{paths.home()} cannot be made ({reason}); check HOME and COFFER_HOME.") from error


def write(path: Path, data: bytes) -> None:
    """Replace a file as a whole; keeps the mode of the file it replaces (0600 for a new one)."""
    with storage_errors(path), temporary(path, data) as name:
        with suppress(FileNotFoundError):
            os.chmod(name, path.stat().st_mode & 0o777)
        os.replace(name, path)
        sync_folder(path.parent)


def create(path: Path, data: bytes) -> None:
    """Make a new file (0600) without ever replacing one: FileExistsError when the name is taken."""
    with storage_errors(path), temporary(path, data) as name:
        link_or_fail(name, path)
        sync_folder(path.parent)


def move(source: Path, target: Path) -> None:
    """Rename without ever replacing a file: FileExistsError when the target is taken."""
    with storage_errors(target):
        link_or_fail(source, target)
        source.unlink()
        sync_folder(target.parent)
        sync_folder(source.parent)


def link_or_fail(source: Path | str, target: Path) -> None:
    """Give a file a second name; where hard links do not exist, claim the name first and rename over the claim."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.replace(source, target)
        Path(source).touch()


def write_all(handle: int, data: bytes) -> None:
    """Write every byte; one call may take only some of them."""
    while data:
        data = data[os.write(handle, data) :]


def append_line(path: Path, line: bytes, *, durable: bool = True) -> None:
    """Add a line that is durable and whole or absent; one that a crash cut off gets its line end first.

    One that need not be durable may be lost in a power cut, with all that are added after it.
    """
    with storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            end = os.lseek(handle, 0, os.SEEK_END)
            cut_off = end > 0 and os.pread(handle, 1, end - 1) != b"\n"
            try:
                write_all(handle, b"\n" * cut_off + line + b"\n")
                if durable:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)


def read(path: Path) -> bytes:
    """The bytes of a regular file; a link in its last place is refused with OSError (ELOOP)."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read()


@contextmanager
def locked(name: str, *, seconds: float = 10.0) -> Iterator[None]:
    """Hold the lock ``COFFER_HOME/locks/<name>``, across threads and processes; Busy after ``seconds``.

    The lock belongs to the open file, not to its name: a killed holder frees it, and no stale file can block. It is the
    bare system call, since every write takes it and a locking library costs thirty times as much.
    """
    path = ensure_dir(paths.locks()) / name
    with storage_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while not _taken(handle):
            if time.monotonic() > deadline:
                raise Busy(f"Another process has held {name} for {seconds:.0f} s; try again in a moment.")
            time.sleep(0.01)
        yield
    finally:
        # Not left to the closing: a child that is being started at this moment holds a copy of the handle for a while.
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Translate what a full, read-only or forbidden disk raises; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFailed(f"No space left to write {path.name}; free some space and try again.") from error
        if error.errno in _READ_ONLY:
            raise StorageFailed(f"{path} cannot be written ({error.strerror}); check its permissions.") from error
        raise


@contextmanager
def temporary(path: Path, data: bytes) -> Iterator[str]:
    """A durable file beside the path, under a hidden name that nobody reads; gone at the end unless it was renamed."""
    name = f"{path.parent}/.{path.name[:40]}.{secrets.token_hex(6)}.tmp"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
