"""``coffer demo``: two agents share one memory, shown step by step in a temporary home and repository."""

from contextlib import closing
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gateway import demo


class Command(BaseCommand):
    help = "Show two agents sharing one memory, in a temporary home and repository"
    requires_system_checks = []
    needs_database = False

    def handle(self, *args: Any, **options: Any) -> None:
        failed = 0
        try:
            with closing(demo.play()) as steps:
                for step in steps:
                    failed += not step.passed
                    self._show(step)
        except demo.DemoFailed as error:
            raise CommandError(f"The demo stopped: {error}") from error
        if failed:
            raise CommandError(f"{failed} of the demo's steps failed.")
        self.stdout.write("That is Coffer. Your own memory was not touched.")

    def _show(self, step: demo.Step) -> None:
        mark = self.style.SUCCESS("✓") if step.passed else self.style.ERROR("✗")
        self.stdout.write(f"{mark} {step.title}")
        for line in step.detail.splitlines():
            self.stdout.write(f"    {line}")
