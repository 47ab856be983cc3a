"""The ledger of deliveries: each time a hook of an agent fired, and what became of it; never what was delivered."""

from collections.abc import Sequence

from django.utils import timezone

from agents.models import Delivery
from coffer import later
from coffer.registry import Activity, ActivityFilter, Event

KEPT = 2000  # rows of one agent
_PRUNED_EVERY = 100  # a look at the table for each so many new rows


def record(
    agent: str,
    event: str,
    *,
    session: str = "",
    project: str = "",
    bytes: int = 0,
    items: int = 0,
    ms: float = 0,
    outcome: str,
) -> None:
    """Note one fire of a hook, after the answer and without waiting; dropped and counted when the database is locked.

    ``outcome`` is delivered, silent, late or failed, or what the end of a session came to; ``project`` a store's name.
    """
    row = Delivery(
        agent=agent[:60],
        event=event[:20],
        session=session[:255],
        project=project[:40],
        bytes=bytes,
        items=items,
        ms=round(ms, 1),
        outcome=outcome[:20],
        at=timezone.now(),  # of the fire: the row may be written later
    )
    later.write(lambda: _save(row))


def last(agent: str, event: str | None = None, *, outcome: str = "") -> Delivery | None:
    """The newest row of an agent: of one event, with one outcome, when these are given."""
    wanted = {key: value for key, value in (("event", event), ("outcome", outcome)) if value}
    return Delivery.objects.filter(agent=agent, **wanted).first()


def page(agent: str, *, limit: int, offset: int = 0) -> tuple[Sequence[Delivery], int]:
    """Rows of an agent, newest first, and how many there are in all."""
    rows = Delivery.objects.filter(agent=agent)
    return list(rows[offset : offset + limit]), rows.count()


def recent(wanted: ActivityFilter) -> Activity:
    """The newest rows of all agents, for the activity page."""
    rows = Delivery.objects.all()
    if wanted.store:
        rows = rows.filter(project=wanted.store)
    if wanted.who:
        rows = rows.filter(agent=wanted.who)
    total = rows.count()
    if wanted.before is not None:
        rows = rows.filter(at__lt=wanted.before)
    return Activity([_event(row) for row in rows[: wanted.limit]], total)


def _save(row: Delivery) -> None:
    row.pk = None  # a second try after a lock writes anew
    row.save(force_insert=True)
    if row.pk % _PRUNED_EVERY == 0:
        newest = Delivery.objects.filter(agent=row.agent).values("pk")[:KEPT]
        Delivery.objects.filter(agent=row.agent).exclude(pk__in=newest).delete()


def _event(row: Delivery) -> Event:
    counts: dict[str, object] = {"bytes": row.bytes, "items": row.items, "ms": round(row.ms)}
    if row.outcome != "delivered":
        counts["outcome"] = row.outcome
    return Event(row.at, row.event, row.agent, row.project, "", counts)
