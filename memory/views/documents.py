"""One document: a fact or topic, a journal day, a scene. Read here, corrected elsewhere, deleted with one question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from coffer.errors import MemoryNotFound
from coffer.text import sentence
from memory.files.journal import Said
from memory.files.markdown import timestamp
from memory.models import Store
from memory.render import LONGEST
from memory.render import render as html
from memory.services import browse, facts, handoff, journal, stores, uses
from memory.services.archive import Superseded
from memory.services.browse import Background


@dataclass(frozen=True)
class Document:
    """What the document page shows."""

    store: Store
    store_title: str
    lane: str
    kind: str
    id: str
    title: str
    path: Path
    delete_url: str
    html: SafeString | None = None
    entries: list[tuple[Said, SafeString]] = field(default_factory=list)
    left_out: int = 0  # entries
    text_url: str = ""
    description: str = ""
    actor: str = ""
    session: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    size: int = 0
    problem: str = ""
    correct_url: str = ""
    background: Background | None = None
    versions: list[Superseded] = field(default_factory=list)


@require_safe
def fact(request: HttpRequest, name: str, ref: str) -> HttpResponse:
    """A fact or topic, and all that is known of it."""
    store = stores.get(name)
    try:
        found = facts.get(store, ref)
    except MemoryNotFound:
        return _gone(request, store, ref)
    uses.count("opened", [(store.name, ref)])
    background = browse.background(store, ref, found.path)
    document = Document(
        store=store,
        store_title=stores.display_name(store),
        lane="knowledge",
        kind=found.kind,
        id=ref,
        title=found.title,
        path=found.path,
        delete_url=reverse("document-delete", args=[name, ref]),
        html=html(found.text, title=found.title, whole=_text_url(store, found.path)),
        description=found.description,
        actor=found.metadata["actor"],
        session=found.metadata["origin_session_id"],
        created_at=found.created_at,
        updated_at=found.updated_at,
        size=_size(found.path),
        problem=found.problem,
        correct_url=reverse("admin:memory_document_change", args=[name, ref]),
        background=background,
        versions=background.versions,
    )
    return render(request, "memory/document.html", {"document": document})


@require_safe
def day(request: HttpRequest, name: str, period: str) -> HttpResponse:
    """One day of the journal, entry by entry."""
    store = stores.get(name)
    found = next((one for one in journal.days(store) if one.period == period), None)
    if found is None:
        return _gone(request, store, period)
    entries = browse.entries(found.text)
    shown = _within(entries)
    text_url = _text_url(store, found.path)
    document = Document(
        store=store,
        store_title=stores.display_name(store),
        lane="journal",
        kind="journal day",
        id=period,
        title=period,
        path=found.path,
        delete_url=reverse("day-delete", args=[name, period]),
        entries=[(entry, html(entry.text, top=3, whole=text_url)) for entry in shown],
        left_out=len(entries) - len(shown),
        text_url=text_url,
        size=_size(found.path),
        versions=browse.versions(store, f"journal/{found.path.name}"),
    )
    return render(request, "memory/document.html", {"document": document})


@require_safe
def scene(request: HttpRequest, name: str, slug: str) -> HttpResponse:
    """What one agent left for the next on a branch."""
    store = stores.get(name)
    found = next((one for one in handoff.scenes(store) if one.slug == slug), None)
    if found is None:
        return _gone(request, store, slug)
    document = Document(
        store=store,
        store_title=stores.display_name(store),
        lane="handoff",
        kind="handoff",
        id=slug,
        title=found.branch,
        path=found.path,
        delete_url=reverse("scene-delete", args=[name, slug]),
        html=html(found.text, whole=_text_url(store, found.path)),
        updated_at=timestamp(found.updated_at),
        size=_size(found.path),
        versions=browse.versions(store, f"handoff/{found.path.name}"),
    )
    return render(request, "memory/document.html", {"document": document})


@require_http_methods(["GET", "HEAD", "POST"])
def delete_fact(request: HttpRequest, name: str, ref: str) -> HttpResponse:
    store = stores.get(name)
    try:
        title = facts.get(store, ref).title
        return _delete(request, store, title, "document", ref, lambda: facts.delete(store, ref))
    except MemoryNotFound:
        return _gone(request, store, ref)


@require_http_methods(["GET", "HEAD", "POST"])
def delete_day(request: HttpRequest, name: str, period: str) -> HttpResponse:
    store = stores.get(name)
    title = f"the journal of {period}"
    try:
        return _delete(request, store, title, "day", period, lambda: journal.remove(store, period))
    except MemoryNotFound:
        return _gone(request, store, period)


@require_http_methods(["GET", "HEAD", "POST"])
def delete_scene(request: HttpRequest, name: str, slug: str) -> HttpResponse:
    store = stores.get(name)
    branch = next((one.branch for one in handoff.scenes(store) if one.slug == slug), slug)
    try:
        return _delete(request, store, f"the handoff of {branch}", "scene", slug, lambda: handoff.remove(store, slug))
    except MemoryNotFound:
        return _gone(request, store, slug)


def _delete(
    request: HttpRequest, store: Store, title: str, view: str, ref: str, delete: Callable[[], object]
) -> HttpResponse:
    """Ask once, naming the thing; on yes delete it and say where it can be had back."""
    if request.method == "POST":
        delete()
        messages.success(request, f"Deleted: {sentence(title)} Its last version is the first in the archive below.")
        return redirect("archive", name=store.name)
    context = {"store": store, "store_title": stores.display_name(store), "title": title}
    return render(request, "memory/delete.html", {**context, "back": reverse(view, args=[store.name, ref])})


def _gone(request: HttpRequest, store: Store, ref: str) -> HttpResponse:
    """A page for what is not there (any more), with its archived versions."""
    context = {"store": store, "store_title": stores.display_name(store), "ref": ref}
    return render(request, "memory/gone.html", {**context, "versions": browse.archived(store, ref)}, status=404)


def _within(entries: Sequence[Said]) -> list[Said]:
    """The first entries, as many as a page can show; one at least."""
    sizes = accumulate(len(entry.text) for entry in entries)
    return [entry for entry, size in zip(entries, sizes, strict=True) if size <= LONGEST] or list(entries[:1])


def _text_url(store: Store, path: Path) -> str:
    return reverse("text", args=[store.name, path.relative_to(stores.folder(store)).as_posix()])


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
