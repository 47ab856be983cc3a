"""The sweep: by itself, every hour and at start, what settled lately becomes memory (FR-046)."""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from agents.services import deliveries
from coffer import env, llm
from coffer.errors import CofferError, where
from memory.services import trail
from transcripts.models import Sweep
from transcripts.services import batch, distilling, homes
from transcripts.services.batch import Job, Limits, Result
from transcripts.services.distilling import PURPOSE, Report

log = logging.getLogger("transcripts.sweep")
SECONDS = 600.0  # after which a pass lets other jobs have the worker
_KEPT = 100  # rows of passes
_SAID = {"distilled": "distilled", "partly": "distilled", "nothing": "nothing new", "failed": "failed"}


@dataclass(frozen=True)
class Settings:
    """How the sweep is set: whether at all, when a session has settled, how far back it looks, how much it takes."""

    on: bool
    settled: timedelta
    window: timedelta
    sessions: int


def settings() -> Settings:
    """What is set now. Raises ConfigInvalid."""
    return Settings(
        env.flag("COFFER_DISTILL"),
        timedelta(seconds=env.number("COFFER_DISTILL_SETTLED")),
        timedelta(days=env.number("COFFER_DISTILL_DAYS", least=1, most=36_500)),
        env.number("COFFER_DISTILL_PER_PASS", least=1),
    )


def sweep() -> str:
    """Distill what has settled and is not distilled yet, of the agents that are known. Never raises.

    Says in a word what came of it, for the queue, which keeps it.
    """
    try:
        wanted = settings()
        if not wanted.on:
            return "off"
        if llm.model(PURPOSE) is None:
            return "no_model"
        return _sweep(wanted)
    except CofferError as error:
        log.warning("sweep failed error=%s: %s", error.code, error.message)
        return error.code
    except Exception as error:
        log.error("sweep failed error=%s", where(error))
        return "failed"


def _sweep(wanted: Settings) -> str:
    began = timezone.now()
    jobs: list[Job] = []
    for home in homes.registered():
        try:
            jobs += batch.chosen([home], since=began - wanted.window)
        except CofferError as error:  # one agent's folder must not keep the others waiting
            log.warning("sweep cannot look agent=%s error=%s: %s", home.agent, error.code, error.message)
    jobs.sort(key=lambda job: job.session.active_at, reverse=True)
    settled = [job for job in jobs if job.session.active_at <= began - wanted.settled]
    result = batch.run(batch.pending(settled), Limits(wanted.sessions, SECONDS, distilling.WINDOWS))
    _note(began, result)
    return "stopped" if result.stopped else "swept"


def _note(began: datetime, result: Result) -> None:
    for report in result.reports:
        _deliver(report)
    distilled, failed = result.counted("distilled", "partly"), result.counted("failed")
    left = result.remaining + result.counted("partly", "postponed")
    row = Sweep(
        started_at=began,
        finished_at=timezone.now(),
        distilled=distilled,
        failed=failed,
        insights=result.insights,
        remaining=left,
        stopped=result.stopped.message if result.stopped else "",
    )
    log.info(
        "swept distilled=%d nothing=%d failed=%d skipped=%d remaining=%d insights=%d stopped=%s",
        distilled, result.counted("nothing", "done"), failed, result.counted("skipped"), left, result.insights,
        result.stopped.code if result.stopped else "",
    )  # fmt: skip

    def write() -> None:
        row.save()
        Sweep.objects.exclude(pk__in=list(Sweep.objects.values_list("pk", flat=True)[:_KEPT])).delete()

    trail.write(write)


def _deliver(report: Report) -> None:
    """A line in the agent's ledger, from which its card tells when it was captured last."""
    if report.outcome in _SAID:
        deliveries.record(
            report.session.agent,
            "Sweep",
            session=report.session.session_id,
            project=report.store,
            items=len(report.entries),
            outcome=_SAID[report.outcome],
        )
