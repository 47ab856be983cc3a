"""Organizing on the command line: `coffer organize` and `coffer memory organize` are one thing."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

from django.core.management.base import BaseCommand

from coffer import console, llm
from coffer.arguments import add_json
from coffer.errors import MemoryNotFound
from memory.management.progress import Bar
from memory.models import Store
from memory.services import organize, stores
from memory.services import undo as undo_service
from memory.services.tally import Result

Row = dict[str, Any]
_DONE = {
    "topics_created": ("new topic", "new topics"),
    "topics_merged": ("note merged into a topic", "notes merged into topics"),
    "rules_appended": ("new rule", "new rules"),
    "appended": ("note added as it is", "notes added as they are"),
}
_ENDED = {
    "no_model": "no model is connected, so nothing was sent or changed; `coffer engine set` connects one.",
    "busy": "another pass is at work on it; nothing was done.",
    "empty": "nothing waits in the inbox.",
}


def add_options(parser: ArgumentParser) -> None:
    """The options that both commands take."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--estimate", action="store_true", help="say what a pass would send, and send nothing")
    what.add_argument("--undo", action="store_true", help="take the last pass back, where nothing changed since")
    what.add_argument("--again", action="store_true", help="try notes too that were given up")
    add_json(parser)


def run(
    command: BaseCommand, chosen: Sequence[Store], *, estimate: bool, undo: bool, again: bool, as_json: bool, **_: Any
) -> None:
    """Organize some stores, or say what it would take, or take it back.

    Exits 1 when a pass ended early, or could file not one of its notes.
    """
    act = _estimated if estimate else _undone if undo else _organizer(again)
    rows = []
    for store in chosen:
        try:
            row, text = act(store)
        except MemoryNotFound:
            if len(chosen) == 1:
                raise
            row, text = {"run": None}, "no pass that could be undone."
        rows.append({"store": store.name, **row})
        if not as_json:
            console.show(command, f"{stores.display_name(store)}: {text}")
    if as_json or estimate:
        console.answer(command, rows[0] if len(rows) == 1 else {"stores": rows}, _budget(), as_json=as_json)
    if any(row.get("stopped") or (row.get("problems") and not row["drained"]) for row in rows):
        sys.exit(1)


def _organizer(again: bool) -> Callable[[Store], tuple[Row, str]]:
    def act(store: Store) -> tuple[Row, str]:
        result = organize.organize(store, again=again, progress=Bar(sys.stderr))
        return result.as_dict(), _told(result)

    return act


def _told(result: Result) -> str:
    """What a pass did in one sentence, then a line for each note that it left."""
    if result.status in _ENDED and result.run is None:
        return _ENDED[result.status]
    counted = [(getattr(result, name), words) for name, words in _DONE.items()]
    done = ", ".join(f"{count} {words[count != 1]}" for count, words in counted if count)
    if result.problems and not result.drained:
        lines = [f"nothing could be organized, {result.waiting} in the inbox."]
    else:
        lines = [f"{result.drained} organized{f' ({done})' if done else ''}, {result.waiting} in the inbox."]
    if result.stopped:
        lines.append(f"It ended early: {result.stopped}")
    lines += [f"  {one.id} stays: {one.reason}" for one in result.problems]
    if result.left_alone:
        lines.append(f"{result.left_alone} were left alone, given up or taken back; --again tries them, an edit too.")
    return "\n".join(lines)


def _estimated(store: Store) -> tuple[Row, str]:
    found = organize.estimate(store)
    notes = f"{found.notes} note{'s' if found.notes != 1 else ''}"
    text = f"{notes}, one call each, about {found.tokens_in:,} tokens to send and at most as many back."
    if found.left_alone:
        text += f" {found.left_alone} more were given up or taken back; --again tries them."
    if found.skipped:
        text += f" {found.skipped} more cannot be organized."
    return vars(found), text


def _budget() -> str:
    left = llm.remaining()
    return f"Left of today: {left.calls:,} calls and {left.tokens:,} tokens."


def _undone(store: Store) -> tuple[Row, str]:
    last, found = undo_service.undo_last(store, "organize")
    return {"run": last.run, **vars(found)}, found.sentence
