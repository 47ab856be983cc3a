"""REST routes of agents: which there are, how they are switched, what was delivered to them."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from agents.models import Agent
from agents.services import deliveries, registration
from agents.services.places import kind_of
from coffer.rest import LedgerLimit, Name, Offset, StrictSchema, actor

router = Router(tags=["agents"])


class AgentOut(Schema):
    name: str
    type: str
    title: str
    folder: str
    disable_native_memory: bool
    prompt_context: bool
    created_at: datetime


class AgentList(Schema):
    agents: list[AgentOut]
    total: int


class AgentIn(StrictSchema):
    type: Name
    name: Name = ""


class SwitchesIn(StrictSchema):
    disable_native_memory: bool | None = None
    prompt_context: bool | None = None


class DeliveryOut(Schema):
    event: str
    session: str
    project: str
    bytes: int
    items: int
    ms: float
    outcome: str
    at: datetime


class DeliveryList(Schema):
    deliveries: list[DeliveryOut]
    total: int


@router.get("/agents", response=AgentList, summary="Every known agent")
def list_agents(request: HttpRequest) -> dict[str, Any]:
    found = [_agent(agent) for agent in registration.listing()]
    return {"agents": found, "total": len(found)}


@router.post("/agents", response={201: AgentOut}, summary="Register an agent")
def add_agent(request: HttpRequest, body: AgentIn) -> Status[dict[str, Any]]:
    """By the name of its kind unless another is given; connecting it is another step."""
    return Status(201, _agent(registration.add(body.type, name=body.name)))


@router.get("/agents/{name}", response=AgentOut, summary="One agent")
def get_agent(request: HttpRequest, name: Name) -> dict[str, Any]:
    return _agent(registration.get(name))


@router.patch("/agents/{name}", response=AgentOut, summary="Switch an agent's own memory, or context beside prompts")
def switch_agent(request: HttpRequest, name: Name, body: SwitchesIn) -> dict[str, Any]:
    """What is left out stays as it is."""
    return _agent(registration.change(name, **body.dict(), actor=actor(request)))


@router.delete("/agents/{name}", response={204: None}, summary="Disconnect and forget an agent")
def remove_agent(request: HttpRequest, name: Name) -> Status[None]:
    registration.remove(name, actor=actor(request))
    return Status(204, None)


@router.get("/agents/{name}/deliveries", response=DeliveryList, summary="What reached an agent, newest first")
def list_deliveries(request: HttpRequest, name: Name, limit: LedgerLimit = 100, offset: Offset = 0) -> dict[str, Any]:
    """Sizes and times only; what was delivered is kept nowhere."""
    rows, total = deliveries.page(registration.get(name).name, limit=limit, offset=offset)
    return {"deliveries": rows, "total": total}


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "type": agent.type,
        "title": kind_of(agent.type).title,
        "folder": agent.folder,
        "disable_native_memory": agent.disable_native_memory,
        "prompt_context": agent.prompt_context,
        "created_at": agent.created_at,
    }
