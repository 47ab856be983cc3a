"""REST routes of the engine: connections to models, their test, and the calls that were made."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Schema, Status
from pydantic import StringConstraints

from coffer import connections, llm
from coffer.rest import LedgerLimit, Moment, Name, Offset, StrictSchema, actor

router = Router(tags=["engine"])
Text = Annotated[str, StringConstraints(max_length=1000)]


class ConnectionIn(StrictSchema):
    name: Text
    base_url: Text
    model: Text
    key: Text = ""
    is_default: bool | None = None
    allow_organize: bool | None = None
    allow_distill: bool | None = None


class ConnectionPatch(StrictSchema):
    name: Text | None = None
    base_url: Text | None = None
    model: Text | None = None
    key: Text | None = None
    is_default: bool | None = None
    allow_organize: bool | None = None
    allow_distill: bool | None = None


class ConnectionOut(Schema):
    id: int
    name: str
    base_url: str
    model: str
    key: str
    key_found: bool
    is_default: bool
    in_use: bool
    local: bool
    allow_organize: bool
    allow_distill: bool
    json_mode: bool | None
    sends: dict[str, str]


class ConnectionList(Schema):
    llm_connections: list[ConnectionOut]
    total: int


class TrialOut(Schema):
    ok: bool
    outcome: str
    message: str
    model: str
    ms: int
    json_mode: bool | None
    said: str


class CallOut(Schema):
    purpose: str
    store: str
    connection: str
    model: str
    attempts: int
    tokens_in: int
    tokens_out: int
    ms: int
    outcome: str
    at: datetime


class CallList(Schema):
    llm_calls: list[CallOut]
    total: int


@router.get("/llm_connections", response=ConnectionList, summary="The models that may be asked")
def list_connections(request: HttpRequest) -> dict[str, Any]:
    """The one of the environment, if there is one, comes first and has the id 0."""
    found = connections.listing()
    return {"llm_connections": [connections.described(one) for one in found], "total": len(found)}


@router.post("/llm_connections", response={201: ConnectionOut}, summary="Save a connection to a model")
def add_connection(request: HttpRequest, body: ConnectionIn) -> Status[dict[str, Any]]:
    """The key is a reference: env:NAME, keyring:service/user, or nothing.

    An endpoint on another machine serves nothing but its test until `allow_organize` and `allow_distill` say so;
    `sends` has a sentence on each.
    """
    return Status(201, connections.described(connections.add(**body.dict(), actor=actor(request))))


@router.get("/llm_connections/{id}", response=ConnectionOut, summary="One connection")
def get_connection(request: HttpRequest, id: int) -> dict[str, Any]:
    return connections.described(connections.get(id))


@router.patch("/llm_connections/{id}", response=ConnectionOut, summary="Change a connection")
def change_connection(request: HttpRequest, id: int, body: ConnectionPatch) -> dict[str, Any]:
    """Another host has to be allowed anew."""
    return connections.described(connections.change(id, **body.dict(exclude_unset=True), actor=actor(request)))


@router.delete("/llm_connections/{id}", response={204: None}, summary="Forget a connection")
def remove_connection(request: HttpRequest, id: int) -> Status[None]:
    connections.remove(id, actor=actor(request))
    return Status(204, None)


@router.post("/llm_connections/{id}/test", response=TrialOut, summary="Call a connection once, to see what answers")
def test_connection(request: HttpRequest, id: int) -> llm.Trial:
    """Sends nothing of yours; a failure is an answer with `ok` false."""
    return llm.test(connections.get(id))


@router.get("/llm_calls", response=CallList, summary="Calls of models, newest first")
def list_calls(
    request: HttpRequest,
    purpose: Name = "",
    store: Name = "",
    connection: Name = "",
    model: Name = "",
    outcome: Name = "",
    since: Moment | None = None,
    limit: LedgerLimit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Sizes and outcomes only; nothing of what was sent or answered is kept."""
    filters = {"purpose": purpose, "store": store, "connection": connection, "model": model, "outcome": outcome}
    rows, total = llm.calls(since=since, limit=limit, offset=offset, **filters)
    return {"llm_calls": rows, "total": total}
