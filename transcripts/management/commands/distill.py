"""``coffer distill``: what agents did in past sessions into the journals of their projects."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from transcripts.management import distilling


class Command(BaseCommand):
    help = "Distill past sessions into memory, with the connected model"

    def add_arguments(self, parser: ArgumentParser) -> None:
        distilling.add_options(parser)

    def handle(self, **options: Any) -> None:
        distilling.run(self, **options)
