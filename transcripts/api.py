"""REST routes of the sessions of agents: list them, distill them, and hear that one has ended."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema, Status
from pydantic import StringConstraints

from coffer.errors import Invalid
from coffer.rest import LedgerLimit, Moment, Name, Offset, Ref, StrictSchema
from transcripts.services import backfill, batch, homes, listing, reports, session_end
from transcripts.services.listing import Order, Sort, Wanted

router = Router(tags=["sessions"])
SECONDS = 600.0  # after which the rest is left to another call
Folder = Annotated[str, StringConstraints(max_length=8192)]
Words = Annotated[str, StringConstraints(max_length=1000)]


class SessionOut(Schema):
    session_id: str
    title: str | None
    project_path: str | None
    message_count: int
    started_at: datetime
    last_activity_at: datetime
    source_path: str


class ProblemOut(Schema):
    path: str
    reason: str


class SessionList(Schema):
    sessions: list[SessionOut]
    total: int
    limit: int
    offset: int
    problems: list[ProblemOut]


class DistillIn(StrictSchema):
    session_id: Ref = ""
    project_path: Folder = ""
    since: Moment | None = None
    dry_run: bool = False


class InsightOut(Schema):
    session_id: str
    name: str
    description: str
    body: str


class EntryOut(Schema):
    session_id: str
    id: str
    store: str
    period: str
    at: datetime


class SkippedOut(Schema):
    session_id: str
    reason: str


class DistillOut(Schema):
    insights: list[InsightOut]
    journal_entries: list[EntryOut]
    skipped: list[SkippedOut]
    masked: dict[str, int]
    known: int
    calls: int
    tokens: int
    remaining: int
    stopped: str | None


class Queued(Schema):
    status: Literal["queued"]


class EstimateOut(Schema):
    sessions: int
    calls: int
    tokens_in: int
    tokens_out: int
    skipped: dict[str, int]
    calls_left_today: int
    tokens_left_today: int


class SessionEndIn(StrictSchema):
    cwd: Folder = ""


class SessionEndOut(Schema):
    outcome: session_end.Outcome


@router.get("/agents/{name}/transcripts", response=SessionList, summary="The sessions of an agent")
def list_sessions(
    request: HttpRequest,
    name: Name,
    limit: LedgerLimit = 100,
    offset: Offset = 0,
    q: Words = "",
    project: Folder = "",
    started_after: Annotated[Moment | None, Query()] = None,
    started_before: Annotated[Moment | None, Query()] = None,
    sort: Sort = "last_activity_at",
    order: Order = "desc",
) -> dict[str, Any]:
    """Every word of q must stand in title or path; problems say what could not be read, and why."""
    wanted = Wanted(q, project, started_after, started_before, sort, order, limit, offset)
    found = listing.page([homes.of(name)], wanted)
    sessions = [listing.row(session) for session in found.sessions]
    return {
        "sessions": sessions, "total": found.total, "limit": limit, "offset": offset, "problems": found.problems,
    }  # fmt: skip


@router.post(
    "/agents/{name}/transcripts/distill",
    response={200: DistillOut, 202: Queued},
    summary="Distill sessions into the journals of their projects",
)
def distill_sessions(request: HttpRequest, name: Name, body: DistillIn, wait: bool = True) -> Status[dict[str, Any]]:
    """One session, those of a project, or all; a dry run asks the model and writes nothing."""
    if body.session_id and body.project_path:
        raise Invalid("Give session_id or project_path, not both.")
    home = homes.of(name)
    batch.check_model()
    if not wait and not body.dry_run:
        if body.session_id:
            session_end.queue(name, body.session_id)
        else:
            backfill.queue([name], body.project_path, body.since.isoformat() if body.since else "")
        return Status(202, {"status": "queued"})
    jobs = batch.chosen([home], session_id=body.session_id, project=body.project_path, since=body.since)
    result = batch.run(jobs, batch.Limits(seconds=SECONDS), dry_run=body.dry_run)
    return Status(200, reports.as_dict(result))


@router.get("/agents/{name}/transcripts/estimate", response=EstimateOut, summary="What distilling would cost")
def estimate(
    request: HttpRequest, name: Name, project_path: Folder = "", since: Annotated[Moment | None, Query()] = None
) -> dict[str, Any]:
    """Nothing is sent for it."""
    return reports.estimate(batch.estimate(batch.chosen([homes.of(name)], project=project_path, since=since)))


@router.post("/agents/{name}/sessions/{session_id}/end", response=SessionEndOut, summary="Say that a session has ended")
def end_session(request: HttpRequest, name: Name, session_id: Ref, body: SessionEndIn) -> dict[str, str]:
    """Answers at once; what comes of it is done later."""
    return {"outcome": session_end.take(name, session_id, cwd=body.cwd)}
