"""The files of the lanes that recall does not own: rules, scenes, journal days. Read as they are, replaced whole."""

import os
import stat as modes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coffer import fs
from coffer.errors import Conflict, MemoryNotFound, StorageFailed, TooLarge
from memory.files import lanes, markdown
from memory.models import Store
from memory.retrieval import MAX_BYTES
from memory.services import archive
from memory.services import stores as store_service

RETRIES = 3
Edit = Callable[[markdown.Page | None], str | None]


@dataclass(frozen=True)
class LanePage:
    """One file of a lane as it stands on disk; of a very large one only the beginning, which then says so."""

    relative: str
    path: Path
    page: markdown.Page
    modified: int  # nanoseconds

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def text(self) -> str:
        return self.page.body.strip("\n").rstrip()


def of_lane(store: Store, lane: str) -> Iterator[LanePage]:
    """The pages of a lane by name; links are left out, an unreadable lane is an error and not an empty one (BC-067)."""
    return read_all(store, names(store, lane))


def names(store: Store, lane: str) -> list[str]:
    """The pages of a lane, relative to the store, by name. Raises StorageFailed."""
    folder = store_service.folder(store)
    with _readable(folder / lane):
        return [f"{lane}/{name}" for name in lanes.pages(folder, lane)]


def read_all(store: Store, relatives: Iterable[str]) -> Iterator[LanePage]:
    """Some files of a store, each read when its turn comes; one that has gone is passed over."""
    folder = store_service.folder(store)
    return (page for relative in relatives if (page := read(folder, relative)) is not None)


def read(folder: Path, relative: str) -> LanePage | None:
    """One file of a store; None when there is none, or a link leads to it. Raises StorageFailed."""
    path = folder / relative
    if not lanes.is_plain(folder, relative):
        return None
    try:
        with _readable(path):
            data, stat = _start_of(path)
    except FileNotFoundError:
        return None
    page = markdown.parse(data)
    if stat.st_size > MAX_BYTES:
        note = f"(The rest is left out: the file has {stat.st_size} bytes. Open it itself.)"
        page = markdown.Page(page.meta, f"{page.body}\n\n{note}", page.problems)
    return LanePage(relative, path, page, stat.st_mtime_ns)


def change(
    store: Store,
    relative: str,
    edit: Edit,
    why: str,
    *,
    said: Callable[[str], str] = str.rstrip,
    begin: bool = False,
    run: str = "",
) -> bool:
    """Replace a page's body under the store's lock by what ``edit`` makes of the page that is there, None for nothing.

    A version that loses a line is archived (``said`` is what counts of a line), a page that becomes blank leaves its
    lane. ``begin``: what is added is new, and goes on to the store that ``store`` was merged into meanwhile. ``run`` is
    the pass that it is done in. Raises Conflict when another program keeps changing the file, TooLarge, StoreNotFound.
    False when ``edit`` gave None.
    """
    with store_service.write_lock(store, begin=begin) as folder:
        for _ in range(RETRIES):
            before = _current(archive.inside(folder, relative))
            page = markdown.parse(before) if before is not None else None
            body = edit(page)
            if body is None:
                return False
            lost = before is not None and page is not None and _loses_a_line(before, page, body, said)
            if _replaced(folder, relative, before, body, why, keep=lost, run=run):
                return True
    raise Conflict(f"{relative} is being changed by another program; try again in a moment.")


def remove(store: Store, page: LanePage | None, missing: str) -> None:
    """Move a page to superseded/. Raises MemoryNotFound with the sentence given when there is none."""
    if page is None:
        raise MemoryNotFound(missing, store=store.name)
    try:
        with store_service.write_lock(store) as folder:
            archive.inside(folder, page.relative).lstat()
            archive.remove(folder, page.relative, "deleted")
    except FileNotFoundError:
        raise MemoryNotFound(missing, store=store.name) from None


def _replaced(folder: Path, relative: str, before: bytes | None, body: str, why: str, *, keep: bool, run: str) -> bool:
    """Write one new version; False when the file is no longer the one that was read."""
    place = folder / relative
    if before is None:
        fs.ensure_dir(place.parent)
        try:
            fs.create(place, markdown.dump({}, body))
        except FileExistsError:
            return False
        return True
    if _current(place) != before:
        return False
    if not body.strip():
        archive.remove(folder, relative, why, run)
        return True
    if keep:
        archive.keep_copy(folder, relative, before, why, run)
    fs.write(place, markdown.replace(before, {}, body))
    return True


def _loses_a_line(before: bytes, page: markdown.Page, body: str, said: Callable[[str], str]) -> bool:
    """Whether a line goes or changes; bytes that are no UTF-8 always do."""
    _, replaced = markdown.decode(before)
    new = {said(line) for line in body.split("\n")}
    return bool(replaced) or any(line.strip() and said(line) not in new for line in page.body.split("\n"))


def _current(place: Path) -> bytes | None:
    try:
        with _readable(place):
            if place.lstat().st_size > MAX_BYTES:
                raise TooLarge(f"{place} is larger than {MAX_BYTES} bytes; change the file itself.")
            return fs.read(place)
    except FileNotFoundError:
        return None


def _start_of(path: Path) -> tuple[bytes, os.stat_result]:
    """The first bytes of a regular file, and what the system knows of it; anything else counts as missing."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not modes.S_ISREG(found.st_mode):
            raise FileNotFoundError(path)
        return file.read(MAX_BYTES), found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Translate what an unreadable file or folder raises; a missing one passes."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
