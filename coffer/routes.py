"""REST routes of the foundation: files in the person's editor, preferences, the audit trail."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Router, Schema
from pydantic import StringConstraints

from coffer import audit, desktop, preferences
from coffer.rest import LedgerLimit, Moment, Name, Offset, StrictSchema, actor

router = Router(tags=["machine"])
Path = Annotated[str, StringConstraints(min_length=1, max_length=8192)]


class PathIn(StrictSchema):
    path: Path
    editor: str | None = None


class RevealIn(StrictSchema):
    path: Path


class EditorOut(Schema):
    id: str
    name: str


class Opened(Schema):
    path: str
    editor: EditorOut


class Revealed(Schema):
    path: str
    folder_path: str


class EditorList(Schema):
    editors: list[EditorOut]
    total: int
    preferred: str


class Preferences(Schema):
    preferred_editor: str


class PreferencesIn(StrictSchema):
    preferred_editor: str | None = None


class AuditOut(Schema):
    event: str
    store: str
    ref: str
    actor: str
    counts: dict[str, int]
    at: datetime


class AuditList(Schema):
    audit: list[AuditOut]
    total: int


@router.post("/fs/open", response=Opened, summary="Open a file or folder of memory in an editor")
def open_file(request: HttpRequest, body: PathIn) -> dict[str, Any]:
    """In the editor of that id, else in the preferred one."""
    return {"path": body.path, "editor": desktop.open_file(body.path, editor=body.editor)}


@router.post("/fs/reveal", response=Revealed, summary="Show a file or folder of memory in the file manager")
def reveal(request: HttpRequest, body: RevealIn) -> dict[str, str]:
    return {"path": body.path, "folder_path": str(desktop.reveal(body.path))}


@router.get("/fs/editors", response=EditorList, summary="The editors of this machine")
def list_editors(request: HttpRequest) -> dict[str, Any]:
    found = desktop.editors()
    return {"editors": found, "total": len(found), "preferred": preferences.get("preferred_editor")}


@router.get("/preferences", response=Preferences, summary="What the person chose")
def get_preferences(request: HttpRequest) -> dict[str, str]:
    return preferences.all()


@router.patch("/preferences", response=Preferences, summary="Choose something else")
def set_preferences(request: HttpRequest, body: PreferencesIn) -> dict[str, str]:
    return preferences.update(body.dict(exclude_none=True), actor=actor(request))


@router.get("/audit", response=AuditList, summary="What was changed, by whom and when, newest first")
def list_audit(
    request: HttpRequest,
    event: Name = "",
    store: Name = "",
    actor: Name = "",
    since: Moment | None = None,
    limit: LedgerLimit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    rows, total = audit.page(event=event, store=store, actor=actor, since=since, limit=limit, offset=offset)
    return {"audit": rows, "total": total}
