"""REST routes of memory: resolve the store, call one service, shape the answer."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema, Status
from pydantic import ConfigDict, StringConstraints

from memory.models import Store
from memory.services import facts, recall, stores

router = Router(tags=["memory"])


class StrictSchema(Schema):
    """A body in which a misspelt key is an error, not a silent default."""

    model_config = ConfigDict(extra="forbid")


class Config(Schema):
    max_fact_chars: int
    retrieval: Literal["keyword", "hybrid"]
    embedding: dict[str, Any] | None


class StoreOut(Schema):
    name: str
    scope: Literal["global", "project"]
    project_id: str
    project_root: str | None
    label: str | None
    display_name: str
    store_dir: str
    fact_count: int
    config: Config
    created_at: datetime
    updated_at: datetime


class StoreList(Schema):
    memory_stores: list[StoreOut]
    total: int


class LabelIn(StrictSchema):
    label: str


class ConfigIn(StrictSchema):
    max_fact_chars: int | None = None
    retrieval: Literal["keyword", "hybrid"] | None = None
    embedding: dict[str, Any] | None = None


class MetricsOut(Schema):
    fact_count: int
    topic_count: int
    inbox_count: int
    journal_days: int
    disk_bytes: int
    last_write_at: datetime | None


class FactIn(StrictSchema):
    text: str
    title: str = ""
    description: str = ""


class FactChange(StrictSchema):
    text: str | None = None
    title: str | None = None
    description: str | None = None
    if_sha256: str | None = None


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


Name = Annotated[str, StringConstraints(max_length=200)]


@router.get("/memory_stores", response=StoreList, summary="Every store, global first")
def list_stores(request: HttpRequest) -> dict[str, Any]:
    found = [_store(store) for store in stores.all_stores()]
    return {"memory_stores": found, "total": len(found)}


@router.get("/memory_stores/{name}", response=StoreOut, summary="One store")
def get_store(request: HttpRequest, name: Name) -> dict[str, Any]:
    return _store(stores.get(name))


@router.patch("/memory_stores/{name}", response=StoreOut, summary="Change a store's settings")
def configure_store(request: HttpRequest, name: Name, body: ConfigIn) -> dict[str, Any]:
    return _store(stores.configure(stores.get(name), body.dict(exclude_unset=True)))


@router.delete("/memory_stores/{name}", response={204: None}, summary="Move a project's store to retired/")
def retire_store(request: HttpRequest, name: Name) -> Status[None]:
    stores.retire(stores.get(name))
    return Status(204, None)


@router.patch("/memory_stores/{name}/label", response=StoreOut, summary="Name a store; blank clears the name")
def label_store(request: HttpRequest, name: Name, body: LabelIn) -> dict[str, Any]:
    return _store(stores.set_label(stores.get(name), body.label))


@router.get("/memory_stores/{name}/metrics", response=MetricsOut, summary="Counts and sizes as they are on disk")
def store_metrics(request: HttpRequest, name: Name) -> stores.Metrics:
    return stores.metrics(stores.get(name))


@router.get("/memory_stores/{name}/facts", response=FactList, summary="Facts and topics, newest first")
def list_facts(
    request: HttpRequest,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    found, total = facts.page(stores.get(name), limit=limit, offset=offset)
    return {"facts": [_fact(fact) for fact in found], "total": total}


@router.post("/memory_stores/{name}/facts", response={201: FactOut}, summary="Add a fact")
def add_fact(request: HttpRequest, name: Name, body: FactIn) -> Status[dict[str, Any]]:
    """A well-formed project name that has no store yet gets one by this first write."""
    store = stores.provision(name)
    fact = facts.add(store, body.text, actor=_actor(request), title=body.title, description=body.description)
    return Status(201, _fact(fact))


@router.delete("/memory_stores/{name}/facts", response=Cleared, summary="Archive every fact and topic of the store")
def clear_facts(request: HttpRequest, name: Name) -> dict[str, int]:
    return {"cleared": facts.clear(stores.get(name), actor=_actor(request))}


@router.get("/memory_stores/{name}/facts/{fact_id}", response=FactOut, summary="One fact or topic")
def get_fact(request: HttpRequest, name: Name, fact_id: str) -> dict[str, Any]:
    return _fact(facts.get(stores.get(name), fact_id))


@router.patch("/memory_stores/{name}/facts/{fact_id}", response=FactOut, summary="Correct a fact or topic")
def edit_fact(request: HttpRequest, name: Name, fact_id: str, body: FactChange) -> dict[str, Any]:
    return _fact(facts.edit(stores.get(name), fact_id, **body.dict(), actor=_actor(request)))


@router.delete("/memory_stores/{name}/facts/{fact_id}", response={204: None}, summary="Archive or erase one")
def delete_fact(request: HttpRequest, name: Name, fact_id: str, forever: bool = False) -> Status[None]:
    facts.delete(stores.get(name), fact_id, forever=forever, actor=_actor(request))
    return Status(204, None)


@router.post("/memory_stores/{name}/recall", response=RecallOut, summary="What an agent would be told")
def recall_facts(request: HttpRequest, name: Name, body: RecallIn) -> dict[str, Any]:
    store = stores.get(name)
    hits = recall.recall(stores.with_scope(store, body.scope), body.query, top_k=body.top_k)
    return {"hits": [hit.as_dict() for hit in hits], "project": _project(store)}


def _store(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "scope": stores.scope_of(store),
        "project_id": store.project_id,
        "project_root": store.project_root or None,
        "label": store.label or None,
        "display_name": stores.display_name(store),
        "store_dir": str(stores.folder(store)),
        "fact_count": stores.fact_count(store),
        "config": stores.config(store),
        "created_at": store.created_at,
        "updated_at": store.updated_at,
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


def _actor(request: HttpRequest) -> facts.Actor:
    return "agent" if request.headers.get("X-Coffer-Actor", "").strip().lower() == "agent" else "user"
