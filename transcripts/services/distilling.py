"""One session into the journal of its project: read on, ask window by window, write what is new (FR-045)."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from django.db import DatabaseError
from django.utils import timezone

from coffer import db, llm
from coffer.errors import Busy
from memory.models import Store
from memory.services import journal, known, passes, stores
from memory.services.journal import Entry
from memory.services.stores import Place
from transcripts.models import KnownSession
from transcripts.readers import Source
from transcripts.services import conversation, insights, ledger
from transcripts.services.conversation import Heard, Secrets, Window
from transcripts.services.homes import Home
from transcripts.services.insights import Insight

PURPOSE = "distill"
WINDOWS = 10  # of one session at a time; what is left comes with the next pass
_PATIENCE = 2.0  # seconds: a program started by another thread holds a lock that was given back until it runs
Outcome = Literal["distilled", "nothing", "partly", "done", "skipped", "postponed", "failed"]


@dataclass
class Report:
    """What came of one session; ``error`` is what ended it early.

    ``done``: nothing was said since it was distilled. ``postponed``: another pass is at work on its store.
    """

    session: KnownSession
    outcome: Outcome = "nothing"
    reason: str = ""
    store: str = ""
    insights: list[Insight] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    known: int = 0  # insights that memory had already
    calls: int = 0
    tokens: int = 0
    cut: int = 0  # turns of which only beginning and end were sent
    error: Exception | None = None
    masked: Counter[str] = field(default_factory=Counter)  # secrets taken out before, by kind

    @property
    def removed(self) -> list[tuple[str, int]]:
        """The same as pairs, the commonest kind first."""
        return self.masked.most_common()


def distill(
    home: Home, session: KnownSession, source: Source | None, *, dry_run: bool = False, windows: int = WINDOWS
) -> Report:
    """Distill what was said in a session since it was last done, at most so many windows of it.

    A dry run asks the model all the same, but writes nothing. Never raises for the session, its file or the model.
    """
    report = Report(session)
    try:
        _distill(home, report, source, dry_run=dry_run, most=windows)
    except Exception as error:
        if isinstance(error, DatabaseError) and db.damaged(error):
            raise
        report.outcome, report.error = "failed", error
    return report


def unread(home: Home, session: KnownSession, source: Source, windows: int) -> tuple[list[Window], bool]:
    """What there is to distill of a session, and whether there is more than so many windows. Raises Unreadable."""
    secrets = Secrets()
    done = ledger.progress_of(ledger.row_of(session.agent, session.session_id))
    with closing(conversation.unheard(lambda: home.reader.turns(source, session.session_id), done, secrets)) as turns:
        heard: list[Heard] = []
        room = windows * conversation.WINDOW_TOKENS
        for one in turns:
            room -= conversation.tokens(one.turn)
            if room < 0 and heard:
                return conversation.windows(heard, secrets), True
            heard.append(one)
    return conversation.windows(heard, secrets), False


def outside(session: KnownSession, place: Place) -> str:
    """Why a session belongs to no project here; empty when it does."""
    if place.project is not None and place.repository is not None:
        return ""
    path = session.project_path
    if not path:
        return "it records no working directory"
    there = os.path.isabs(path) and os.path.isdir(path)
    return place.reason if there else f"path is not on this machine: {path}"


def _distill(home: Home, report: Report, source: Source | None, *, dry_run: bool, most: int) -> None:
    session = report.session
    place = stores.locate(session.project_path)
    if reason := outside(session, place):
        report.outcome, report.reason = "skipped", reason
        return
    assert place.project is not None  # noqa: S101 - else it is outside
    report.store = place.project.store
    with ExitStack() as held:
        try:
            if not dry_run:
                held.enter_context(passes.alone(Store(name=report.store), seconds=_PATIENCE))
        except Busy as error:
            report.outcome, report.reason = "postponed", error.message
            return
        if ledger.is_done(session, ledger.row_of(session.agent, session.session_id)):
            report.outcome, report.reason = "done", "already distilled"
            return
        if source is None:
            report.outcome, report.reason = "skipped", "its file is gone"
            return
        found, more = unread(home, session, source, most)
        for window in found:
            _window(report, place, window, dry_run=dry_run)
        report.outcome = "partly" if more else "distilled" if report.insights else "nothing"
        if not dry_run and not more:
            ledger.finish(session)


def _window(report: Report, place: Place, window: Window, *, dry_run: bool) -> None:
    """One question to the model; only once its answer is written does the ledger go on."""
    new = _asked(report, place, window) if window.text else []
    if not dry_run:
        written = _written(report, place, window, new)
        report.entries += written
        ledger.advance(report.session, report.store, window.progress, window.turns, len(written))
    report.insights += new
    report.masked += window.masked
    report.cut += window.cut


def _asked(report: Report, place: Place, window: Window) -> list[Insight]:
    """The insights of a window that memory does not have."""
    answer = llm.complete_json(
        PURPOSE,
        system=insights.SYSTEM,
        user=insights.question(window.text),
        required=insights.FIELDS,
        store=report.store,
    )
    report.calls += 1
    report.tokens += answer.tokens_in + answer.tokens_out
    found = insights.checked(answer.data, window.text)
    new = _new(stores.for_reading(place, "project"), found, report.insights)
    report.known += len(found) - len(new)
    return new


def _new(there: Sequence[Store], found: Sequence[Insight], before: Sequence[Insight]) -> list[Insight]:
    new: list[Insight] = []
    for one in found:
        said_before = any(known.holds(other.text, one.body) for other in (*before, *new))
        if not said_before and not any(known.says(store, one.body) for store in there):
            new.append(one)
    return new


def _written(report: Report, place: Place, window: Window, new: Sequence[Insight]) -> list[Entry]:
    if not new:
        return []
    store = stores.for_writing(place, "project")
    at, session = _time(report.session, window), report.session
    entries = (
        journal.append(store, one.text, agent=session.agent, session=session.session_id, at=at, actor="agent")
        for one in new
    )
    return [entry for entry in entries if entry is not None]


def _time(session: KnownSession, window: Window) -> datetime:
    """When it was said; a clock that went wrong does not write into a day to come."""
    now = timezone.now()
    return min(window.at if window.at is not None and window.at <= now else session.active_at, now)
