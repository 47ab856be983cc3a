"""The sessions of agents as a list: searched, filtered, sorted, paged (FR-038, FR-039)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from django.db.models import Count, QuerySet

from coffer.errors import NotFound
from transcripts.models import KnownSession, KnownSource
from transcripts.services import catalogue
from transcripts.services.catalogue import folded
from transcripts.services.homes import Home

Sort = Literal["started_at", "last_activity_at", "message_count"]
Order = Literal["asc", "desc"]
MOST = 500


@dataclass(frozen=True)
class Wanted:
    """What a person looks for: every word of ``q`` in title or path, one exact project path, a span of beginnings."""

    q: str = ""
    project: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    sort: Sort = "last_activity_at"
    order: Order = "desc"
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True)
class Problem:
    """What could not be read, wholly or in part, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Page:
    """Some of the sessions, how many match in all, and what is not among them or not whole."""

    sessions: list[KnownSession]
    total: int
    problems: list[Problem]


def page(homes: Sequence[Home], wanted: Wanted) -> Page:
    """One page of the sessions of some agents, as their files are now."""
    for home in homes:
        catalogue.refresh(home)
    agents = [home.agent for home in homes]
    found = _matching(agents, wanted)
    direction = "-" if wanted.order == "desc" else ""
    ordered = found.order_by(f"{direction}{wanted.sort}", "-last_activity_at", "-id").select_related("source")
    sessions = list(ordered[wanted.offset : wanted.offset + wanted.limit])
    problems = [Problem(session.source.place, note) for session in sessions for note in session.notes]
    return Page(sessions, found.count(), [*_unread(agents), *problems])


def find(home: Home, session_id: str) -> KnownSession:
    """One session as its file is now; of copies in several places the longest. Raises NotFound."""
    catalogue.refresh(home)
    found = known(home.agent, session_id)
    if found is None:
        raise missing(home, session_id)
    return found


def known(agent: str, session_id: str) -> KnownSession | None:
    """The same without a look at the files."""
    found = KnownSession.objects.filter(agent=agent, session_id=session_id).select_related("source")
    return found.order_by("-message_count", "-last_activity_at").first()


def missing(home: Home, session_id: str) -> NotFound:
    """The error for a session that is not there."""
    message = f"{home.title} has no session {session_id[:80]!r}; `coffer transcript list {home.agent}` names them."
    return NotFound(message, code="TRANSCRIPT_SESSION_NOT_FOUND")


def projects(agents: Sequence[str]) -> list[tuple[str, int]]:
    """The paths that sessions began in, with their number, the most used first."""
    rows = KnownSession.objects.filter(agent__in=agents).exclude(project_path=None).order_by()
    counted = rows.values_list("project_path").annotate(count=Count("id")).order_by("-count", "project_path")
    return [(path, count) for path, count in counted if path]


def places() -> list[Path]:
    """The files of sessions that are known: a person may open these, and no others beside them."""
    return [Path(place) for place in KnownSource.objects.values_list("place", flat=True)]


def row(session: KnownSession) -> dict[str, Any]:
    """One session as REST and the command line tell it."""
    return {
        "session_id": session.session_id,
        "title": session.shown_title,
        "project_path": session.project_path,
        "message_count": session.message_count,
        "started_at": session.started_at,
        "last_activity_at": session.last_activity_at,
        "source_path": session.source.place,
    }


def _matching(agents: Sequence[str], wanted: Wanted) -> QuerySet[KnownSession]:
    found = KnownSession.objects.filter(agent__in=agents)
    for word in folded(wanted.q).split():
        found = found.filter(searched__contains=word)
    if wanted.project:
        found = found.filter(project_path=wanted.project)
    if wanted.started_after is not None:
        found = found.filter(started_at__gte=wanted.started_after)
    if wanted.started_before is not None:
        found = found.filter(started_at__lte=wanted.started_before)
    return found


def _unread(agents: Sequence[str]) -> list[Problem]:
    rows = KnownSource.objects.filter(agent__in=agents).exclude(problem="").order_by("place")
    return [Problem(*found) for found in rows.values_list("place", "problem")]
