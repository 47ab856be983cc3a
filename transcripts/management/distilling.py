"""Distilling on the command line: `coffer distill` and `coffer transcript distill` are one thing."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import console
from coffer.arguments import add_json
from memory.management.progress import Bar
from transcripts.services import batch, homes, reports
from transcripts.services.batch import Estimate, Job, Result
from transcripts.services.homes import Home

_REASONS = 20  # of those for which sessions were left out, the commonest


def add_options(parser: ArgumentParser) -> None:
    """The options that both commands take."""
    parser.add_argument("agent", nargs="?", default="", help="the agent, as `coffer agent list` names it")
    parser.add_argument("--agent", dest="named", default="", metavar="AGENT", help="the same")
    parser.add_argument("--all", action="store_true", help="every session of every agent on this machine")
    parser.add_argument("--project", default="", metavar="FOLDER", help="the sessions of the project around a folder")
    parser.add_argument("--session", default="", metavar="ID", help="one session")
    parser.add_argument("--since", type=moment, metavar="DATE", help="only what was active since, as 2026-11-30")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="ask the model and show the insights, but write nothing")
    what.add_argument("--estimate", action="store_true", help="say what it would cost, and send nothing")
    add_json(parser)


def run(command: BaseCommand, *, dry_run: bool, estimate: bool, as_json: bool, **asked: Any) -> None:
    """Distill the sessions asked for, or say what that would give or cost; exits 1 when not all went well."""
    if not estimate:
        batch.check_model()
    jobs = _chosen(**asked)
    bar = Bar(sys.stderr)
    if estimate:
        costs = batch.estimate(jobs, bar)
        console.answer(command, reports.estimate(costs), "\n".join(_costs(costs)), as_json=as_json)
        return
    result = batch.run(jobs, dry_run=dry_run, progress=bar)
    lines = [*(_insights(result) if dry_run else ()), *_told(result, dry_run=dry_run)]
    console.answer(command, reports.as_dict(result), "\n".join(lines), as_json=as_json)
    if result.stopped or result.counted("failed"):
        sys.exit(1)


def moment(written: str) -> datetime:
    """A date or a moment as a person types it; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise ArgumentTypeError(f"{written!r} is no date; write it as 2026-11-30") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def chosen_homes(agent: str) -> list[Home]:
    """One agent, or all on this machine."""
    return [homes.of(agent)] if agent else homes.everywhere()


def _chosen(
    *, agent: str, named: str, all: bool, project: str, session: str, since: datetime | None, **_: Any
) -> list[Job]:
    if agent and named and agent != named:
        raise CommandError(f"Give one agent: {agent} or {named}.")
    agent = agent or named
    if not (agent or all or project or session):
        raise CommandError("Say which sessions: an agent, --project FOLDER, --session ID, or --all.")
    folder = os.path.abspath(os.path.expanduser(project)) if project else ""
    if session and not agent:
        raise CommandError("A session is named together with its agent: `coffer distill AGENT --session ID`.")
    return batch.chosen(chosen_homes(agent), session_id=session, project=folder, since=since)


def _costs(found: Estimate) -> list[str]:
    left = reports.estimate(found)
    return [
        f"{_count(found.sessions, 'session')} to distill: {_count(found.calls, 'call')} of the model, about "
        f"{found.tokens_in:,} tokens sent and {found.tokens_out:,} received.",
        f"Today's budget still allows {left['calls_left_today']:,} calls and {left['tokens_left_today']:,} tokens.",
        *_left_out(found.skipped),
    ]


def _insights(result: Result) -> Iterator[str]:
    """What a dry run found, session by session."""
    for report in result.reports:
        if report.insights:
            yield f"{report.session.shown_title or 'Session without a title'} ({report.session.session_id})"
        for insight in report.insights:
            yield f"  {insight.name}"
            yield console.indent(insight.body)
            yield ""


def _told(result: Result, *, dry_run: bool) -> list[str]:
    """What a pass did in a few lines; the number of each thing that was left out, with the reason."""
    done, empty = result.counted("distilled", "partly"), result.counted("nothing")
    stores = {report.store for report in result.reports if report.insights}
    found = f"{_count(result.insights, 'insight')} from {_count(done, 'session')}"
    if dry_run:
        lines = [f"{found}; nothing was written."]
    else:
        lines = [f"{found} into the journals of {_count(len(stores), 'project')}."]
    known, cut = sum(one.known for one in result.reports), sum(one.cut for one in result.reports)
    if empty:
        lines.append(f"{_count(empty, 'session')} held nothing new.")
    if known:
        lines.append(f"{_count(known, 'insight')} were known already.")
    if cut:
        lines.append(f"Of {_count(cut, 'long turn')} only beginning and end were sent.")
    masked = ", ".join(f"{count} × {kind}" for kind, count in result.masked.most_common())
    if masked or not result.counted("failed"):  # what failed told nothing of its secrets
        lines.append(f"Taken out before anything was sent: {masked or 'no secrets were found'}.")
    lines += _left_out(reports.reasons(result))
    if result.stopped:
        lines.append(f"It ended early: {result.stopped.message} {_count(result.remaining, 'session')} remain.")
    return lines


def _left_out(reasons: Counter[str]) -> list[str]:
    common = reasons.most_common(_REASONS)
    lines = [f"  {_count(count, 'session')}: {reason}" for reason, count in common]
    if more := sum(reasons.values()) - sum(count for _, count in common):
        lines.append(f"  {_count(more, 'session')} for other reasons like these")
    return ["Left out:", *lines] if lines else []


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"
