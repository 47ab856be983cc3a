"""The past in the background: slice by slice, so that other jobs get their turn, until all is distilled.

The ledger knows how far it is: whatever ends it, the next one goes on from there.
"""

import logging
from datetime import datetime, timedelta

from django.utils import timezone
from django_q.models import Schedule
from django_q.tasks import async_task, schedule

from coffer.errors import BudgetSpent, CofferError, Unavailable, where
from transcripts.services import batch, homes
from transcripts.services.batch import Limits, Result

log = logging.getLogger("transcripts.backfill")
JOB = "transcripts.jobs.distill_past"
SLICE = 600.0  # seconds
AWAY = timedelta(hours=1)  # until an endpoint that was away is asked again


def queue(agents: list[str], project: str = "", since: str = "") -> None:
    """Hand the sessions of some agents, of one project or since a moment (ISO), to the background workers."""
    async_task(JOB, agents, project, since, group="distill")


def go_on(agents: list[str], project: str, since: str) -> str:
    """One slice; what is left is queued again, when the budget or the endpoint is there again. Never raises."""
    try:
        chosen = [homes.of(agent) for agent in agents]
        jobs = batch.chosen(chosen, project=project, since=datetime.fromisoformat(since) if since else None)
        result = batch.run(batch.pending(jobs), Limits(seconds=SLICE))
    except CofferError as error:
        log.warning("back-fill ended error=%s: %s", error.code, error.message)
        return error.code
    except Exception as error:
        log.error("back-fill ended error=%s", where(error))
        return "failed"
    wait = _wait(result)
    log.info(
        "back-fill distilled=%d failed=%d remaining=%d again_in=%s",
        result.counted("distilled", "partly"), result.counted("failed"), result.remaining, wait,
    )  # fmt: skip
    if wait is None:
        return "stopped" if result.stopped else "done"
    if wait:
        schedule(JOB, agents, project, since, schedule_type=Schedule.ONCE, next_run=timezone.now() + wait)
    else:
        queue(agents, project, since)
    return "more"


def _wait(result: Result) -> timedelta | None:
    """How long until there is something to go on with; None for nothing."""
    match result.stopped:
        case BudgetSpent():
            now = timezone.now()
            return now.replace(hour=0, minute=1, second=0, microsecond=0) + timedelta(days=1) - now
        case Unavailable():
            return AWAY
        case None:
            return timedelta() if result.remaining or result.counted("partly") else None
    return None
