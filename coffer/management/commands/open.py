"""``coffer open``."""

import json
import webbrowser
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents import link
from coffer import signin
from coffer.errors import CofferError

_SECONDS = 60.0
_CREATED = 201


class Command(BaseCommand):
    help = "Open the pages in your browser, signed in"
    requires_system_checks = []
    needs_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--print", action="store_true", help="print a one-time link instead, good for a minute")

    def handle(self, **options: Any) -> None:
        url, code = _code()
        if options["print"]:
            self.stdout.write(signin.link(url, code))
            return
        page = signin.write_page(url, code)
        # The browser is told of the file: what stands on a command line can be read by every user of the machine.
        if webbrowser.open(page.as_uri()):
            self.stdout.write(f"Opening {url} in your browser. If nothing opens: `coffer open --print`.")
        else:
            self.stdout.write("No browser could be started here; open this link in one within a minute:")
            self.stdout.write(signin.link(url, code))


def _code() -> tuple[str, str]:
    """The daemon's address and a code of it; a daemon is started when none runs."""
    try:
        connection = link.ensure(_SECONDS, autostart=True)
        status, _, body = connection.request("POST", "/api/v1/daemon/sign_in_codes")
        connection.close()
    except (link.NoDaemon, *link.FAILURES) as error:
        raise CofferError(str(error) or "Coffer's daemon went away; run `coffer up`.") from error
    if status != _CREATED:
        raise CofferError("The daemon that runs is of another version; run `coffer up`, then this again.")
    return f"http://127.0.0.1:{connection.port}/", str(json.loads(body)["code"])
