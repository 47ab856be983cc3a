"""What a store holds, counted on its disk: nothing here trusts the index."""

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from memory.files import lanes
from memory.files.lanes import Kind
from memory.models import Store
from memory.services import stores


@dataclass(frozen=True)
class Metrics:
    fact_count: int
    topic_count: int
    inbox_count: int
    journal_days: int
    disk_bytes: int
    last_write_at: datetime | None


def metrics(store: Store) -> Metrics:
    """Counts and sizes as they are on disk now."""
    kinds = lanes.walk(stores.folder(store)).kinds
    sizes, last = 0, 0.0
    for path, _, names in os.walk(stores.folder(store)):
        for name in names:
            with suppress(FileNotFoundError):
                found = os.lstat(os.path.join(path, name))
                sizes, last = sizes + found.st_size, max(last, found.st_mtime)
    return Metrics(
        fact_count=kinds[Kind.FACT] + kinds[Kind.TOPIC],
        topic_count=kinds[Kind.TOPIC],
        inbox_count=kinds[Kind.FACT],
        journal_days=kinds[Kind.JOURNAL],
        disk_bytes=sizes,
        last_write_at=datetime.fromtimestamp(last, UTC) if last else None,
    )


def fact_count(store: Store) -> int:
    """Facts and topics on disk, indexed or not; journal days do not count (FR-043)."""
    kinds = lanes.walk(stores.folder(store)).kinds
    return kinds[Kind.FACT] + kinds[Kind.TOPIC]
