"""The pages about past sessions: all of them, one with what came of it, and the past as a whole to distill."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import get_args
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from coffer import llm
from coffer.errors import NotFound
from memory.models import Store
from memory.services import stores
from transcripts.models import Distilled, KnownSession, Sweep
from transcripts.services import backfill, batch, homes, ledger, listing, reports, session_end
from transcripts.services.batch import Estimate, Limits, Result
from transcripts.services.distilling import PURPOSE
from transcripts.services.homes import Home
from transcripts.services.listing import Order, Page, Sort, Wanted

SHOWN = 100
SPANS = (
    ("", "any time"),
    ("1", "the last day"),
    ("7", "the last week"),
    ("30", "the last 30 days"),
    ("365", "the last year"),
)
SORTS = (
    ("last_activity_at desc", "last active first"),
    ("started_at desc", "newest first"),
    ("started_at asc", "oldest first"),
    ("message_count desc", "most messages first"),
    ("message_count asc", "fewest messages first"),
)
_PREVIEW = Limits(sessions=1, seconds=110)


@dataclass(frozen=True)
class Choice:
    """What was asked for, as it stands in the address."""

    agent: str
    q: str
    project: str
    days: str
    sort: str
    offset: int

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "Choice":
        days, sort = asked.get("days", ""), asked.get("sort", "")
        offset = asked.get("offset", "")
        return cls(
            asked.get("agent", ""),
            asked.get("q", "").strip(),
            asked.get("project", ""),
            days if days in dict(SPANS) else "",
            sort if sort in dict(SORTS) else SORTS[0][0],
            int(offset) if offset.isdecimal() and len(offset) < 10 else 0,
        )

    @property
    def since(self) -> datetime | None:
        return timezone.now() - timedelta(days=int(self.days)) if self.days else None

    @property
    def wanted(self) -> Wanted:
        key, _, order = self.sort.partition(" ")
        sort: Sort = next(one for one in get_args(Sort) if one == key)
        direction: Order = "asc" if order == "asc" else "desc"
        return Wanted(self.q, self.project, self.since, None, sort, direction, SHOWN, self.offset)

    @property
    def filtered(self) -> bool:
        return bool(self.agent or self.q or self.project or self.days)

    def query(self, **changes: str | int) -> str:
        """The same as a query string, with something else in places."""
        asked = {**vars(self), **changes}
        return urlencode({key: value for key, value in asked.items() if value and value != SORTS[0][0]})


@dataclass(frozen=True)
class Line:
    """One session of the list, and what came of it."""

    session: KnownSession
    agent: str
    row: Distilled | None
    url: str

    @property
    def state(self) -> str:
        return _state(self.session, self.row)


@dataclass(frozen=True)
class Sessions:
    """The list, and how to see others."""

    lines: list[Line]
    found: Page
    choice: Choice
    agents: list[tuple[str, str]]
    projects: list[tuple[str, int]]
    older: str
    newer: str
    last: Sweep | None
    model: str | None
    spans: Sequence[tuple[str, str]] = SPANS
    sorts: Sequence[tuple[str, str]] = SORTS


@dataclass(frozen=True)
class One:
    """A session's own page."""

    session: KnownSession
    agent: str
    title: str
    row: Distilled | None
    store: Store | None
    model: str | None
    result: Result | None = None

    @property
    def state(self) -> str:
        return _state(self.session, self.row)


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Every session of every agent, with filters that stand in the address."""
    choice = Choice.of(request.GET)
    every = homes.everywhere()
    chosen = [home for home in every if choice.agent in ("", home.agent)]
    found = listing.page(chosen, choice.wanted)
    titles = {home.agent: home.title for home in every}
    end = choice.offset + len(found.sessions)
    sessions = Sessions(
        lines=_lines(found.sessions, titles),
        found=found,
        choice=choice,
        agents=list(titles.items()),
        projects=listing.projects([home.agent for home in chosen]),
        older=choice.query(offset=end) if end < found.total else "",
        newer=choice.query(offset=max(0, choice.offset - SHOWN)) if choice.offset else "",
        last=Sweep.objects.first(),
        model=llm.model(PURPOSE),
    )
    return render(request, "transcripts/sessions.html", {"sessions": sessions})


@require_safe
def session(request: HttpRequest) -> HttpResponse:
    """One session: where it lies, what could not be read, and what was distilled of it."""
    home = homes.of(request.GET.get("agent", ""))
    return _page(request, home, listing.find(home, request.GET.get("id", "")))


@require_POST
def distill(request: HttpRequest) -> HttpResponse:
    """Hand one session to the background workers."""
    home = homes.of(request.POST.get("agent", ""))
    found = listing.find(home, request.POST.get("id", ""))
    session_end.queue(home.agent, found.session_id)
    messages.success(request, "The session will be distilled in the background; this page tells what came of it.")
    return redirect(_url(found))


@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """Ask the model what it would make of one session; nothing is written."""
    home = homes.of(request.POST.get("agent", ""))
    found = listing.find(home, request.POST.get("id", ""))
    batch.check_model()
    jobs = batch.chosen([home], session_id=found.session_id)
    return _page(request, home, found, batch.run(jobs, _PREVIEW, dry_run=True))


@require_http_methods(["GET", "HEAD", "POST"])
def past(request: HttpRequest) -> HttpResponse:
    """What distilling the chosen sessions would cost; on POST it is done in the background."""
    choice = Choice.of(request.POST if request.method == "POST" else request.GET)
    every = [home for home in homes.everywhere() if choice.agent in ("", home.agent)]
    if not every:
        raise NotFound("There are no sessions of such an agent; choose one of the list.")
    if request.method == "POST":
        batch.check_model()
        since = choice.since
        backfill.queue([home.agent for home in every], choice.project, since.isoformat() if since else "")
        messages.success(request, "The sessions will be distilled in the background; their list tells what came of it.")
        return redirect(f"{reverse('sessions')}?{choice.query()}")
    found = batch.estimate(batch.chosen(every, project=choice.project, since=choice.since))
    context = {
        "choice": choice,
        "agents": [home.title for home in every],
        "estimate": found,
        "told": reports.estimate(found),
        "model": llm.model(PURPOSE),
        "days": _days(found),
        "span": dict(SPANS)[choice.days],
    }
    return render(request, "transcripts/past.html", context)


def _page(request: HttpRequest, home: Home, found: KnownSession, result: Result | None = None) -> HttpResponse:
    row = ledger.row_of(found.agent, found.session_id)
    store = next((store for store in stores.all_stores() if row is not None and store.name == row.store), None)
    title = found.shown_title or "Session without a title"
    one = One(found, home.title, title, row, store, llm.model(PURPOSE), result)
    return render(request, "transcripts/session.html", {"one": one})


def _lines(sessions: Sequence[KnownSession], titles: Mapping[str, str]) -> list[Line]:
    ids = {session.session_id for session in sessions}
    rows = {(row.agent, row.session_id): row for row in Distilled.objects.filter(session_id__in=ids)}
    return [
        Line(one, titles.get(one.agent, one.agent), rows.get((one.agent, one.session_id)), _url(one))
        for one in sessions
    ]


def _url(found: KnownSession) -> str:
    return f"{reverse('session')}?{urlencode({'agent': found.agent, 'id': found.session_id})}"


def _state(found: KnownSession, row: Distilled | None) -> str:
    """What came of a session, in a few words."""
    if row is None:
        return "not distilled"
    if row.failures:
        return "given up" if row.failures >= ledger.GIVEN_UP else "failed"
    made = f"{row.insights} insight{'s' if row.insights != 1 else ''}" if row.insights else "nothing to keep"
    return made if ledger.is_done(found, row) else f"{made} so far"


def _days(found: Estimate) -> int:
    """How many days of budget it takes."""
    left = llm.remaining()
    tokens = (found.tokens_in + found.tokens_out) / max(1, left.limit_tokens)
    return max(1, -(-found.calls // max(1, left.limit_calls)), int(tokens) + 1)
