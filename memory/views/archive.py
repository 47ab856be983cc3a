"""The archive of a store: every version that was replaced or deleted, what changed since, and the way back."""

from dataclasses import dataclass
from pathlib import Path

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from memory.models import Store
from memory.render import render as html
from memory.services import browse, stores, superseded
from memory.services.archive import Superseded
from memory.services.browse import SHOWN, Line


@dataclass(frozen=True)
class Version:
    """One archived version beside what stands in its place now."""

    store: Store
    store_title: str
    line: Superseded
    path: Path
    html: SafeString
    current: bool
    diff: list[Line] | None


@require_safe
def listing(request: HttpRequest, name: str) -> HttpResponse:
    """Every archived version, newest first."""
    store = stores.get(name)
    found = browse.archive_of(store)
    context = {"store": store, "title": stores.display_name(store), "versions": found[:SHOWN], "total": len(found)}
    return render(request, "memory/archive.html", context)


@require_safe
def version(request: HttpRequest, name: str, file: str) -> HttpResponse:
    """One version, and what restoring it would change."""
    store = stores.get(name)
    text = superseded.read(store, file)
    line = next(line for line in superseded.listing(store) if line.file == file)
    current = browse.text_of(store, line.path)
    shown = Version(
        store=store,
        store_title=stores.display_name(store),
        line=line,
        path=stores.folder(store) / "superseded" / file,
        html=html(text, whole=reverse("text", args=[name, f"superseded/{file}"])),
        current=current is not None,
        diff=browse.compare(current, text) if current is not None else None,
    )
    return render(request, "memory/version.html", {"version": shown})


@require_POST
def restore(request: HttpRequest, name: str, file: str) -> HttpResponse:
    """Put a version back where it stood."""
    store = stores.get(name)
    line = next((line for line in superseded.listing(store) if line.file == file), None)
    replaced = line is not None and browse.text_of(store, line.path) is not None
    path = superseded.restore(store, file)
    also = " What stood there before is in the archive." if replaced else ""
    messages.success(request, f"Restored {path.name}.{also}")
    lane, ref = browse.place_of(store, path)
    if lane == "rules":
        return redirect("rules", name=name)
    view = {"journal": "day", "handoff": "scene"}.get(lane, "document")
    return redirect(reverse(view, args=[name, ref]))
