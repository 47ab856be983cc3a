"""``coffer bench``: measure this machine against its own lower bounds, in a temporary home."""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents import link

_INSIDE = "COFFER_BENCH_HOME"


class Command(BaseCommand):
    help = "Measure recall, remember, indexing, organizing, start and memory as ratios to lower bounds"
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--facts", default="200,1000,10000", help="store sizes, separated by commas")
        parser.add_argument("--rounds", type=int, default=60, help="questions and facts for each figure")
        parser.add_argument("--slow", type=float, default=30.0, help="seconds that the slow neighbour waits")

    def handle(self, *, facts: str, rounds: int, slow: float, **_: Any) -> None:
        inside = os.environ.get(_INSIDE)
        if not inside or inside != os.environ.get("COFFER_HOME"):  # never in a person's own home
            self._run_in_temporary_home(facts, rounds, slow)
            return
        from gateway import bench  # noqa: PLC0415 - it sets Django up for the temporary home

        missed = 0
        self.stdout.write(f"{'ratio':>6}  {'bar':>4}  figure")
        for figure in bench.run([int(size) for size in facts.split(",")], rounds, slow):
            missed += not figure.holds
            mark = " " if figure.holds else "!"
            self.stdout.write(f"{figure.ratio:6.2f} {mark}{figure.bar:4.1f}  {figure.name}  ({figure.detail})")
            self.stdout.flush()
        if missed:
            raise CommandError(f"{missed} figures are above their bars.")

    def _run_in_temporary_home(self, facts: str, rounds: int, slow: float) -> None:
        with tempfile.TemporaryDirectory(prefix="coffer-bench-") as home:
            env = {name: value for name, value in os.environ.items() if not name.startswith("COFFER_")}
            env |= {"COFFER_HOME": home, _INSIDE: home, "COFFER_PORT": "0", "PYTHONPATH": str(link.ROOT)}
            env["COFFER_LOG_LEVEL"] = "WARNING"
            command = [sys.executable, "-P", "-s", "-m", "coffer.cli"]
            arguments = ["bench", "--facts", facts, "--rounds", str(rounds), "--slow", str(slow)]
            try:
                done = subprocess.run([*command, *arguments], env=env, check=False)
            finally:
                subprocess.run([*command, "down"], env=env, check=False, capture_output=True)
            if done.returncode:
                raise CommandError("The bench did not end well; its figures are above.")
