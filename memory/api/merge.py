"""REST routes of merging: find stores that are one project, join them, take it back (FR-056..059)."""

from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema

from coffer.rest import StrictSchema, actor
from memory.services import apart, merge, merge_scan, merge_undo, stores

router = Router(tags=["merging"])


class ProposalOut(Schema):
    source: str
    source_name: str
    target: str  # the one that should survive
    target_name: str
    confidence: str
    judged_by: Literal["remote", "checkout", "engine"]
    reason: str


class PairOut(Schema):
    one: str
    other: str


class ApartOut(PairOut):
    told_apart: bool


class ScanOut(Schema):
    proposals: list[ProposalOut]
    total: int
    engine: Literal["ok", "no_model", "budget", "unavailable"]
    judged: int
    truncated: bool
    told_apart: list[PairOut]  # not proposed, as a person said


class ApartIn(StrictSchema):
    one: str
    other: str
    undo: bool = False


class MergeIn(StrictSchema):
    source: str
    target: str
    organize: bool = True
    dry_run: bool = False


class StepOut(Schema):
    path: str
    to: str
    did: Literal["added", "same", "renamed", "joined", "left"]
    why: str


class MergeOut(Schema):
    source: str
    target: str
    dry_run: bool
    files: dict[str, int]
    reorg_status: str
    retired_dir: str | None
    plan: list[StepOut]


class UndoIn(StrictSchema):
    source: str
    dry_run: bool = False


class KeptOut(Schema):
    path: str
    why: str


class UndoOut(Schema):
    source: str
    target: str
    dry_run: bool
    removed: list[str]
    parted: list[str]
    kept: list[KeptOut]
    since: list[str]


@router.post("/memory_stores/merge_scan", response=ScanOut, summary="Stores that may be one project")
def scan_stores(request: HttpRequest) -> dict[str, Any]:
    """Changes nothing. Without a model only what origins and folders say is proposed."""
    found = merge_scan.scan()
    names = {store.name: stores.display_name(store) for store in stores.all_stores()}
    rows = [
        {**vars(one), "source_name": names.get(one.source, ""), "target_name": names.get(one.target, "")}
        for one in found.proposals
    ]
    apart_ones = [{"one": one, "other": other} for one, other in found.told_apart]
    return {**vars(found), "proposals": rows, "total": len(rows), "told_apart": apart_ones}


@router.post("/memory_stores/merge/not_same", response=ApartOut, summary="Tell two stores apart, or take that back")
def tell_apart(request: HttpRequest, body: ApartIn) -> dict[str, Any]:
    """Two stores that are told apart are neither proposed nor adopted as one; a merge that names them joins them."""
    apart.tell(stores.get(body.one), stores.get(body.other), undo=body.undo, actor=actor(request))
    return {"one": body.one, "other": body.other, "told_apart": not body.undo}


@router.post("/memory_stores/merge", response=MergeOut, summary="Make one store part of another")
def merge_stores(request: HttpRequest, body: MergeIn) -> dict[str, Any]:
    """With `dry_run` the answer lists what would become of every file, and nothing is done."""
    answer: dict[str, Any] = {"source": body.source, "target": body.target, "dry_run": body.dry_run, "plan": []}
    if body.dry_run:
        plan = merge.preview(body.source, body.target)
        return {**answer, "files": plan.counts, "reorg_status": "skipped", "retired_dir": None, "plan": plan.steps}
    done = merge.merge(body.source, body.target, organize=body.organize, actor=actor(request))
    return {**answer, "files": done.counts, "reorg_status": done.reorg_status, "retired_dir": str(done.retired)}


@router.post("/memory_stores/merge/undo", response=UndoOut, summary="Take back the last merge of a store")
def undo_merge(request: HttpRequest, body: UndoIn) -> dict[str, Any]:
    """What was changed or written since stays in the target, and is listed."""
    found = merge_undo.preview(body.source) if body.dry_run else merge_undo.undo(body.source, actor=actor(request))
    kept = [{"path": path, "why": why} for path, why in found.kept]
    return {**vars(found), "kept": kept, "dry_run": body.dry_run}
