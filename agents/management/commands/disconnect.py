"""``coffer disconnect``."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents.management import plans
from agents.services import connections
from coffer import console
from coffer.arguments import add_json
from coffer.text import visible_line


class Command(BaseCommand):
    help = "Take everything of Coffer out of the agents' files again"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="which agents; all unless given")
        parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        add_json(parser)

    def handle(self, *, names: list[str], dry_run: bool, yes: bool, as_json: bool, **_: Any) -> None:
        planned = [one for one in connections.plan_removal(names) if one.changes or one.refused]
        if not as_json:
            for one in planned:
                self.stdout.write("\n".join(plans.lines(one)))
            for diff in plans.diffs(planned) if dry_run else ():
                self.stdout.write(f"\n{plans.visible_diff(diff)}")
        problems = [f"{one.title}: {one.refused}" for one in planned if one.refused]
        if not dry_run and any(one.changes for one in planned):
            console.confirm("Disconnect?", yes=yes, otherwise="--yes disconnects without asking.")
            outcomes = connections.apply(planned)
            problems += [f"{one.plan.title}: {one.problem}" for one in outcomes if one.problem]
        if as_json:
            found = {"agents": [plans.as_dict(one) for one in planned], "problems": problems}
            console.answer(self, found, "", as_json=True)
        elif not planned:
            self.stdout.write("No agent is connected.")
        elif not dry_run and not problems:
            self.stdout.write("Disconnected. What is remembered stays where it is.")
        for problem in problems:
            self.stderr.write(f"coffer: {visible_line(problem)}")
        if problems:
            sys.exit(1)
