"""REST routes of an agent's hooks: how they are, install, uninstall (FR-049)."""

from datetime import datetime

from django.http import HttpRequest
from ninja import Router, Schema

from agents.services import hooks, registration
from agents.services.hooks import HookStatus
from coffer.rest import Name, actor

router = Router(tags=["agents"])


class HookOut(Schema):
    installed: bool
    command: str
    supported: bool
    trusted: bool | None
    last_fired_at: datetime | None
    problems: list[str]


@router.get("/agents/{name}/hook-install", response=HookOut, summary="How an agent's hooks are")
def show_hooks(request: HttpRequest, name: Name) -> HookStatus:
    """``trusted`` is null for agents that ask for no trust, and where it is not known."""
    return hooks.status(registration.get(name))


@router.post("/agents/{name}/hook-install", response=HookOut, summary="Install an agent's hooks")
def install_hooks(request: HttpRequest, name: Name) -> HookStatus:
    return hooks.install(registration.get(name), actor=actor(request))


@router.delete("/agents/{name}/hook-install", response=HookOut, summary="Uninstall an agent's hooks")
def uninstall_hooks(request: HttpRequest, name: Name) -> HookStatus:
    """Its own memory is given back too."""
    return hooks.uninstall(registration.get(name), actor=actor(request))
