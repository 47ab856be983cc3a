"""How often a document was recalled, delivered or opened: by store and id, so that a re-index loses nothing."""

from collections.abc import Iterable
from typing import Literal

from django.db import transaction
from django.db.models import F

from coffer import later
from memory.models import Use

Kind = Literal["recalled", "delivered", "opened"]


def count(kind: Kind, documents: Iterable[tuple[str, str]]) -> None:
    """Add one use to each (store, id), after the answer and without waiting."""
    wanted = list(documents)
    if wanted:
        later.write(lambda: _write(kind, wanted))


def _write(kind: Kind, documents: list[tuple[str, str]]) -> None:
    with transaction.atomic():
        for store, ref in documents:
            row, made = Use.objects.get_or_create(store=store, ref=ref, defaults={kind: 1})
            if not made:
                setattr(row, kind, F(kind) + 1)
                row.save(update_fields=[kind, "last_at"])
