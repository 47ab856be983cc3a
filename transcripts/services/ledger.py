"""The ledger of what was distilled: how far each session is done, what failed and when it is tried again (FR-046).

It is machine-local and may be lost: the ids of sessions in journal entries bring back what matters.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from memory.services import journal, stores, trail
from transcripts.models import Distilled, KnownSession, SeenTurn
from transcripts.readers import Turn

DONE, NOTHING, PARTLY, FAILED = "distilled", "nothing", "partly", "failed"
GIVEN_UP = 6  # failures in a row after which only a person has it tried again
_FIRST_WAIT, _LONGER = timedelta(hours=1), 4  # after the first failure; each further wait is so many times as long


@dataclass(frozen=True)
class Progress:
    """How far a session is done: so many turns from its start, with these words; or by time, when only that is known.

    ``digest`` chains the hashes of the turns.
    """

    cursor: int = 0
    digest: str = ""
    through: datetime | None = None


def row_of(agent: str, session_id: str) -> Distilled | None:
    return Distilled.objects.filter(agent=agent, session_id=session_id).first()


def progress_of(row: Distilled | None) -> Progress | None:
    return None if row is None else Progress(row.cursor, row.digest, row.through)


def is_done(session: KnownSession, row: Distilled | None) -> bool:
    """Whether nothing was said in a session since it was distilled, as far as its list tells."""
    return row is not None and row.mark == session.mark


def waits(row: Distilled | None, now: datetime) -> bool:
    """Whether a session that failed is not to be tried yet, or not any more."""
    if row is None or not row.failures:
        return False
    return row.failures >= GIVEN_UP or (row.next_try_at is not None and row.next_try_at > now)


def advance(session: KnownSession, store: str, progress: Progress, turns: Iterable[Turn], insights: int) -> None:
    """Note that a piece of a session is distilled: the turns up to here, which made so many entries."""
    with transaction.atomic():
        row, _ = Distilled.objects.get_or_create(
            agent=session.agent, session_id=session.session_id, defaults={"outcome": PARTLY}
        )
        row.store, row.cursor, row.digest, row.through = store, progress.cursor, progress.digest, None
        row.insights += insights
        row.outcome, row.mark, row.failures, row.reason, row.next_try_at = PARTLY, "", 0, "", None
        row.at = timezone.now()
        row.save()
        SeenTurn.objects.bulk_create([SeenTurn(_key(turn)) for turn in turns], ignore_conflicts=True)


def finish(session: KnownSession) -> None:
    """Note that a session is done as it is now."""
    now = timezone.now()
    with transaction.atomic():
        row, _ = Distilled.objects.get_or_create(
            agent=session.agent, session_id=session.session_id, defaults={"outcome": NOTHING}
        )
        row.outcome, row.mark, row.at = DONE if row.insights else NOTHING, session.mark, now
        row.failures, row.reason, row.next_try_at = 0, "", None
        row.save()


def failed(session: KnownSession, reason: str) -> None:
    """Count one more failure; each wait is longer than the one before."""
    now = timezone.now()

    def write() -> None:
        with transaction.atomic():
            row, _ = Distilled.objects.get_or_create(
                agent=session.agent, session_id=session.session_id, defaults={"outcome": FAILED}
            )
            row.failures, row.outcome, row.mark = row.failures + 1, FAILED, ""
            row.reason, row.at = reason[:300], now
            row.next_try_at = now + _FIRST_WAIT * _LONGER ** (row.failures - 1)
            row.save()

    trail.write(write)


def forgive(pk: int) -> Distilled | None:
    """Forget the failures of a row; None when it is gone."""
    Distilled.objects.filter(pk=pk).update(failures=0, next_try_at=None, mark="")
    return Distilled.objects.filter(pk=pk).first()


def seen(turn: Turn) -> bool:
    """Whether a turn with these words was distilled, in whatever session."""
    return SeenTurn.objects.filter(pk=_key(turn)).exists()


def rebuild() -> None:
    """Bring rows back from the journals after the database was lost: each session up to its last entry."""
    found: dict[tuple[str, str], tuple[str, datetime, int]] = {}
    for store in stores.all_stores():
        for entry in journal.recent(store, limit=2**31) if store.name != "global" else ():
            if not entry.session or entry.stamp is None:
                continue
            key = (entry.agent, entry.session)
            _, last, count = found.get(key, (store.name, entry.stamp, 0))
            found[key] = (store.name, max(last, entry.stamp), count + 1)
    Distilled.objects.bulk_create(
        [
            Distilled(agent=agent, session_id=session, store=store, through=last, outcome=DONE, insights=count, at=last)
            for (agent, session), (store, last, count) in found.items()
        ],
        ignore_conflicts=True,
    )


def _key(turn: Turn) -> int:
    return int.from_bytes(hashlib.blake2b(turn.digest.encode(), digest_size=8).digest(), "big", signed=True)
