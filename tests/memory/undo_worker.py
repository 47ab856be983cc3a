"""A process that undoes the pass named on its command line, and may be killed at any moment."""

import sys

import django

django.setup()

from coffer import db  # noqa: E402
from coffer.errors import MemoryNotFound  # noqa: E402
from memory.services import stores, undo  # noqa: E402

if __name__ == "__main__":
    db.prepare()
    store = stores.get(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        undo.undo(store, sys.argv[2])
    except MemoryNotFound:
        sys.stdout.write("nothing\n")
