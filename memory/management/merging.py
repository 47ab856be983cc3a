"""Merging on the command line: `coffer merge`, `coffer memory merge` and `coffer memory merge-scan`."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import console
from coffer.arguments import add_json
from coffer.templatetags.coffer import counted
from memory.management.naming import named
from memory.services import apart, merge, merge_scan, merge_undo, stores
from memory.services.carry import Did
from memory.services.merge import Plan
from memory.services.merge_undo import Undone

AddVerb = Callable[..., ArgumentParser]
_KINDS = {
    "added": "carried over unchanged",
    "same": "there already",
    "renamed": "kept beside another of the same name",
    "joined": "made one with what is there",
    "left": "left in the archived folder",
}
_ENGINE = {
    "no_model": "No model is connected: pairs that only a reader could judge are left out.",
    "budget": "The engine's budget of today is used up; the rest of the pairs waits.",
    "unavailable": "The engine did not answer; the rest of the pairs waits.",
    "ok": "",
}


def add_verbs(command: BaseCommand, verb: AddVerb) -> None:
    """The verbs of `coffer memory`."""
    one = verb("merge-scan", partial(scan, command), "Find stores that may be one project.", store=False)
    one.add_argument("--not-same", nargs=2, metavar="STORE", help="tell two stores apart: no scan proposes them again")
    one.add_argument("--undo", action="store_true", help="with --not-same: propose them again")
    add_options(verb("merge", partial(run, command), "Make one store part of another.", store=False, json=False))


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("source", nargs="?", help="the store that goes: name, label, or . (without any: the scan)")
    parser.add_argument("target", nargs="?", help="the store that survives")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--undo", action="store_true", help="take back the last merge of SOURCE")
    what.add_argument("--no-organize", action="store_true", help="do not reorganize the survivor afterwards")
    parser.add_argument("--dry-run", action="store_true", help="list what would become of every file, and do nothing")
    add_json(parser)


def run(
    command: BaseCommand,
    *,
    source: str | None,
    target: str | None,
    undo: bool,
    no_organize: bool,
    dry_run: bool,
    as_json: bool,
    **_: Any,
) -> None:
    """Merge, preview or undo; without a store show what the scan finds."""
    if source is None and (undo or dry_run):
        raise CommandError("Say which: coffer merge SOURCE TARGET --dry-run, or coffer merge SOURCE --undo.")
    if source is None:
        scan(command, as_json=as_json)
    elif undo:
        found = merge_undo.preview(_name(source)) if dry_run else merge_undo.undo(_name(source))
        console.answer(command, {**vars(found), "dry_run": dry_run}, _undone(found, dry_run), as_json=as_json)
    elif target is None:
        raise CommandError("Say which store survives: coffer merge SOURCE TARGET.")
    elif dry_run:
        plan = merge.preview(_name(source), _name(target))
        steps = [{"path": step.path, "to": step.to, "did": step.did, "why": step.why} for step in plan.steps]
        console.answer(command, {"plan": steps, "files": plan.counts}, _planned(plan), as_json=as_json)
    else:
        done = merge.merge(_name(source), _name(target), organize=not no_organize)
        row = {**vars(done), "files": done.counts, "retired_dir": str(done.retired)}
        wanted = ("source", "target", "files", "reorg_status", "retired_dir")
        console.answer(command, {key: row[key] for key in wanted}, _merged(done), as_json=as_json)


def scan(
    command: BaseCommand, *, as_json: bool, not_same: list[str] | None = None, undo: bool = False, **_: Any
) -> None:
    """Show the proposals, each with its reason and the command that acts on it; or tell two stores apart."""
    if not_same is not None:
        _tell_apart(command, not_same, undo, as_json)
        return
    if undo:
        raise CommandError("Say which: coffer memory merge-scan --not-same STORE STORE --undo.")
    found = merge_scan.scan()
    names = {store.name: stores.display_name(store) for store in stores.all_stores()}
    lines = []
    for one in found.proposals:
        lines.append(f"{names.get(one.source)} into {names.get(one.target)} ({one.confidence}): {one.reason}")
        lines.append(f"  coffer merge {one.source} {one.target} --dry-run")
    if found.proposals:
        lines.append("`coffer memory merge-scan --not-same STORE STORE` takes a pair out that is not one project.")
    lines = lines or ["No two stores look like one project."]
    lines += [
        f"{names.get(one)} and {names.get(other)} were told apart; "
        f"`coffer memory merge-scan --not-same {one} {other} --undo` takes that back."
        for one, other in found.told_apart
    ]
    if found.truncated:
        lines.append(f"{found.judged} pairs were judged; the next scan goes on with others.")
    if _ENGINE[found.engine]:
        lines.append(_ENGINE[found.engine])
    row = {**vars(found), "proposals": [vars(one) for one in found.proposals]}
    console.answer(command, row, "\n".join(lines), as_json=as_json)


def _tell_apart(command: BaseCommand, given: list[str], undo: bool, as_json: bool) -> None:
    one, other = map(named, given)
    changed = apart.tell(one, other, undo=undo)
    both = f"{stores.display_name(one)} and {stores.display_name(other)}"
    text = f"{both} are {'no longer ' if undo else ''}told apart{'.' if changed else ', and were so before.'}"
    row = {"stores": [one.name, other.name], "told_apart": not undo, "changed": changed}
    console.answer(command, row, text, as_json=as_json)


def _name(given: str) -> str:
    """A store's name as given, there or not: a merge that was cut off names one that has gone."""
    return given if stores.is_name(given) else named(given).name


def _planned(plan: Plan) -> str:
    rows = [(step.did, step.path, "" if step.to in ("", step.path) else f"-> {step.to}") for step in plan.steps]
    table = console.table(("", "FILE", ""), rows) if rows else "There are no files."
    return f"{table}\n{_tally(plan.counts)}. Nothing was done."


def _merged(done: merge.Merged) -> str:
    return (
        f"Merged {done.source} into {done.target}: {_tally(done.counts)}.\n"
        f"The old folder is kept as {done.retired}; `coffer merge {done.source} --undo` takes the merge back."
    )


def _tally(counts: dict[Did, int]) -> str:
    return (
        "; ".join(f"{counted(count, 'file')} {_KINDS[kind]}" for kind, count in counts.items() if count) or "no files"
    )


def _undone(found: Undone, dry_run: bool) -> str:
    would = "would be " if dry_run else ""
    lines = [
        f"{found.source} {'would be' if dry_run else 'is'} what it was before it was merged into {found.target}: "
        f"{counted(len(found.removed), 'file')} {would}taken out there, {len(found.parted)} parted."
    ]
    lines += [f"  {path} stays there: {why}" for path, why in found.kept]
    lines += [f"  {path} was written there since and stays" for path in found.since]
    return "\n".join(lines)
