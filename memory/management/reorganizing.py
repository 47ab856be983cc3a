"""Reorganizing on the command line: `coffer memory reorg`."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand

from memory.management import listing
from memory.management.progress import Bar
from memory.models import Store
from memory.services import reorg, stores
from memory.services.reorg import Reorganized

_DONE = {
    "written": "written",
    "superseded": "superseded",
    "promoted": "promoted from the journal",
    "refused": "changes refused",
    "skipped": "left alone, as no model can be shown them",
    "rules_moved": "rules sorted by topic",
}
_ENDED = {
    "no_model": "no model is connected, so nothing was sent or changed; `coffer engine set` connects one.",
    "busy": "another pass is at work on it; nothing was done.",
    "empty": "there are no topics and no journal.",
}


def run(command: BaseCommand, store: Store, *, as_json: bool, **_: Any) -> None:
    """Reorganize one store; exits 1 when the pass ended early."""
    done = reorg.reorganize(store, progress=Bar(sys.stderr))
    if as_json:
        command.stdout.write(json.dumps(done.as_dict(), ensure_ascii=False, indent=2))
    else:
        text = f"{stores.display_name(store)}: {_told(done)}"
        command.stdout.write(listing.safe(text) if command.stdout.isatty() else text)
    if done.stopped:
        sys.exit(1)


def _told(done: Reorganized) -> str:
    """What a pass did in one sentence, without its zeros."""
    if done.run is None:
        return _ENDED[done.status]
    counted = [(getattr(done, name), words) for name, words in _DONE.items()]
    what = ", ".join(f"{count} {words}" for count, words in counted if count) or "nothing to do"
    lines = [f"{done.before} topics before, {done.after} after: {what}."]
    if done.stopped:
        lines.append(f"It ended early: {done.stopped}")
    return "\n".join(lines)
