"""How often a document was recalled, delivered or opened: by store and id, so that a re-index loses nothing."""

from collections.abc import Iterable
from typing import Literal

from django.db import connection, transaction
from django.utils import timezone

from coffer import later
from memory.models import Store

Kind = Literal["recalled", "delivered", "opened"]
# From the uses to the documents: an archived document's uses stay, and few documents of many were ever asked for.
_MOST_USED = """
SELECT document.ref FROM memory_use AS used CROSS JOIN memory_document AS document
WHERE used.store = %s AND used.recalled + used.opened > 0
  AND document.store_id = %s AND document.ref = used.ref AND document.kind != 'journal'
ORDER BY used.recalled + used.opened DESC, document.time DESC, document.id DESC LIMIT %s
"""


def count(kind: Kind, documents: Iterable[tuple[str, str]]) -> None:
    """Add one use to each (store, id), after the answer and without waiting."""
    wanted = list(documents)
    if wanted:
        later.write(lambda: _write(kind, wanted))


def most_used(store: Store, limit: int) -> list[str]:
    """The ids of the facts and topics that were recalled or opened most often, those never asked for left out.

    To have been delivered is no use: nobody asked, and what is delivered would go on being so.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MOST_USED, [store.name, store.pk or 0, limit])
        return [ref for (ref,) in cursor.fetchall()]


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
