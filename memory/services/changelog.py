"""The consolidation log: what the organizer did, line by line; append-only, machine-local, never recalled (FR-031)."""

from dataclasses import dataclass
from pathlib import Path

from django.utils import timezone

from coffer import fs
from memory.files import lanes, markdown
from memory.models import Store
from memory.services import archive, pages
from memory.services import stores as store_service


@dataclass(frozen=True)
class Changelog:
    text: str | None
    path: Path


def read(store: Store) -> Changelog:
    """The whole log, or no text when there is none (FR-054)."""
    folder = store_service.folder(store)
    page = pages.read(folder, lanes.LOG)
    return Changelog((page.text or None) if page is not None else None, folder / lanes.LOG)


def append(store: Store, line: str) -> None:
    """Add one line behind a stamp in UTC; it is whole or absent, whatever happens."""
    words = " ".join(markdown.clean(line).split())
    if not store_service.folder(store).is_dir():
        store_service.provision(store.name)
    with store_service.write_lock(store) as folder:
        path = archive.inside(folder, lanes.LOG)
        # What was changed is durable by itself: a wait for the disk with every line would buy nothing.
        fs.append_line(path, f"- {markdown.stamp(timezone.now())} {words}".encode(), durable=False)
