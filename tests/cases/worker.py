"""A process of its own that writes to the home in its environment and tells each thing that was confirmed to it.

Run as ``worker.py VERB …`` by the tests of this folder, which may kill it at any moment.
"""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

django.setup()

from coffer import db, later  # noqa: E402
from coffer.errors import CofferError  # noqa: E402
from gateway.caller import Caller  # noqa: E402
from gateway.tools import TOOLS  # noqa: E402
from memory.services import facts, stores  # noqa: E402


def say(*words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def call(tool: str, cwd: str, **arguments: Any) -> dict[str, Any]:
    return TOOLS[f"coffer__{tool}"].call(Caller(cwd, "worker", ""), arguments).content


def remember(cwd: str, name: str, count: str) -> None:
    """Remember so many facts, one after the other."""
    for number in range(int(count)):
        text = f"Fact {number} of {name}: the quokka build of {name} takes {number} minutes."
        say("saved", call("remember", cwd, text=text)["id"], text)


def edit(identity: str, count: str) -> None:
    """Correct one global fact again and again."""
    store = stores.get("global")
    for number in range(int(count)):
        text = f"Version {number} of the walrus. " + "padding " * 400 + f"end {number}"
        facts.edit(store, identity, text=text)
        say("edited", number)


def everything(cwd: str, identity: str) -> None:
    """Remember, correct and hand over in turn, without end."""
    store = stores.get("global")
    for number in range(1_000_000):
        text = f"Fact {number}: the quokka build takes {number} minutes. " + "padding " * 100
        say("saved", call("remember", cwd, text=text)["id"], text.rstrip())
        facts.edit(store, identity, text=f"Version {number} of the walrus. " + "padding " * 400 + f"end {number}")
        say("edited", number, "")
        call("set_handoff", cwd, body=f"Scene {number} begins. " + "padding " * 400 + f"end {number}")
        say("handed", number, "")


def reindex() -> None:
    say("begun")
    stores.reindex()


def attempt(tool: str, cwd: str, arguments: str) -> None:
    """One call, and what became of it."""
    try:
        say("ok", call(tool, cwd, **json.loads(arguments)))
    except CofferError as error:
        say(error.code, error.message)


def limited(size: str, tool: str, cwd: str, arguments: str) -> None:
    """One call in a process that may write no file longer than ``size`` bytes."""
    import resource

    sys.dont_write_bytecode = True  # Python would keep what it wrote up to the limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
    attempt(tool, cwd, arguments)


def hold(lock: str) -> None:
    """Take a lock and keep it until killed."""
    from coffer import fs

    with fs.locked(lock):
        say("held")
        signal.pause()


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (remember, edit, everything, reindex, attempt, limited, hold)
}

if __name__ == "__main__":
    assert Path(sys.argv[0]).name == "worker.py"
    db.prepare()
    VERBS[sys.argv[1]](*sys.argv[2:])
    later.flush()
