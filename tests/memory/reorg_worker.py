"""A process that reorganizes the store named on its command line, and may be killed at any moment."""

import sys

import django

django.setup()

from coffer import db, later  # noqa: E402
from memory.services import reorg, stores  # noqa: E402

if __name__ == "__main__":
    db.prepare()
    result = reorg.reorganize(stores.get(sys.argv[1]))
    later.flush()
    sys.stdout.write(f"{result.status} {result.written} {result.superseded}\n")
