"""REST routes of the other lanes: rules, journal, handoff, the consolidation log and the archive (FR-036, FR-054).

Reads of a store that exists answer 200 with nothing in it when there is nothing.
"""

from pathlib import Path
from typing import Any

from django.http import HttpRequest
from ninja import Router, Schema, Status

from coffer.rest import Name, Ref, actor
from memory.services import changelog, handoff, journal, rules, stores, superseded

router = Router(tags=["lanes"])


class RuleOut(Schema):
    id: str
    text: str
    path: str
    origin: str
    new: bool


class RulesOut(Schema):
    text: str | None
    rules: list[RuleOut]


class DayOut(Schema):
    period: str
    text: str
    path: str
    folder_path: str


class JournalOut(Schema):
    files: list[DayOut]
    total: int


class SceneOut(Schema):
    branch: str
    slug: str
    text: str
    updated_at: str | None
    path: str
    folder_path: str


class HandoffOut(Schema):
    scenes: list[SceneOut]
    total: int


class ChangelogOut(Schema):
    text: str | None
    path: str
    folder_path: str


class SupersededOut(Schema):
    file: str
    lane: str
    path: str  # where it stood, within the store
    why: str
    when: str
    archived_path: str


class SupersededList(Schema):
    superseded: list[SupersededOut]
    total: int


class Place(Schema):
    path: str
    folder_path: str


@router.get("/memory_stores/{name}/rules", response=RulesOut, summary="The rules as they are written, and one by one")
def list_rules(request: HttpRequest, name: Name) -> dict[str, Any]:
    store = stores.get(name)
    return {"text": rules.text(store), "rules": [_rule(rule) for rule in rules.listing(store)]}


@router.post("/memory_stores/{name}/rules/{rule_id}/keep", response=RuleOut, summary="Keep a rule that was new")
def keep_rule(request: HttpRequest, name: Name, rule_id: Ref) -> dict[str, Any]:
    return _rule(rules.keep(stores.get(name), rule_id, actor=actor(request)))


@router.delete("/memory_stores/{name}/rules/{rule_id}", response={204: None}, summary="Remove a rule")
def remove_rule(request: HttpRequest, name: Name, rule_id: Ref) -> Status[None]:
    rules.remove(stores.get(name), rule_id, actor=actor(request))
    return Status(204, None)


@router.get("/memory_stores/{name}/journal", response=JournalOut, summary="The journal, newest day first")
def list_days(request: HttpRequest, name: Name) -> dict[str, Any]:
    days = [_with_place(day) for day in journal.days(stores.get(name))]
    return {"files": days, "total": len(days)}


@router.delete("/memory_stores/{name}/journal/{period}", response={204: None}, summary="Archive a journal day")
def remove_day(request: HttpRequest, name: Name, period: Ref) -> Status[None]:
    journal.remove(stores.get(name), period, actor=actor(request))
    return Status(204, None)


@router.get("/memory_stores/{name}/handoff", response=HandoffOut, summary="The working state of each branch")
def list_scenes(request: HttpRequest, name: Name) -> dict[str, Any]:
    scenes = [_with_place(scene) for scene in handoff.scenes(stores.get(name))]
    return {"scenes": scenes, "total": len(scenes)}


@router.delete("/memory_stores/{name}/handoff/{slug}", response={204: None}, summary="Archive a branch's handoff")
def remove_scene(request: HttpRequest, name: Name, slug: Ref) -> Status[None]:
    handoff.remove(stores.get(name), slug, actor=actor(request))
    return Status(204, None)


@router.get("/memory_stores/{name}/consolidation-log", response=ChangelogOut, summary="What the organizer did")
def read_changelog(request: HttpRequest, name: Name) -> dict[str, Any]:
    return _with_place(changelog.read(stores.get(name)))


@router.get("/memory_stores/{name}/superseded", response=SupersededList, summary="Archived versions, newest first")
def list_superseded(request: HttpRequest, name: Name) -> dict[str, Any]:
    store = stores.get(name)
    folder = superseded.folder(store)
    found = [{**vars(line), "archived_path": str(folder / line.file)} for line in superseded.listing(store)]
    return {"superseded": found, "total": len(found)}


@router.post("/memory_stores/{name}/superseded/{file}/restore", response=Place, summary="Put an archived version back")
def restore_superseded(request: HttpRequest, name: Name, file: Ref) -> dict[str, str]:
    return _place(superseded.restore(stores.get(name), file, actor=actor(request)))


def _rule(rule: rules.Rule) -> dict[str, Any]:
    return {**vars(rule), "path": str(rule.path)}


def _with_place(thing: journal.Day | handoff.Scene | changelog.Changelog) -> dict[str, Any]:
    return {**vars(thing), **_place(thing.path)}


def _place(path: Path) -> dict[str, str]:
    return {"path": str(path), "folder_path": str(path.parent)}
