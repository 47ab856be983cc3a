"""What apps tell the foundation when they are ready, so that it need not know them.

Doctor, status and the pages' banner read the health checks; a lost database is filled again by the rebuilders; only
what lies in an openable place is opened; the pages' bar and time line are made of navigation entries and activity
sources. The background workers do the recurring jobs. When a model is connected those are told that wait for one.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One line of health: what was looked at, how it is, and what to do when it is not well."""

    level: Literal["ok", "warning", "error"]
    subject: str
    message: str


@dataclass(frozen=True)
class NavigationEntry:
    """One word of the pages' bar: the name of its view, and the paths below which it is the current one."""

    title: str
    view: str
    order: int
    under: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActivityFilter:
    """What a person wants to see of the time line: of one store, of one actor or agent, before a moment."""

    store: str = ""
    who: str = ""
    before: datetime | None = None
    limit: int = 200


@dataclass(frozen=True)
class Event:
    """One line of the time line: ids, sizes and counts, never content."""

    at: datetime
    what: str
    who: str
    store: str = ""
    ref: str = ""
    counts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Activity:
    """What a source has to tell, newest first, and how many events of it match in all."""

    events: list[Event]
    total: int


@dataclass(frozen=True)
class ActivitySource:
    name: str
    title: str
    read: Callable[[ActivityFilter], Activity]


HealthCheck = Callable[[], Iterable[Finding]]
Rebuilder = Callable[[], None]
Waiting = Callable[[], object]
Places = Callable[[], Iterable[Path]]

_health_checks: dict[str, HealthCheck] = {}
_rebuilders: dict[str, Rebuilder] = {}
_openable: dict[str, Places] = {}
_navigation: dict[str, NavigationEntry] = {}
_activity: dict[str, ActivitySource] = {}
_recurring: dict[str, str] = {}
_waiting: dict[str, Waiting] = {}


def add_health_check(name: str, check: HealthCheck) -> None:
    _health_checks[name] = check


def add_rebuilder(name: str, rebuild: Rebuilder) -> None:
    """Register what brings an app's rows back from files after the database was lost or restored."""
    _rebuilders[name] = rebuild


def add_openable(name: str, places: Places) -> None:
    """Register folders and files that a person may open from a page; asked each time, links in them are followed."""
    _openable[name] = places


def add_navigation(title: str, view: str, *, order: int, under: tuple[str, ...] = ()) -> None:
    """Register a word of the bar; ``view`` is the name of a URL without arguments."""
    _navigation[view] = NavigationEntry(title, view, order, under)


def add_activity_source(name: str, title: str, read: Callable[[ActivityFilter], Activity]) -> None:
    """Register what adds its events to the activity page."""
    _activity[name] = ActivitySource(name, title, read)


def add_recurring(name: str, job: str) -> None:
    """Register a job, by its dotted path, that the background workers do when they start and every hour."""
    _recurring[name] = job


def add_waiting(name: str, connected: Waiting) -> None:
    """Register what has work for a model; told when a connection was saved, whether or not it may serve that work."""
    _waiting[name] = connected


def connected() -> None:
    """Tell all that wait for a model that it may be there."""
    for tell in _waiting.values():
        tell()


def health() -> list[Finding]:
    """Ask every check, in the order of registration."""
    return [finding for check in _health_checks.values() for finding in check()]


def openable() -> list[Path]:
    """Every registered place."""
    return [place for places in _openable.values() for place in places()]


def rebuild() -> None:
    for rebuilder in _rebuilders.values():
        rebuilder()


def navigation() -> list[NavigationEntry]:
    """The bar, from left to right."""
    return sorted(_navigation.values(), key=lambda entry: entry.order)


def recurring() -> dict[str, str]:
    """Every recurring job by its name."""
    return dict(_recurring)


def activity_sources() -> list[ActivitySource]:
    return list(_activity.values())
