"""The overview of all stores, and one store lane by lane."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from coffer.errors import Invalid
from memory.files.journal import Said
from memory.files.markdown import timestamp
from memory.models import Store
from memory.render import line
from memory.render import render as html
from memory.services import browse, changelog, handoff, journal, merge_scan, passes, rules, stores, superseded
from memory.services.browse import Counts, Look, Measure
from memory.services.handoff import Scene
from memory.services.merge_scan import Proposal
from memory.services.rules import Rule
from memory.services.store_rows import MAX_LABEL
from memory.views import rows


@dataclass(frozen=True)
class Card:
    """One store of the overview."""

    store: Store
    title: str
    place: str
    counts: Counts
    measure: Measure
    twin: bool
    proposal: Proposal | None  # with another store that may be the same project


@dataclass(frozen=True)
class Tab:
    title: str
    url: str
    count: int | None
    current: bool


@dataclass(frozen=True)
class Header:
    """What stands above every lane of a store."""

    store: Store
    title: str
    folder: Path
    counts: Counts
    tabs: list[Tab]
    archived: int

    @property
    def is_project(self) -> bool:
        return self.store.name != "global"


@dataclass(frozen=True)
class Knowledge:
    """What the filter found; topics and inbox are the lines of their lists."""

    query: str
    topics: SafeString
    inbox: SafeString
    shown: int
    matching: int
    total: int


@dataclass(frozen=True)
class RuleLine:
    rule: Rule
    html: SafeString


@dataclass(frozen=True)
class RuleFile:
    path: Path
    rules: list[RuleLine]


@dataclass(frozen=True)
class DayRow:
    period: str
    path: Path
    entries: list[Said]
    first: str


@dataclass(frozen=True)
class SceneRow:
    scene: Scene
    at: datetime | None
    first: str


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """Every store, global first."""
    found = stores.all_stores()
    names = Counter(stores.display_name(store).casefold() for store in found)
    proposals = {name: one for one in merge_scan.pending() for name in (one.source, one.target)}
    cards = [
        _card(store, twin=names[stores.display_name(store).casefold()] > 1, proposal=proposals.get(store.name))
        for store in found
    ]
    return render(request, "memory/stores.html", {"cards": cards})


@require_safe
def knowledge(request: HttpRequest, name: str) -> HttpResponse:
    """Titles of topics and of the inbox, with a filter over all of them."""
    store = stores.get(name)
    query = request.GET.get("q", "").strip()
    look = browse.look(store)
    titles = browse.titles(store, look, query)
    total = look.counts.knowledge
    lane = Knowledge(
        query=query,
        topics=rows.titles(store, titles.topics),
        inbox=rows.titles(store, titles.inbox),
        shown=titles.shown,
        matching=total if titles.matching is None else titles.matching,
        total=total,
    )
    return _lane(request, store, "knowledge", {"lane": lane, "organizer": passes.overview(store)}, look)


@require_safe
def rules_lane(request: HttpRequest, name: str) -> HttpResponse:
    """The rules as one document, file by file."""
    store = stores.get(name)
    found: dict[Path, list[RuleLine]] = {}
    for rule in rules.listing(store):
        found.setdefault(rule.path, []).append(RuleLine(rule, line(rule.text)))
    # A file without a single bullet has rules in another form; then the text is shown as it is.
    context = {
        "files": [RuleFile(*pair) for pair in found.items()],
        "html": None if found else _html(rules.text(store)),
    }
    return _lane(
        request, store, "rules", {**context, "manage": reverse("admin:memory_store_lane", args=[name, "rules"])}
    )


@require_safe
def journal_lane(request: HttpRequest, name: str) -> HttpResponse:
    """The days, newest first."""
    store = stores.get(name)
    days = journal.days(store)
    shown = [_day(day.period, day.path, day.text) for day in days[: browse.SHOWN]]
    return _lane(request, store, "journal", {"days": shown, "total": len(days)})


@require_safe
def handoff_lane(request: HttpRequest, name: str) -> HttpResponse:
    """One scene per branch, last written first."""
    store = stores.get(name)
    scenes = [
        SceneRow(scene, timestamp(scene.updated_at), browse.opening(scene.text)) for scene in handoff.scenes(store)
    ]
    return _lane(request, store, "handoff", {"scenes": scenes})


@require_safe
def changelog_lane(request: HttpRequest, name: str) -> HttpResponse:
    """What the organizer did, newest first."""
    store = stores.get(name)
    log = changelog.read(store)
    entries = browse.changes(log.text or "")
    shown = html("".join(f"{entry.strip()}\n" for entry in entries[: browse.SHOWN])) if entries else None
    whole = reverse("text", args=[name, log.path.name])
    context = {"html": shown, "path": log.path, "total": len(entries), "most": browse.SHOWN, "whole": whole}
    return _lane(request, store, "changelog", context)


@require_http_methods(["GET", "HEAD", "POST"])
def rename(request: HttpRequest, name: str) -> HttpResponse:
    """Give a store a readable name; a blank one takes it away again."""
    store = stores.get(name)
    label, problem = store.label, ""
    if request.method == "POST":
        label = request.POST.get("label", "")
        try:
            stores.set_label(store, label)
            return redirect("store", name=name)
        except Invalid as error:
            label, problem = label[:MAX_LABEL], error.message
    context = {"store": store, "title": stores.display_name(store), "label": label, "problem": problem}
    return render(request, "memory/rename.html", context, status=422 if problem else 200)


def _lane(
    request: HttpRequest, store: Store, lane: str, context: Mapping[str, object], look: Look | None = None
) -> HttpResponse:
    counts = (look or browse.look(store)).counts
    return render(request, f"memory/lanes/{lane}.html", {"head": _header(store, lane, counts), **context})


def _header(store: Store, current: str, counts: Counts) -> Header:
    found: list[tuple[str, str, int | None]] = [
        ("Knowledge", "store", counts.knowledge),
        ("Rules", "rules", counts.rules),
        ("Journal", "journal", counts.days),
        ("Handoff", "handoff", counts.scenes),
        ("Changelog", "changelog", counts.changes),
    ]
    tabs = [
        Tab(title, reverse(view, args=[store.name]), count, title.lower() == current) for title, view, count in found
    ]
    archived = len(superseded.listing(store))
    return Header(store, stores.display_name(store), stores.folder(store), counts, tabs, archived)


def _card(store: Store, *, twin: bool, proposal: Proposal | None) -> Card:
    place = store.project_root or str(stores.folder(store))
    measure = browse.measure(store)
    return Card(store, stores.display_name(store), place, measure.counts, measure, twin, proposal)


def _day(period: str, path: Path, text: str) -> DayRow:
    entries = browse.entries(text)
    return DayRow(period, path, entries, browse.opening(entries[0].text) if entries else "")


def _html(text: str | None) -> SafeString | None:
    return html(text) if text else None
