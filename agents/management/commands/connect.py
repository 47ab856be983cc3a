"""``coffer connect``."""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents import link
from agents.management import plans
from agents.services import connections, rehearsal
from agents.services.connections import AgentPlan, Outcome
from coffer import console, paths
from coffer.arguments import add_json
from coffer.text import visible_line

_DAEMON_SECONDS = 60.0


class Command(BaseCommand):
    help = "Connect the coding agents on this machine, and prove that memory reaches them"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="which agents; all that are found unless given")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        add_json(parser)

    def handle(self, *, names: list[str], dry_run: bool, yes: bool, as_json: bool, **_: Any) -> None:
        planned = connections.plan(names)
        if not planned:
            raise CommandError(
                "No coding agent that Coffer knows was found here: no folder of one, no program on PATH."
            )
        if not as_json:
            self._show(planned, dry_run=dry_run)
        if dry_run:
            if as_json:
                console.answer(self, {"agents": [plans.as_dict(one) for one in planned]}, "", as_json=True)
        else:
            self._connect(planned, yes=yes, as_json=as_json)
        if any(one.refused for one in planned):
            sys.exit(1)

    def _connect(self, planned: list[AgentPlan], *, yes: bool, as_json: bool) -> None:
        changing = sum(bool(one.changes) for one in planned)
        if changing:
            question = f"Connect {changing} agent{'s' if changing > 1 else ''}?"
            otherwise = "--yes connects without asking, --dry-run shows the changes."
            console.confirm(question, yes=yes, otherwise=otherwise)
        outcomes = connections.apply(planned)
        daemon = _start_daemon() if outcomes else ""
        rows = [self._proven(one, daemon) for one in outcomes]
        if as_json:
            told = {one.plan.agent.name: row for one, row in zip(outcomes, rows, strict=True)}
            found = [{**plans.as_dict(one), **told.get(one.agent.name, {})} for one in planned]
            console.answer(self, {"agents": found}, "", as_json=True)
        else:
            self._tell(outcomes, rows, daemon)
        if daemon or any(row["problem"] for row in rows):
            sys.exit(1)

    def _proven(self, outcome: Outcome, daemon: str) -> dict[str, Any]:
        """How one agent is now, its hook run once as the agent runs it."""
        row: dict[str, Any] = {"connected": not outcome.problem, "trusted": outcome.trusted, "problem": outcome.problem}
        if row["connected"] and not daemon and outcome.plan.kind.events:
            played = rehearsal.play(outcome.plan.agent, os.getcwd())
            row["seconds"] = round(played.seconds, 2)
            row["bytes"] = len(played.text.encode())
            if played.fault:
                row["problem"] = f"Its hook was run, and {played.fault}; `coffer doctor` says more."
        return row

    def _show(self, planned: list[AgentPlan], *, dry_run: bool) -> None:
        for one in planned:
            self.stdout.write("\n".join(plans.lines(one)))
        if dry_run:
            for diff in plans.diffs(planned):
                self.stdout.write(f"\n{plans.visible_diff(diff)}")

    def _tell(self, outcomes: list[Outcome], rows: list[dict[str, Any]], daemon: str) -> None:
        self.stdout.write("")
        for outcome, row in zip(outcomes, rows, strict=True):
            title = visible_line(outcome.plan.title)
            if row["problem"]:
                self.stdout.write(self.style.ERROR(f"✗ {title}: {visible_line(row['problem'])}"))
                continue
            arrives = f"; {row['bytes']:,} bytes of memory arrive in a session here" if "bytes" in row else ""
            self.stdout.write(f"✓ {title} is connected{arrives}.")
            if outcome.plan.kind.trusted and not outcome.trusted:
                program = outcome.plan.kind.program
                self.stdout.write(f"  One step is yours: start {program}, type /hooks and trust the Coffer entries.")
        if daemon:
            self.stdout.write(self.style.ERROR(f"✗ Whether memory arrives could not be tried: {daemon}"))
        if any(outcome.made for outcome in outcomes):
            self.stdout.write(f"The files as they were lie in {plans.short(paths.backups() / 'agents')}.")
            self.stdout.write("`coffer disconnect` gives them back; `coffer doctor` looks after the connection.")


def _start_daemon() -> str:
    """Why no daemon can be had; "" when one runs now."""
    try:
        link.ensure(_DAEMON_SECONDS, autostart=True).close()
    except link.NoDaemon as error:
        return str(error)
    return ""
