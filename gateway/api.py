"""REST routes of the gateway: the calls that agents made."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema

from coffer.rest import LedgerLimit, Moment, Name, Offset
from gateway import invocations

router = Router(tags=["agents"])


class InvocationOut(Schema):
    tool: str
    agent: str
    session: str
    store: str
    outcome: str
    items: int
    ms: int
    at: datetime


class InvocationList(Schema):
    invocations: list[InvocationOut]
    total: int


@router.get("/invocations", response=InvocationList, summary="Tool calls of agents, newest first")
def list_invocations(
    request: HttpRequest,
    tool: Name = "",
    agent: Name = "",
    store: Name = "",
    outcome: Name = "",
    since: Moment | None = None,
    limit: LedgerLimit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    """No arguments and no answers: they are content."""
    filters = {"tool": tool, "agent": agent, "project": store, "outcome": outcome}
    rows, total = invocations.page(since=since, limit=limit, offset=offset, **filters)
    return {"invocations": [{**vars(row), "store": row.project} for row in rows], "total": total}
