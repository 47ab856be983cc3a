"""Stores that may be one project, side by side with the evidence: joined, and taken apart again."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse

from coffer.errors import Invalid
from memory.admin.base import ServiceAdmin
from memory.models import Store
from memory.services import aliases, apart, browse, facts, merge, merge_record, merge_scan, merge_undo, stores
from memory.services.aliases import Alias
from memory.services.browse import Counts
from memory.services.facts import Summary
from memory.services.merge_scan import Proposal

SHOWN_FILES, SHOWN_TITLES = 200, 15


@dataclass(frozen=True)
class Shown:
    """A proposal with the readable names of both stores."""

    proposal: Proposal
    source: str
    target: str


@dataclass(frozen=True)
class Half:
    """One store of a pair."""

    store: Store
    title: str
    folder: Path
    counts: Counts
    aliases: list[Alias]
    newest: list[Summary]
    total: int


def pages(admin: ServiceAdmin) -> list[URLPattern]:
    """The pages, for the admin of stores."""
    return [
        path("merge/", admin.guarded(partial(_scan_page, admin), admin.list_url), name="memory_store_merges"),
        path("merge/pair/", admin.guarded(partial(_pair_page, admin), _url), name="memory_store_merge_pair"),
        path("merge/apart/", admin.guarded(partial(_tell_apart, admin), _url), name="memory_store_merge_apart"),
        path("merge/undo/", admin.guarded(partial(_undo_page, admin), _url), name="memory_store_merge_undo"),
    ]


def _scan_page(admin: ServiceAdmin, request: HttpRequest) -> HttpResponse:
    """What looks like one project, and the merges that can be taken back."""
    names = {store.name: stores.display_name(store) for store in stores.all_stores()}
    found = merge_scan.scan(engine=False)
    rows = [Shown(one, names.get(one.source, ""), names.get(one.target, "")) for one in found.proposals]
    done = [record.about for record in merge_record.retired(lambda about: about.target in names)]
    told_apart = [((one, names.get(one, "")), (other, names.get(other, ""))) for one, other in found.told_apart]
    merged = [(about, names[about.target]) for about in done]
    context = {"proposals": rows, "done": merged, "apart": told_apart, "stores": names}
    return admin.show(request, "merge_scan", "Stores of one project", **context)


def _pair_page(admin: ServiceAdmin, request: HttpRequest) -> HttpResponse:
    """Two stores side by side, what a merge would do with each file, and the button that does it."""
    given = request.POST if request.method == "POST" else request.GET
    source, target = given.get("source", ""), given.get("target", "")
    if request.method == "POST":
        done = merge.merge(source, target)
        moved = sum(count for kind, count in done.counts.items() if kind != "left")
        messages.success(request, f"The stores are one now: {moved} files. It can be taken back on this page.")
        return redirect(_url())
    plan = merge.preview(source, target)
    found = [one for one in merge_scan.scan(engine=False).proposals if {one.source, one.target} == {source, target}]
    context = {
        "halves": [_half(stores.get(source)), _half(stores.get(target))],
        "evidence": found[0] if found else None,
        "apart": apart.are(source, target),
        "steps": plan.steps[:SHOWN_FILES],
        "count": len(plan.steps),
        "counts": plan.counts,
    }
    return admin.show(request, "merge_pair", "Two stores side by side", source=source, target=target, **context)


def _tell_apart(admin: ServiceAdmin, request: HttpRequest) -> HttpResponse:
    """A button's work: two stores are not one project, or may be again."""
    if request.method == "POST":
        one, other = (stores.get(request.POST.get(side, "")) for side in ("source", "target"))
        undo = bool(request.POST.get("undo"))
        apart.tell(one, other, undo=undo)
        told = "may be proposed again" if undo else "are told apart and will not be proposed again"
        messages.success(request, f"{stores.display_name(one)} and {stores.display_name(other)} {told}.")
    return redirect(_url())


def _undo_page(admin: ServiceAdmin, request: HttpRequest) -> HttpResponse:
    """What taking back a merge would do, and the button that does it."""
    source = (request.POST if request.method == "POST" else request.GET).get("source", "")
    if request.method == "POST":
        undone = merge_undo.undo(source)
        messages.success(request, f"{len(undone.removed)} files were taken out again; {len(undone.kept)} stay.")
        return redirect(_url())
    undone = merge_undo.preview(source)
    return admin.show(
        request, "merge_undo", "Take a merge back", undone=undone, kept=undone.kept[:SHOWN_FILES], back=_url()
    )


def _half(store: Store) -> Half:
    if stores.scope_of(store) == "global":
        raise Invalid("The global store is never merged.")
    newest, total = facts.newest([store], limit=SHOWN_TITLES)
    shown = stores.display_name(store), stores.folder(store)
    return Half(store, *shown, browse.counts(store), aliases.listing(store), newest, total)


def _url(**_: str) -> str:
    return reverse("admin:memory_store_merges")
