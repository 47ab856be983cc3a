"""The time line of all that was written and asked, and how everything is."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from coffer import pages, registry
from coffer.registry import ActivityFilter, Event
from memory.services import stores

SHOWN = 200


@dataclass(frozen=True)
class Timeline:
    """The events of the chosen sources, and how to see others."""

    events: list[Event]
    total: int
    source: str
    store: str
    who: str
    sources: list[tuple[str, str]]
    stores: dict[str, str]
    older: str

    @property
    def filtered(self) -> bool:
        return bool(self.source or self.store or self.who)


@require_safe
def page(request: HttpRequest) -> HttpResponse:
    """Filters stand in the address."""
    source, store, who = (request.GET.get(key, "").strip() for key in ("source", "store", "who"))
    before = _moment(request.GET.get("before", ""))
    wanted = ActivityFilter(store, who, before, SHOWN)
    sources = registry.activity_sources()
    read = [one.read(wanted) for one in sources if source in ("", one.name)]
    events = sorted((event for found in read for event in found.events), key=lambda event: event.at, reverse=True)[
        :SHOWN
    ]
    asked = {key: value for key, value in (("source", source), ("store", store), ("who", who)) if value}
    timeline = Timeline(
        events=events,
        total=sum(found.total for found in read),
        source=source,
        store=store,
        who=who,
        sources=[(one.name, one.title) for one in sources],
        stores={one.name: stores.display_name(one) for one in stores.all_stores()},
        older=urlencode({**asked, "before": events[-1].at.isoformat()}) if len(events) == SHOWN else "",
    )
    return render(request, "memory/activity.html", {"timeline": timeline})


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """Every finding, asked for now."""
    findings = pages.check_now()
    return render(request, "memory/health.html", {"findings": findings, "summary": pages.summary(findings)})


def _moment(written: str) -> datetime | None:
    try:
        found = parse_datetime(written)
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
