"""The audit trail: one row per change, never its content."""

import json
from datetime import datetime

from django.db import connection
from django.utils import timezone

from coffer.models import AuditEntry
from coffer.registry import Activity, ActivityFilter, Event

_INSERT = """
INSERT INTO coffer_auditentry (event, store, ref, actor, counts, at) VALUES (%s, %s, %s, %s, %s, %s)
"""


def record(event: str, *, store: str = "", ref: str = "", actor: str, **counts: int) -> None:
    """Write one row; events are lower-case words such as ``fact_added`` or ``handoff_set``."""
    with connection.cursor() as cursor:  # a plain statement, since every write of memory waits for it
        cursor.execute(_INSERT, [event, store, ref[:200], actor, json.dumps(counts), timezone.now()])


def recent(wanted: ActivityFilter) -> Activity:
    """The newest rows, for the activity page."""
    rows = AuditEntry.objects.all()
    if wanted.store:
        rows = rows.filter(store=wanted.store)
    if wanted.who:
        rows = rows.filter(actor=wanted.who)
    total = rows.count()
    if wanted.before is not None:
        rows = rows.filter(at__lt=wanted.before)
    events = [Event(row.at, row.event, row.actor, row.store, row.ref, row.counts) for row in rows[: wanted.limit]]
    return Activity(events, total)


def page(*, since: datetime | None = None, limit: int, offset: int, **filters: str) -> tuple[list[AuditEntry], int]:
    """Rows newest first, and how many there are in all; ``filters`` are event, store and actor, blank for any."""
    rows = AuditEntry.objects.filter(**{key: value for key, value in filters.items() if value})
    if since is not None:
        rows = rows.filter(at__gte=since)
    return list(rows[offset : offset + limit]), rows.count()
