"""REST routes of the knowledge lane: facts and topics, and what recall tells of them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema, Status

from coffer.rest import Name, Offset, StrictSchema, actor
from memory.models import Store
from memory.services import facts, moves, recall, stores

router = Router(tags=["knowledge"])


class FactIn(StrictSchema):
    text: str
    title: str = ""
    description: str = ""


class FactChange(StrictSchema):
    text: str | None = None
    title: str | None = None
    description: str | None = None
    if_sha256: str | None = None


class MoveIn(StrictSchema):
    to: Name


class FactOut(Schema):
    id: str
    kind: Literal["fact", "topic"]
    title: str
    description: str
    text: str
    metadata: dict[str, str]
    created_at: datetime | None
    updated_at: datetime
    sha256: str
    path: str
    folder_path: str
    problem: str | None


class FactList(Schema):
    facts: list[FactOut]
    total: int


class Cleared(Schema):
    cleared: int


class RecallIn(StrictSchema):
    query: str
    scope: Literal["project", "global", "both"] = "both"
    top_k: Annotated[int, Field(strict=True, ge=1, le=recall.MAX_TOP_K)] = recall.DEFAULT_TOP_K
    explain: bool = False


class HitOut(Schema):
    id: str
    text: str
    score: float
    source: str
    time: datetime


class ProjectOut(Schema):
    store: str
    name: str
    root: str | None


class RecallOut(Schema):
    hits: list[HitOut]
    project: ProjectOut | None


class StandingOut(Schema):
    place: int
    score: float


class CandidateOut(Schema):
    store: str
    id: str
    title: str
    score: float
    words: StandingOut | None
    meaning: StandingOut | None
    weight: float
    outcome: str


class ReadingOut(Schema):
    asked: list[str]
    repaired: dict[str, str]
    translations: list[str]
    unknown: list[str]


class ExplanationOut(Schema):
    reading: ReadingOut
    candidates: list[CandidateOut]
    found: int
    models: list[str]
    notes: list[str]
    on_disk: int


class ExplainedOut(RecallOut):
    explanation: ExplanationOut


@router.get("/memory_stores/{name}/facts", response=FactList, summary="Facts and topics, newest first")
def list_facts(
    request: HttpRequest,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    found, total = facts.page(stores.get(name), limit=limit, offset=offset)
    return {"facts": [_fact(fact) for fact in found], "total": total}


@router.post("/memory_stores/{name}/facts", response={201: FactOut}, summary="Add a fact")
def add_fact(request: HttpRequest, name: Name, body: FactIn) -> Status[dict[str, Any]]:
    """A well-formed project name that has no store yet gets one by this first write."""
    fact = facts.add_to(name, body.text, actor=actor(request), title=body.title, description=body.description)
    return Status(201, _fact(fact))


@router.delete("/memory_stores/{name}/facts", response=Cleared, summary="Archive every fact and topic of the store")
def clear_facts(request: HttpRequest, name: Name) -> dict[str, int]:
    return {"cleared": facts.clear(stores.get(name), actor=actor(request))}


@router.get("/memory_stores/{name}/facts/{fact_id}", response=FactOut, summary="One fact or topic")
def get_fact(request: HttpRequest, name: Name, fact_id: str) -> dict[str, Any]:
    return _fact(facts.get(stores.get(name), fact_id))


@router.patch("/memory_stores/{name}/facts/{fact_id}", response=FactOut, summary="Correct a fact or topic")
def edit_fact(request: HttpRequest, name: Name, fact_id: str, body: FactChange) -> dict[str, Any]:
    return _fact(facts.edit(stores.get(name), fact_id, **body.dict(), actor=actor(request)))


@router.delete("/memory_stores/{name}/facts/{fact_id}", response={204: None}, summary="Archive or erase one")
def delete_fact(request: HttpRequest, name: Name, fact_id: str, forever: bool = False) -> Status[None]:
    facts.delete(stores.get(name), fact_id, forever=forever, actor=actor(request))
    return Status(204, None)


@router.post("/memory_stores/{name}/facts/{fact_id}/move", response=FactOut, summary="Move one to another store")
def move_fact(request: HttpRequest, name: Name, fact_id: str, body: MoveIn) -> dict[str, Any]:
    """It keeps its id; the file here is archived."""
    return _fact(moves.move(stores.get(name), fact_id, stores.get(body.to), actor=actor(request)))


@router.post("/memory_stores/{name}/recall", response=ExplainedOut | RecallOut, summary="What an agent would be told")
def recall_facts(request: HttpRequest, name: Name, body: RecallIn) -> dict[str, Any]:
    """With `explain` also why: the words as they were understood, and how each document stands in each list."""
    store = stores.get(name)
    searched = stores.with_scope(store, body.scope)
    if not body.explain:
        hits = recall.recall(searched, body.query, top_k=body.top_k)
        return {"hits": [hit.as_dict() for hit in hits], "project": _project(store)}
    hits, explanation = recall.explain(searched, body.query, top_k=body.top_k, counted=True)
    return {
        "hits": [hit.as_dict() for hit in hits],
        "project": _project(store),
        "explanation": explanation.as_dict(),
    }


def _fact(fact: facts.Fact) -> dict[str, Any]:
    return {
        **vars(fact),
        "path": str(fact.path),
        "folder_path": str(fact.folder_path),
        "problem": fact.problem or None,
    }


def _project(store: Store) -> dict[str, Any] | None:
    if stores.scope_of(store) == "global":
        return None
    return {"store": store.name, "name": stores.display_name(store), "root": store.project_root or None}
