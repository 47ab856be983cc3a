"""``coffer project …``: which store a folder belongs to, why, and how to change that."""

import os
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import console
from coffer.arguments import Verbs
from coffer.templatetags.coffer import counted
from memory.management.naming import named
from memory.services import aliases, counts, identity, splitting, stores
from memory.services.splitting import Chosen

_HOW = {
    "nothing": "{folder} belongs to {store} already.",
    "alias": "{folder} {will}belong{s} to {store} from now on; before it gave {before}.",
    "merge": "{before} {will}become{s} part of {store}.",
}


class Command(BaseCommand):
    help = "Say which store a folder belongs to and why, and change it"

    def add_arguments(self, parser: ArgumentParser) -> None:
        verb = Verbs(parser).add
        one = verb("where", self.where, "Say which store a folder gives, and why.")
        one.add_argument("dir", nargs="?", default=".", help="the folder; default this one")
        verb("list", self.list_projects, "List the projects with all that leads to them.")
        one = verb("move", self.move, "Assign a folder's memory to another store, or take that back.")
        one.add_argument("store", nargs="?", help="the store: name or label")
        one.add_argument("--dir", default=".", help="the folder; default this one")
        one.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        one.add_argument("--undo", action="store_true", help="give the folder its own identity back")
        self._add_split(verb("split", self.split, "Move facts, days and scenes into a store of their own."))
        one = verb("alias", self.alias, "List, add or remove what a store answers to.")
        one.add_argument("what", choices=("list", "add", "remove"), metavar="list|add|remove")
        one.add_argument("store", help="store name, label, or . for the project of this folder")
        one.add_argument("identity", nargs="?", help="a 26-character id, the URL of an origin, or a folder")
        one.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")

    def handle(self, *, run: Callable[..., None], verb: str, **options: Any) -> None:
        run(**options)

    def where(self, *, dir: str, as_json: bool, **_: Any) -> None:
        place = stores.locate(os.path.abspath(dir))
        if place.repository is None or place.project is None or place.resolved is None:
            raise CommandError(place.reason)
        found = {store.name: store for store in stores.all_stores()}.get(place.project.store)
        facts = counts.fact_count(found) if found is not None else None
        row = {
            "folder": os.path.abspath(dir),
            "root": str(place.repository.root),
            "work_tree": str(place.repository.work_tree),
            "origin": place.repository.remote,
            "store": place.project.store,
            "name": place.project.name,
            "facts": facts,
            "why": place.resolved.why,
            "reason": identity.sentence(place.resolved, place.repository),
            "note": place.project.note or None,
        }
        held = "Nothing is remembered there yet."
        if facts is not None:
            held = f"{counted(facts, 'fact or topic,facts and topics')}."
        lines = [f"{row['name']}  {row['store']}", str(row["reason"]), held, place.project.note]
        self._answer(as_json, row, "\n".join(line for line in lines if line))

    def list_projects(self, *, as_json: bool, **_: Any) -> None:
        found = [store for store in stores.all_stores() if stores.scope_of(store) == "project"]
        rows: list[dict[str, Any]] = [
            {
                "store": store.name,
                "name": stores.display_name(store),
                "facts": counts.fact_count(store),
                "aliases": [vars(alias) for alias in aliases.listing(store)],
            }
            for store in found
        ]
        blocks = []
        for row in rows:
            told = [f"    {alias['kind']}: {alias['value']}" for alias in row["aliases"] if alias["kind"] != "own"]
            blocks.append("\n".join([f"{row['name']}  {row['store']}  {counted(row['facts'], 'fact')}", *told]))
        text = "\n".join(blocks) or "No project has memory yet."
        self._answer(as_json, {"projects": rows, "total": len(rows)}, text)

    def move(self, *, store: str | None, dir: str, undo: bool, dry_run: bool, as_json: bool, **_: Any) -> None:
        if store is None and not undo:
            raise CommandError("Say which store: coffer project move STORE [--dir DIR].")
        repository = stores.repository_at(dir)
        if store is None or undo:
            done = aliases.release(repository, dry_run=dry_run)
            text = f"{repository.root} {'would have' if dry_run else 'has'} its own identity again: {done.store}."
        else:
            done = aliases.assign(repository, named(store), dry_run=dry_run)
            will, s = ("would ", "") if dry_run else ("", "s")
            text = _HOW[done.how].format(folder=repository.root, store=done.store, before=done.before, will=will, s=s)
        self._answer(as_json, {**vars(done), "dry_run": dry_run}, text)

    def split(
        self,
        *,
        store: str,
        fact: list[str],
        day: list[str],
        scene: list[str],
        label: str,
        to: str | None,
        dir: str | None,
        undo: bool,
        dry_run: bool,
        as_json: bool,
        **_: Any,
    ) -> None:
        source = named(store)
        target = identity.name_of(stores.repository_at(dir)) if dir else named(to).name if to else ""
        if undo:
            if not target:
                raise CommandError("Say which store was split off: --to STORE or --dir DIR.")
            done = splitting.undo(source, stores.get(target), dry_run=dry_run)
        else:
            chosen = Chosen(fact, day, scene)
            done = splitting.split(source, chosen, target=target, label=label, dry_run=dry_run)
        moved = f"{counted(len(done.facts), 'fact')} and {counted(len(done.files), 'day or scene,days and scenes')}"
        text = f"{moved} {'would move' if dry_run else 'moved'} from {done.source} to {done.target or 'a new store'}."
        text += "".join(f"\n  {one} is not there any more" for one in done.gone)
        text += "\nThe emptied store is archived." if done.retired else ""
        self._answer(as_json, {**vars(done), "dry_run": dry_run}, text)

    def alias(self, *, what: str, store: str, identity: str | None, dry_run: bool, as_json: bool, **_: Any) -> None:
        found = named(store)
        if what == "list":
            rows = [vars(alias) for alias in aliases.listing(found)]
            table = console.table(("KIND", "VALUE"), [(row["kind"], row["value"]) for row in rows])
            return self._answer(as_json, {"store": found.name, "aliases": rows}, table)
        if identity is None:
            raise CommandError(f"Say what to {what}: a 26-character id, the URL of an origin, or a folder.")
        act = aliases.add if what == "add" else aliases.remove
        one = act(found, identity, dry_run=dry_run)
        would = "would " if dry_run else ""
        text = f"{found.name} {would}answer{'s' * (not dry_run)} to {one}{' no longer' * (what == 'remove')}."
        return self._answer(as_json, {"store": found.name, "identity": one, "dry_run": dry_run}, text)

    def _add_split(self, parser: ArgumentParser) -> None:
        parser.add_argument("store", help="store name, label, or . for the project of this folder")
        parser.add_argument(
            "--fact", action="append", default=[], metavar="ID", help="a fact or topic; may be repeated"
        )
        parser.add_argument("--day", action="append", default=[], metavar="DATE", help="a journal day; may be repeated")
        parser.add_argument("--scene", action="append", default=[], metavar="BRANCH", help="a handoff; may be repeated")
        parser.add_argument("--label", default="", help="the name of the new store")
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--to", metavar="STORE", help="a store that is there already")
        where.add_argument("--dir", metavar="DIR", help="the store of this folder's own identity")
        parser.add_argument("--dry-run", action="store_true", help="say what would move, and move nothing")
        parser.add_argument("--undo", action="store_true", help="move back what was moved there")

    def _answer(self, as_json: bool, value: Any, text: str) -> None:
        console.answer(self, value, text, as_json=as_json)
