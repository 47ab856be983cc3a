"""The day's limit on calls and tokens, and the ledger that it is counted from.

A call's row is written before the call is made, in the transaction that has counted the others, so that processes
side by side cannot spend the same rest twice. Days are UTC dates and each is counted by its own rows: a clock that is
set back finds the earlier date as it was left.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db import connection as database
from django.db.models import F
from django.utils import timezone

from coffer import db, env, later
from coffer.connections import Connection
from coffer.errors import BadAnswer, BudgetSpent, Busy, Cancelled, Refused, Unavailable
from coffer.models import LlmCall

log = logging.getLogger("coffer.llm")
STARTED, OK = "started", "ok"
OUTCOMES: dict[type[BaseException], str] = {
    BadAnswer: "bad_answer",
    Refused: "refused",
    Unavailable: "unavailable",
    Cancelled: "cancelled",
    BudgetSpent: "budget",
    KeyboardInterrupt: "cancelled",
}
# A plain statement, since every call of a model waits for it: through objects it takes ten times as long.
_USED = """
SELECT coalesce(sum(attempts), 0), coalesce(sum(tokens_in + tokens_out), 0) FROM coffer_llmcall
WHERE at >= %s AND at < %s
"""


@dataclass(frozen=True)
class Remaining:
    """What is left of the day, what was used, and the limits."""

    calls: int
    tokens: int
    used_calls: int
    used_tokens: int
    limit_calls: int
    limit_tokens: int


class Call:
    """One call that has been counted."""

    def __init__(self, row: LlmCall) -> None:
        self._row = row
        self._started = time.monotonic()
        self._answered = False

    def again(self) -> None:
        """Count one more request of the same call. Raises BudgetSpent."""
        with _counted(tokens=0):
            LlmCall.objects.filter(pk=self._row.pk).update(attempts=F("attempts") + 1)
        self._row.attempts += 1

    def used(self, tokens_in: int, tokens_out: int) -> None:
        """What it was in the end."""
        self._answered = True
        self._row.tokens_in, self._row.tokens_out = tokens_in, tokens_out

    def finish(self, outcome: str) -> None:
        """Write how it went; an answer that was paid for is not lost to a busy database."""
        row = self._row
        row.outcome, row.ms = outcome, round((time.monotonic() - self._started) * 1000)
        if not self._answered:
            row.tokens_out = 0
            row.tokens_in = 0 if outcome == OUTCOMES[Refused] else row.tokens_in
        if outcome != OK:
            log.warning(
                "call failed purpose=%s outcome=%s attempts=%d ms=%d", row.purpose, outcome, row.attempts, row.ms
            )
        try:
            db.refresh_connection()
            _complete(row)
        except DatabaseError:
            later.write(lambda: _complete(row))


@contextmanager
def call(connection: Connection, purpose: str, store: str, tokens: int) -> Iterator[Call]:
    """Count a call of about so many tokens, then make it inside the block. Raises BudgetSpent before it is made.

    An answer is taken to be as long as its question until it is there, so that the limit also holds for what is under
    way; a longer one can pass the limit by the difference, once.
    """
    with _counted(tokens=2 * tokens):
        row = LlmCall.objects.create(
            purpose=purpose,
            store=store,
            connection=connection.name,
            model=connection.model,
            tokens_in=tokens,
            tokens_out=tokens,
            outcome=STARTED,
        )
    made = Call(row)
    try:
        yield made
    except BaseException as error:
        made.finish(OUTCOMES.get(type(error), "error"))
        raise
    made.finish(OK)


def remaining() -> Remaining:
    """What is left of today."""
    limit_calls, limit_tokens = env.number("COFFER_LLM_DAY_CALLS"), env.number("COFFER_LLM_DAY_TOKENS", most=2**53)
    day = _day(timezone.now())
    with database.cursor() as cursor:
        cursor.execute(_USED, [day, day + timedelta(days=1)])
        calls, tokens = cursor.fetchone()
    left_calls, left_tokens = max(0, limit_calls - calls), max(0, limit_tokens - tokens)
    return Remaining(left_calls, left_tokens, calls, tokens, limit_calls, limit_tokens)


def page(*, since: datetime | None = None, limit: int, offset: int, **filters: str) -> tuple[list[LlmCall], int]:
    """Calls newest first, and how many there are in all; ``filters`` are fields of the row, blank for any."""
    rows = LlmCall.objects.filter(**{key: value for key, value in filters.items() if value})
    if since is not None:
        rows = rows.filter(at__gte=since)
    return list(rows[offset : offset + limit]), rows.count()


@contextmanager
def _counted(*, tokens: int) -> Iterator[None]:
    """One transaction: count, refuse when it does not fit, then do what the block does."""
    try:
        # durable: nobody may hold a transaction, and with it the database, while a model thinks.
        with transaction.atomic(durable=True):
            left = remaining()
            if not left.calls or left.tokens < tokens or not left.tokens:
                raise BudgetSpent(_sentence(left))
            yield
    except DatabaseError as error:
        if db.locked(error):
            raise Busy("Another program is writing to Coffer's database; try again in a moment.") from error
        raise


def _complete(row: LlmCall) -> None:
    """Write a finished row, also into a database that was made anew while the model thought."""
    values = {name: getattr(row, name) for name in ("attempts", "tokens_in", "tokens_out", "ms", "outcome")}
    if not LlmCall.objects.filter(pk=row.pk, at=row.at).update(**values):
        row.pk = None
        row.save()


def _sentence(left: Remaining) -> str:
    return (
        f"The day's limit for models is used up ({left.used_calls} of {left.limit_calls} calls, {left.used_tokens} of "
        f"{left.limit_tokens} tokens); it starts again at 00:00 UTC. COFFER_LLM_DAY_CALLS and COFFER_LLM_DAY_TOKENS "
        "set it."
    )


def _day(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
