"""The verbs of ``coffer memory`` for the lanes beside knowledge: each calls one service and says what to print."""

from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coffer import console
from coffer.arguments import count
from memory.files import markdown
from memory.models import Store
from memory.services import changelog, handoff, journal, rules, stores, superseded


@dataclass(frozen=True)
class Answer:
    """What a script reads, and what a person reads."""

    value: Any
    text: str


Show = Callable[..., Answer]
AddVerb = Callable[[str, Show, str], ArgumentParser]


def add_verbs(verb: AddVerb) -> None:
    """Register the verbs; each takes ``--json``."""
    one = verb("rules", show_rules, "Print the rules as they are written.")
    choice = one.add_mutually_exclusive_group()
    choice.add_argument("--ids", action="store_true", help="one line per rule, with its id")
    choice.add_argument("--add", metavar="TEXT", help="write a rule; one that stands there already is not doubled")
    choice.add_argument("--keep", metavar="ID", help="say that a new rule is right")
    choice.add_argument("--remove", metavar="ID", help="take a rule out; the file before is kept in superseded/")
    one = verb("journal", show_journal, "Print the journal, newest day first.")
    one.add_argument("--limit", type=count, default=7, metavar="DAYS")
    one.add_argument("--remove", metavar="DAY", help="move a day (YYYY-MM-DD) to superseded/")
    one = verb("handoff", show_handoff, "Print the working state of each branch.")
    one.add_argument("--remove", metavar="BRANCH", help="move a branch's handoff to superseded/")
    verb("changelog", show_changelog, "Print what the organizer did.")
    one = verb("superseded", show_superseded, "List what was replaced or deleted, newest first, or print one of it.")
    one.add_argument("file", nargs="?")
    one = verb("restore", restore, "Put a file of superseded/ back; what stands there now is kept in its stead.")
    one.add_argument("file")


def show_rules(store: Store, *, ids: bool, add: str | None, keep: str | None, remove: str | None, **_: Any) -> Answer:
    if add is not None:
        added = rules.append(store, add, actor="user")
        return Answer({"added": added}, "Added." if added else "That rule stands there already.")
    if keep:
        rule = rules.keep(store, keep)
        return Answer(_rule(rule), f"Kept: {rule.text}")
    if remove:
        rule = rules.remove(store, remove)
        return Answer(_rule(rule), f"Removed: {rule.text}\nThe file before is kept in superseded/.")
    text, found = rules.text(store), rules.listing(store)
    rows = [(rule.id, "new" if rule.new else "", " ".join(rule.text.split())) for rule in found]
    shown = console.table(("ID", "", "RULE"), rows) if ids else text
    return Answer({"text": text, "rules": [_rule(rule) for rule in found]}, shown or f"{_name(store)} has no rules.")


def show_journal(store: Store, *, limit: int, remove: str | None, **_: Any) -> Answer:
    if remove:
        journal.remove(store, remove)
        return Answer({"removed": remove}, f"Removed {remove}; its file is kept in superseded/.")
    days = journal.days(store)
    shown = days[:limit]
    texts = [day.text for day in shown]
    if len(shown) < len(days):
        texts.append(f"{len(shown)} of {len(days)} days; --limit shows more.")
    files = [{**vars(day), "path": str(day.path)} for day in shown]
    text = "\n\n".join(texts) if days else f"{_name(store)} has no journal."
    return Answer({"files": files, "total": len(days)}, text)


def show_handoff(store: Store, *, remove: str | None, **_: Any) -> Answer:
    scenes = handoff.scenes(store)
    if remove:
        slug = next((scene.slug for scene in scenes if remove in (scene.branch, scene.slug)), remove)
        handoff.remove(store, slug)
        return Answer({"removed": slug}, f"Removed the handoff of {remove}; its file is kept in superseded/.")
    texts = [
        f"{scene.branch}  {scene.updated_at or 'at an unknown time'}\n{scene.path}\n\n{console.indent(scene.text)}"
        for scene in scenes
    ]
    found = [{**vars(scene), "path": str(scene.path)} for scene in scenes]
    return Answer({"scenes": found, "total": len(found)}, "\n\n".join(texts) or f"{_name(store)} has no handoffs.")


def show_changelog(store: Store, **_: Any) -> Answer:
    log = changelog.read(store)
    text = log.text or f"{_name(store)} has no consolidation log; the organizer writes it."
    return Answer({"text": log.text, "path": str(log.path)}, text)


def show_superseded(store: Store, *, file: str | None, **_: Any) -> Answer:
    if file:
        text = superseded.read(store, file)
        return Answer({"file": file, "text": text}, text)
    found = superseded.listing(store)
    rows = [(line.file, _age(line.when), line.why, line.path) for line in found]
    text = f"{console.table(('FILE', 'AGE', 'WHY', 'STOOD AT'), rows)}\n{len(found)} in all"
    nothing = f"Nothing of {_name(store)} was replaced or deleted."
    return Answer({"superseded": [vars(line) for line in found], "total": len(found)}, text if found else nothing)


def restore(store: Store, *, file: str, **_: Any) -> Answer:
    path = superseded.restore(store, file)
    return Answer({"path": str(path)}, f"Restored {path}.")


def _name(store: Store) -> str:
    return stores.display_name(store)


def _rule(rule: rules.Rule) -> dict[str, Any]:
    return {**vars(rule), "path": str(rule.path)}


def _age(when: str) -> str:
    moment = markdown.timestamp(when)
    return console.ago(moment) if moment is not None else "-"
