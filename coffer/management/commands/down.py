"""``coffer down``."""

from typing import Any

from django.core.management.base import BaseCommand

from coffer import lifecycle


class Command(BaseCommand):
    help = "Stop the daemon and its workers"
    requires_system_checks = []
    needs_database = False

    def handle(self, **options: Any) -> None:
        self.stdout.write("Coffer has stopped." if lifecycle.down() else "Coffer was not running.")
