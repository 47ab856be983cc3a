"""The archive as a person sees it: what was replaced or deleted, its text, and one action to bring it back."""

from pathlib import Path

from coffer import fs
from coffer.errors import Invalid, MemoryNotFound
from memory.files import lanes, markdown
from memory.models import Store
from memory.services import archive, pages, writes
from memory.services import stores as store_service
from memory.services.archive import Superseded

_RESTORABLE = (lanes.KNOWLEDGE, lanes.RULES, lanes.JOURNAL, lanes.HANDOFF)


def folder(store: Store) -> Path:
    """Where the archived versions of a store lie."""
    return store_service.folder(store) / archive.FOLDER


def listing(store: Store) -> list[Superseded]:
    """Every archived version, newest first."""
    place = store_service.folder(store)
    return archive.listing(place) if lanes.is_plain(place, f"{archive.FOLDER}/{archive.INDEX}") else []


def read(store: Store, file: str) -> str:
    """The text of one archived version. Raises MemoryNotFound."""
    line = _find(store, file)
    page = pages.read(store_service.folder(store), f"{archive.FOLDER}/{line.file}")
    if page is None:
        raise _missing(store, file)
    return page.text


def restore(store: Store, file: str, *, actor: str = "user") -> Path:
    """Put an archived version back where it stood; a version that is there now goes to the archive instead.

    Raises MemoryNotFound, and Invalid when the archive does not know a place in a lane for it.
    """
    line = _find(store, file)
    if line.path.partition("/")[0] not in _RESTORABLE or not line.path.endswith(".md"):
        raise Invalid(f"Nothing tells where {file} stood; copy what you need out of {folder(store) / file}.")
    try:
        with store_service.write_lock(store) as place:
            path = archive.restore(place, line)
    except FileNotFoundError:
        raise _missing(store, file) from None
    writes.settle(store, [line.path], "superseded_restored", _reference(path), actor)
    return path


def _find(store: Store, file: str) -> Superseded:
    line = next((line for line in listing(store) if line.file == file), None)
    if line is None:
        raise _missing(store, file)
    return line


def _reference(path: Path) -> str:
    """What the audit calls it: the id in the file, as its name is made of the title's words."""
    try:
        written = markdown.text_of(markdown.parse(fs.read(path)), "id")
    except OSError:
        written = ""
    return written or path.stem


def _missing(store: Store, file: str) -> MemoryNotFound:
    return MemoryNotFound(f"{store.name} has no archived version {file[:120]!r}.", store=store.name)
