"""``coffer organize``: file the notes of one store's inbox, or of all, under topics and rules."""

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from memory.management import naming, organizing
from memory.services import stores


class Command(BaseCommand):
    help = "File remembered notes under topics and rules, with the connected model"

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "store", nargs="?", help="store name, label, or . for the project of this folder (default, else global)"
        )
        which.add_argument("--all", action="store_true", help="every store, global first")
        organizing.add_options(parser)

    def handle(self, *, store: str | None, all: bool, **options: Any) -> None:
        if all:
            chosen = stores.all_stores()
        else:
            here = stores.locate(os.getcwd()).project is not None
            chosen = [naming.named(store or ("." if here else "global"))]
        organizing.run(self, chosen, **options)
