"""REST routes of the engine's passes: now, with the answer, or queued."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema, Status

from coffer.rest import Name, actor
from memory import schedule
from memory.services import organize, reorg, stores
from memory.services import undo as undo_service
from memory.services.undo import Undone

router = Router(tags=["engine"])


class ProblemOut(Schema):
    id: str
    reason: str


class OrganizeOut(Schema):
    status: Literal["organized", "empty", "no_model", "budget", "busy"]
    topics_created: int
    topics_merged: int
    rules_appended: int
    appended: int
    drained: int
    skipped: int
    left_alone: int
    waiting: int
    model: str | None
    stopped: str | None
    run: str | None
    problems: list[ProblemOut]


class ReorgOut(Schema):
    status: Literal["reorganized", "empty", "no_model", "budget", "busy"]
    before: int
    after: int
    written: int
    superseded: int
    promoted: int
    refused: int
    skipped: int
    rules_moved: int
    steps: int
    model: str | None
    stopped: str | None
    run: str | None


class UndoneOut(Schema):
    notes: int
    topics: int
    rules: int
    kept: int


class Queued(Schema):
    status: Literal["queued"]


@router.post(
    "/memory_stores/{name}/organize",
    response={200: OrganizeOut, 202: Queued},
    summary="File the notes of the inbox under topics and rules",
)
def organize_store(request: HttpRequest, name: Name, wait: bool = True) -> Status[dict[str, Any]]:
    """Without a model nothing happens and nothing fails: the status is no_model."""
    store = stores.get(name)
    if not wait:
        schedule.queue(store.name, actor(request))
        return Status(202, {"status": "queued"})
    return Status(200, organize.organize(store, actor=actor(request)).as_dict())


@router.post(
    "/memory_stores/{name}/reorg",
    response={200: ReorgOut, 202: Queued},
    summary="Merge topics that overlap, and promote what recurs in the journal",
)
def reorganize_store(request: HttpRequest, name: Name, wait: bool = True) -> Status[dict[str, Any]]:
    """Without a model nothing happens and nothing fails: the status is no_model."""
    store = stores.get(name)
    if not wait:
        schedule.queue_reorg(store.name, actor(request))
        return Status(202, {"status": "queued"})
    return Status(200, reorg.reorganize(store, actor=actor(request)).as_dict())


@router.post("/memory_stores/{name}/passes/{run}/undo", response=UndoneOut, summary="Take a pass of either kind back")
def undo_pass(request: HttpRequest, name: Name, run: Name) -> Undone:
    """`run` is what the pass answered; what changed since stays, and is counted in `kept`."""
    return undo_service.undo(stores.get(name), run, actor=actor(request))
