"""``coffer up``."""

from typing import Any

from django.core.management.base import BaseCommand

from coffer import lifecycle, paths


class Command(BaseCommand):
    help = "Start the daemon, or restart it when the code has changed, and write the launchers"
    requires_system_checks = []
    needs_database = False

    def handle(self, **options: Any) -> None:
        done = lifecycle.up()
        state = done.state
        self.stdout.write(f"Coffer {state.version}: {done.outcome} at {state.url}")
        self.stdout.write(f"Everything it keeps lies in {paths.home()}")
        self.stdout.write("To type just `coffer`, put this line into your shell's profile:")
        self.stdout.write(f'  export PATH="{paths.launchers()}:$PATH"')
