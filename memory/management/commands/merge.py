"""``coffer merge``: make one store part of another, or find stores that may be one project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from memory.management import merging


class Command(BaseCommand):
    help = "Join two stores of one project, or find such stores"

    def add_arguments(self, parser: ArgumentParser) -> None:
        merging.add_options(parser)

    def handle(self, **options: Any) -> None:
        merging.run(self, **options)
