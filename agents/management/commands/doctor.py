"""``coffer doctor``."""

import json
import os
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from agents.services import doctor
from agents.services.doctor import Check

_MARKS = {"ok": "✓", "note": "-", "warning": "!", "error": "✗"}


class Command(BaseCommand):
    help = "Look whether memory reaches each agent, and say what to do where it does not"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", default="", help="one agent; all of them and Coffer itself unless given")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *, name: str, json: bool, **_: Any) -> None:
        checks = []
        subject = ""
        for check in doctor.examine(name, cwd=os.getcwd()):
            checks.append(check)
            if not json:
                self._show(check, first=check.subject != subject)
                subject = check.subject
        problems = sum(check.is_problem for check in checks)
        self.stdout.write(_as_json(checks) if json else _summary(checks))
        if problems:
            sys.exit(1)

    def _show(self, check: Check, *, first: bool) -> None:
        style = {"ok": self.style.SUCCESS, "warning": self.style.WARNING, "error": self.style.ERROR}.get(
            check.level, str
        )
        if first:
            self.stdout.write(check.subject)
        self.stdout.write(f"  {style(_MARKS[check.level])} {check.name}: {check.message}")
        if check.remedy:
            self.stdout.write(f"      {check.remedy}")
        self.stdout.flush()


def _summary(checks: list[Check]) -> str:
    problems = sum(check.is_problem for check in checks)
    unconnected = sum(check.is_unconnected for check in checks)
    if problems:
        return f"{problems} problem{'s' if problems != 1 else ''}."
    if unconnected:
        told = "1 agent is" if unconnected == 1 else f"{unconnected} agents are"
        return f"All that is connected is well; {told} not connected."
    return "All is well."


def _as_json(checks: list[Check]) -> str:
    well = not any(check.is_problem for check in checks)
    return json.dumps({"well": well, "checks": [asdict(check) for check in checks]}, indent=2, ensure_ascii=False)
