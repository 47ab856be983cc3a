"""Tool calls on the activity page."""

from coffer.registry import Activity, ActivityFilter, Event
from gateway.models import Invocation


def recent(wanted: ActivityFilter) -> Activity:
    """The newest calls, without arguments or answers (FR-016)."""
    rows = Invocation.objects.all()
    if wanted.store:
        rows = rows.filter(project=wanted.store)
    if wanted.who:
        rows = rows.filter(agent=wanted.who)
    total = rows.count()
    if wanted.before is not None:
        rows = rows.filter(at__lt=wanted.before)
    return Activity([_event(row) for row in rows[: wanted.limit]], total)


def _event(row: Invocation) -> Event:
    counts: dict[str, object] = {"items": row.items, "ms": row.ms}
    if row.outcome != "ok":
        counts["outcome"] = row.outcome
    return Event(row.at, row.tool, row.agent, row.project, "", counts)
