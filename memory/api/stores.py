"""REST routes of stores: what there is, how it is named, set up and measured."""

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema, Status

from coffer.rest import Name, StrictSchema
from memory.models import Store
from memory.services import counts, embedding, stores

router = Router(tags=["stores"])


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


class TrialOut(Schema):
    ok: bool
    message: str
    model: str
    ms: int
    dimension: int
    warnings: list[str]
    said: str


class MetricsOut(Schema):
    fact_count: int
    topic_count: int
    inbox_count: int
    journal_days: int
    disk_bytes: int
    last_write_at: datetime | None


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


@router.post("/memory_stores/{name}/embedding/test", response=TrialOut, summary="Try a store's embedding model")
def test_embedding(request: HttpRequest, name: Name) -> embedding.Trial:
    """Sends nothing of yours; a failure is an answer with `ok` false, `warnings` say what the model is unfit for."""
    return embedding.trial(stores.get(name))


@router.delete("/memory_stores/{name}", response={204: None}, summary="Move a project's store to retired/")
def retire_store(request: HttpRequest, name: Name) -> Status[None]:
    stores.retire(stores.get(name))
    return Status(204, None)


@router.patch("/memory_stores/{name}/label", response=StoreOut, summary="Name a store; blank clears the name")
def label_store(request: HttpRequest, name: Name, body: LabelIn) -> dict[str, Any]:
    return _store(stores.set_label(stores.get(name), body.label))


@router.get("/memory_stores/{name}/metrics", response=MetricsOut, summary="Counts and sizes as they are on disk")
def store_metrics(request: HttpRequest, name: Name) -> counts.Metrics:
    return counts.metrics(stores.get(name))


def _store(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "scope": stores.scope_of(store),
        "project_id": store.project_id,
        "project_root": store.project_root or None,
        "label": store.label or None,
        "display_name": stores.display_name(store),
        "store_dir": str(stores.folder(store)),
        "fact_count": counts.fact_count(store),
        "config": stores.config(store),
        "created_at": store.created_at,
        "updated_at": store.updated_at,
    }
