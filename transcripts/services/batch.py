"""Many sessions, newest first: which of them, what they would cost, and what ends a pass before all are done.

A session that fails waits ever longer, and the others go on. An endpoint that is away is no session's fault.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from django.db import DatabaseError
from django.utils import timezone

from coffer import connections, db, llm
from coffer.errors import (
    BadAnswer,
    BudgetSpent,
    Busy,
    Cancelled,
    CofferError,
    Conflict,
    NoModel,
    Refused,
    StorageFailed,
    Unavailable,
    where,
)
from memory.services import stores
from transcripts.models import Distilled, KnownSession
from transcripts.readers import Source, Unreadable
from transcripts.services import catalogue, distilling, insights, ledger, listing
from transcripts.services.distilling import Report
from transcripts.services.homes import Home

log = logging.getLogger("transcripts.distill")
OUTAGE = 3  # calls in a row without an answer, after which a pass gives up
_LIMITLESS = 10**6
Progress = Callable[[int, int, str], None]  # sessions done, sessions in all, and the title of the one at hand


@dataclass(frozen=True)
class Job:
    """A session to distill."""

    home: Home
    session: KnownSession


@dataclass
class Result:
    """What a pass did; ``remaining`` sessions were not looked at because something ``stopped`` it, or time was up."""

    reports: list[Report] = field(default_factory=list)
    remaining: int = 0
    stopped: CofferError | None = None

    def counted(self, *outcomes: str) -> int:
        return sum(report.outcome in outcomes for report in self.reports)

    @property
    def insights(self) -> int:
        return sum(len(report.insights) for report in self.reports)

    @property
    def masked(self) -> Counter[str]:
        """Secrets that were taken out before anything was sent, by kind."""
        return sum((report.masked for report in self.reports), Counter())


@dataclass(frozen=True)
class Limits:
    """How far a pass goes: so many sessions that cost a call, so many seconds, so many windows of one session."""

    sessions: int = _LIMITLESS
    seconds: float = float("inf")
    windows: int = _LIMITLESS


@dataclass(frozen=True)
class Estimate:
    """What it would take: calls of the model, and about so many tokens to and from it; ``skipped`` by reason."""

    sessions: int
    calls: int
    tokens_in: int
    tokens_out: int
    skipped: Counter[str]


def chosen(
    homes: Sequence[Home], *, session_id: str = "", project: str = "", since: datetime | None = None
) -> list[Job]:
    """The sessions asked for, as their files are now, the latest first.

    Of copies with one id the longest counts. ``project`` is a folder: its sessions are those of the whole project that
    it belongs to. Raises NotFound for an id that no session has.
    """
    if session_id:
        return [Job(home, listing.find(home, session_id)) for home in homes]
    for home in homes:
        catalogue.refresh(home)
    wanted = _in_project(project) if project else None
    jobs = [Job(home, session) for home in homes for session in _of(home, since) if wanted is None or wanted(session)]
    return sorted(jobs, key=lambda job: job.session.active_at, reverse=True)


def check_model() -> None:
    """Raise NoModel, with what is missing, when no model may distill."""
    connections.key_of(connections.choose(distilling.PURPOSE))


def pending(jobs: Sequence[Job]) -> list[Job]:
    """Those that are neither done nor waiting after a failure."""
    now = timezone.now()
    rows = {(row.agent, row.session_id): row for row in Distilled.objects.all()}

    def is_pending(session: KnownSession) -> bool:
        row = rows.get((session.agent, session.session_id))
        return not ledger.is_done(session, row) and not ledger.waits(row, now)

    return [job for job in jobs if is_pending(job.session)]


def run(
    jobs: Sequence[Job], limits: Limits | None = None, *, dry_run: bool = False, progress: Progress | None = None
) -> Result:
    """Distill some sessions in this order. Never raises for them or the model; the result says what went wrong."""
    return _Pass(limits or Limits(), dry_run, progress).run(jobs)


def estimate(jobs: Sequence[Job], progress: Progress | None = None) -> Estimate:
    """What distilling would take, with nothing sent and nothing written."""
    skipped: Counter[str] = Counter()
    calls = tokens = sessions = 0
    for number, job, source in _each(jobs):
        if progress is not None:
            progress(number, len(jobs), job.session.shown_title or "")
        reason = _no_work(job, source)
        if reason or source is None:
            skipped[reason] += 1
            continue
        try:
            windows, _ = distilling.unread(job.home, job.session, source, _LIMITLESS)
        except Unreadable:
            skipped["it cannot be read"] += 1
            continue
        asked = [window for window in windows if window.text]
        sessions += bool(asked)
        calls += len(asked)
        tokens += sum(llm.estimate(insights.SYSTEM) + window.tokens for window in asked)
    if progress is not None:
        progress(len(jobs), len(jobs), "")
    return Estimate(sessions, calls, tokens, calls * _ANSWER_TOKENS, skipped)


class _Pass:
    """One pass as it goes."""

    def __init__(self, limits: Limits, dry_run: bool, progress: Progress | None) -> None:
        self._limits, self._dry_run, self._progress = limits, dry_run, progress
        self._until = time.monotonic() + limits.seconds
        self._result = Result()
        self._unanswered: list[Report] = []
        self._silent = 0
        self._cost = 0

    def run(self, jobs: Sequence[Job]) -> Result:
        for number, job, source in _each(jobs):
            if self._over():
                self._result.remaining = len(jobs) - number
                break
            if self._progress is not None:
                self._progress(number, len(jobs), job.session.shown_title or "")
            self._take(job, source)
        if self._progress is not None:
            self._progress(len(jobs), len(jobs), "")
        self._judge_silence()
        return self._result

    def _over(self) -> bool:
        spent = self._cost >= self._limits.sessions or time.monotonic() >= self._until
        return spent or self._result.stopped is not None

    def _take(self, job: Job, source: Source | None) -> None:
        windows = min(self._limits.windows, distilling.WINDOWS)
        report = distilling.distill(job.home, job.session, source, dry_run=self._dry_run, windows=windows)
        self._result.reports.append(report)
        while report.outcome == "partly" and windows < self._limits.windows and not self._dry_run and not self._over():
            more = distilling.distill(job.home, job.session, source, windows=distilling.WINDOWS)
            windows += distilling.WINDOWS
            _add(report, more)
        self._cost += bool(report.calls or report.error)
        if report.error is not None:
            self._trouble(report, report.error)
        elif report.calls:
            self._silent = 0

    def _trouble(self, report: Report, error: Exception) -> None:
        """Whether it is the session's fault, the endpoint's, or the end of the pass."""
        match error:
            case BudgetSpent() | NoModel() | Refused() | Cancelled() | StorageFailed():
                self._result.stopped, report.outcome, report.reason = error, "postponed", error.message
            case Unavailable() | Busy():
                report.outcome, report.reason = "postponed", error.message
                self._unanswered.append(report)
                self._silent += 1
                if self._silent == OUTAGE:
                    self._result.stopped = error
            case BadAnswer():
                self._silent = 0
                self._failed(report, error.message)
            case Unreadable():
                self._failed(report, error.message)
            case Conflict():
                report.outcome, report.reason = "postponed", error.message
            case DatabaseError() if db.locked(error):
                report.outcome, report.reason = "postponed", "another program is writing to Coffer's database"
            case _:
                log.error("session failed agent=%s error=%s", report.session.agent, where(error))
                self._failed(report, f"something went wrong inside ({where(error)})")

    def _failed(self, report: Report, reason: str) -> None:
        report.outcome, report.reason = "failed", reason
        if not self._dry_run:
            ledger.failed(report.session, reason)

    def _judge_silence(self) -> None:
        """While others were answered the endpoint was there: then it is the session that it cannot answer."""
        answered = any(report.calls and report.error is None for report in self._result.reports)
        if answered and self._result.stopped is None:
            for report in self._unanswered:
                self._failed(report, report.reason)


_ANSWER_TOKENS = 400  # about as long as a few insights


def _each(jobs: Sequence[Job]) -> Iterator[tuple[int, Job, Source | None]]:
    """The jobs with their sources as they are now, and a number from 0."""
    there: dict[str, dict[str, Source]] = {}
    for number, job in enumerate(jobs):
        if job.home.agent not in there:
            there[job.home.agent] = catalogue.sources(job.home)
        yield number, job, there[job.home.agent].get(job.session.source.place)


def _of(home: Home, since: datetime | None) -> list[KnownSession]:
    found = KnownSession.objects.filter(agent=home.agent, message_count__gt=0).select_related("source")
    if since is not None:
        found = found.filter(active_at__gte=since)
    longest: dict[str, KnownSession] = {}
    for session in found.order_by("message_count", "last_activity_at"):
        longest[session.session_id] = session
    return list(longest.values())


def _in_project(folder: str) -> Callable[[KnownSession], bool]:
    """Whether a session belongs to the project around a folder; of a folder outside of any, whether it began there."""

    @cache
    def store_at(path: str) -> str | None:
        project = stores.locate(path).project
        return project.store if project is not None else None

    wanted = store_at(folder)
    if wanted is None:
        return lambda session: session.project_path == os.path.normpath(folder)
    return lambda session: bool(session.project_path) and store_at(session.project_path or "") == wanted


def _no_work(job: Job, source: Source | None) -> str:
    """Why there is nothing to do for a session; empty when there may be."""
    if reason := distilling.outside(job.session, stores.locate(job.session.project_path)):
        return reason
    if ledger.is_done(job.session, ledger.row_of(job.session.agent, job.session.session_id)):
        return "already distilled"
    return "its file is gone" if source is None else ""


def _add(report: Report, more: Report) -> None:
    report.outcome = "distilled" if more.outcome == "nothing" and report.insights else more.outcome
    report.reason, report.error = more.reason, more.error
    report.insights += more.insights
    report.entries += more.entries
    report.known += more.known
    report.calls += more.calls
    report.tokens += more.tokens
    report.cut += more.cut
    report.masked += more.masked
