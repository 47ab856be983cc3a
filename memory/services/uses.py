"""How often a document was recalled, delivered or opened: by store and id, so that a re-index loses nothing."""

from collections.abc import Iterable
from typing import Literal

from django.db import connection, transaction
from django.utils import timezone

from coffer import later

Kind = Literal["recalled", "delivered", "opened"]


def count(kind: Kind, documents: Iterable[tuple[str, str]]) -> None:
    """Add one use to each (store, id), after the answer and without waiting."""
    wanted = list(documents)
    if wanted:
        later.write(lambda: _write(kind, wanted))


def _write(kind: Kind, documents: list[tuple[str, str]]) -> None:
    """One statement for all: adding up must not lose a count between a read and a write."""
    now = timezone.now()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO memory_use (store, ref, delivered, recalled, opened, last_at) VALUES (%s, %s, 0, 0, 0, %s) "
            "ON CONFLICT (store, ref) DO NOTHING",
            [(store, ref, now) for store, ref in documents],
        )
        cursor.executemany(
            f"UPDATE memory_use SET {kind} = {kind} + 1, last_at = %s WHERE store = %s AND ref = %s",
            [(now, store, ref) for store, ref in documents],
        )
