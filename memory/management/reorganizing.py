"""Reorganizing on the command line: `coffer memory reorg`."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from coffer import console
from coffer.arguments import add_json
from memory.management.progress import Bar
from memory.models import Store
from memory.services import reorg, stores
from memory.services import undo as undo_service
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


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--undo", action="store_true", help="take the last pass back, where nothing changed since")
    add_json(parser)


def run(command: BaseCommand, store: Store, *, undo: bool, as_json: bool, **_: Any) -> None:
    """Reorganize one store, or take that back; exits 1 when the pass ended early."""
    row, told = _undone(store) if undo else _reorganized(store)
    console.answer(command, row, f"{stores.display_name(store)}: {told}", as_json=as_json)
    if row.get("stopped"):
        sys.exit(1)


def _reorganized(store: Store) -> tuple[dict[str, Any], str]:
    done = reorg.reorganize(store, progress=Bar(sys.stderr))
    return done.as_dict(), _told(done)


def _undone(store: Store) -> tuple[dict[str, Any], str]:
    last, done = undo_service.undo_last(store, "reorg")
    return {"run": last.run, **vars(done)}, done.sentence


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
