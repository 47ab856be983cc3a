"""A process that organizes the global store of the home in its environment, and may be killed at any moment."""

import sys

import django

django.setup()

from coffer import db, later  # noqa: E402
from memory.services import organize, stores  # noqa: E402

if __name__ == "__main__":
    db.prepare()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    result = organize.organize(stores.get("global"))
    later.flush()
    sys.stdout.write(f"{result.status} {result.drained}\n")
