"""A process of its own that attaches and detaches one file over and over, until it is killed."""

import sys
from pathlib import Path

from tests.agents.edits import attach, detach, hooks_file

if __name__ == "__main__":
    file = hooks_file(Path(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        attach(file)
        detach(file)
