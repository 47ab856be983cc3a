"""``coffer transcript …``: the past sessions of agents."""

from argparse import ArgumentParser
from collections.abc import Callable
from datetime import datetime
from typing import Any, get_args

from django.core.management.base import BaseCommand

from coffer import console
from coffer.arguments import Verbs, count, whole
from transcripts.management import distilling
from transcripts.services import listing
from transcripts.services.listing import Page, Sort, Wanted


class Command(BaseCommand):
    help = "List the past sessions of agents, and distill them into memory"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = Verbs(parser)
        one = verbs.add("list", self.list, "List sessions, last active first.")
        one.add_argument("agent", nargs="?", default="", help="the agent; all on this machine unless given")
        one.add_argument("--search", default="", metavar="WORDS", help="words in title or path")
        one.add_argument("--project", default="", metavar="PATH", help="the exact folder that it began in")
        one.add_argument("--since", type=distilling.moment, metavar="DATE", help="begun since, as 2026-11-30")
        one.add_argument("--until", type=distilling.moment, metavar="DATE", help="begun until")
        one.add_argument("--sort", choices=get_args(Sort), default="last_activity_at")
        one.add_argument("--order", choices=("asc", "desc"), default="desc")
        one.add_argument("--limit", type=count, default=50)
        one.add_argument("--offset", type=whole(0), default=0)
        distilling.add_options(verbs.add("distill", self.distill, "Distill sessions into memory.", json=False))

    def handle(self, *, run: Callable[..., None], verb: str, **options: Any) -> None:
        run(**options)

    def list(
        self,
        *,
        agent: str,
        search: str,
        since: datetime | None,
        until: datetime | None,
        limit: int,
        offset: int,
        as_json: bool,
        **options: Any,
    ) -> None:
        shown = {key: options[key] for key in ("project", "sort", "order")}
        wanted = Wanted(search, started_after=since, started_before=until, limit=limit, offset=offset, **shown)
        page = listing.page(distilling.chosen_homes(agent), wanted)
        value = {
            "sessions": [{"agent": session.agent, **listing.row(session)} for session in page.sessions],
            "total": page.total,
            "limit": wanted.limit,
            "offset": wanted.offset,
            "problems": [vars(problem) for problem in page.problems],
        }
        console.answer(self, value, _table(page), as_json=as_json)

    def distill(self, **options: Any) -> None:
        distilling.run(self, **options)


def _table(page: Page) -> str:
    rows = [
        (
            session.agent,
            session.session_id,
            console.ago(session.last_activity_at),
            str(session.message_count),
            session.project_path or "-",
            session.shown_title or "-",
        )
        for session in page.sessions
    ]
    lines = [console.table(("AGENT", "SESSION", "AGE", "MESSAGES", "FOLDER", "TITLE"), rows)] if rows else []
    lines.append(f"{len(rows)} of {page.total} sessions")
    lines += [f"Not read: {problem.path}: {problem.reason}" for problem in page.problems]
    return "\n".join(lines)
