"""``coffer memory …``: memory on the command line, on the files directly, with or without a daemon."""

import os
import shlex
import subprocess
import sys
import tempfile
from argparse import ArgumentParser as Parser
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import console, scrub
from coffer.arguments import Verbs, count, whole
from coffer.errors import Invalid
from memory.files import markdown
from memory.management import explaining, lanes, merging, organizing, reorganizing
from memory.management.naming import named as _store
from memory.management.naming import named_for
from memory.management.progress import Bar
from memory.models import Store
from memory.services import browse, counts, embedding, facts, moves, recall, stores, superseded


class Command(BaseCommand):
    help = "List, search, add, correct, delete and restore what is remembered"

    def add_arguments(self, parser: Parser) -> None:
        verbs = Verbs(parser)

        def verb(name: str, run: Callable[..., None], text: str, *, store: bool = True, json: bool = True) -> Parser:
            one = verbs.add(name, run, text, json=json)
            if store:
                one.add_argument("store", help="store name, label, or . for the project of this folder")
            return one

        verb("list", self.list, "List the stores.", store=False)
        verb("show", self.show, "Show one store.")
        one = verb("facts", self.facts, "List a store's facts and topics, newest first.")
        one.add_argument("--limit", type=count, default=50)
        one = verb("get", self.get, "Print one fact or topic.")
        one.add_argument("id")
        one = verb("add", self.add, "Add a fact; the text is read from stdin when it is - or missing.")
        one.add_argument("text", nargs="?", default="-")
        one.add_argument("--title", default="")
        one.add_argument("--description", default="")
        one = verb("edit", self.edit, "Correct a fact: with options, or in $EDITOR without any.")
        one.add_argument("id")
        one.add_argument("--text")
        one.add_argument("--title")
        one.add_argument("--description")
        one = verb("delete", self.delete, "Move a fact or topic to superseded/.")
        one.add_argument("id")
        one.add_argument("--forever", action="store_true", help="leave no byte of it, in the archive either")
        one = verb("move", self.move, "Move a fact or topic to another store; its id stays.")
        one.add_argument("id")
        one.add_argument("to", help="the other store: name, label, or . for the project of this folder")
        one = verb("clear", self.clear, "Move every fact and topic of a store to superseded/.")
        one.add_argument("--yes", action="store_true", help="do not ask")
        one = verb("label", self.label, "Give a store a readable name; an empty one clears it.")
        one.add_argument("label")
        one = verb("recall", self.recall, "Show what an agent would be told.")
        one.add_argument("query")
        one.add_argument("--scope", choices=stores.SCOPES, default="both")
        one.add_argument("--top-k", type=whole(1, recall.MAX_TOP_K), default=recall.DEFAULT_TOP_K)
        one.add_argument("--explain", action="store_true", help="say why they came out so")
        lanes.add_verbs(partial(self._lane_verb, verb))
        text = "File the notes of the inbox under topics and rules."
        organizing.add_options(verb("organize", self.organize, text, json=False))
        text = "Merge topics that overlap, and promote what recurs in the journal."
        reorganizing.add_options(verb("reorg", self.reorg, text, json=False))
        merging.add_verbs(self, verb)
        one = verb("embed", self.embed, "Make the vectors that a store lacks, now and not in the background.")
        one.add_argument(
            "--test",
            action="store_true",
            help="only try the model: whether it answers, how fast, and what it is unfit for",
        )
        verb("reindex", self.reindex, "Build the whole index anew from the files.", store=False, json=False)

    def handle(self, *, run: Callable[..., None], verb: str, **options: Any) -> None:
        if verb == "add":
            options["text"] = _from_stdin() if options["text"] == "-" else _typed(options["text"])
            options["store"] = named_for(options["text"], options["store"])
        elif "store" in options:
            said = options.get("add")
            if said is not None:
                _typed(said)
            options["store"] = _store(options["store"], writing=said is not None)
        run(**options)

    def list(self, *, as_json: bool, **_: Any) -> None:
        rows = [_store_row(store) for store in stores.all_stores()]
        table = [(row["display_name"], row["name"], str(row["fact_count"]), row["root"] or "-") for row in rows]
        text = console.table(("NAME", "STORE", "FACTS", "FOLDER"), table)
        self._answer(as_json, {"memory_stores": rows, "total": len(rows)}, text)

    def show(self, store: Store, *, as_json: bool, **_: Any) -> None:
        row = _store_row(store) | {"config": stores.config(store)} | _metrics_row(store)
        self._answer(as_json, row, console.pairs(row))

    def facts(self, store: Store, *, limit: int, as_json: bool, **_: Any) -> None:
        found, total = facts.newest([store], limit=limit)
        table = [(fact.id, fact.kind, console.ago(fact.time), fact.title) for fact in found]
        text = f"{console.table(('ID', 'KIND', 'AGE', 'TITLE'), table)}\n{len(found)} of {total}"
        self._answer(as_json, {"facts": [fact.as_dict() for fact in found], "total": total}, text)

    def get(self, store: Store, *, id: str, as_json: bool, **_: Any) -> None:
        fact = facts.get(store, id)
        self._answer(as_json, _fact_row(fact), f"# {fact.title}\n{fact.path}\n\n{fact.text}")

    def add(self, store: Store, *, text: str, title: str, description: str, as_json: bool, **_: Any) -> None:
        saved = facts.remember(store, text, actor="user", title=title, description=description)
        self._answer(as_json, {"id": saved.id, "path": str(saved.path)}, f"{saved.id}  {saved.path}")
        found = scrub.redact(facts.checked_text(store, text)).found
        if found:  # a person's words stay as they are, but agents are told them
            kinds = ", ".join(f"{one.kind} in line {one.line}" for one in found)
            self.stderr.write(
                f"coffer: The text seems to hold a secret ({kinds}), and it is stored as typed; "
                f"`coffer memory delete {store.name} {saved.id} --forever` leaves no byte of it."
            )

    def edit(self, store: Store, *, id: str, text: str | None, as_json: bool, **options: Any) -> None:
        changes = {key: options[key] for key in ("title", "description")}
        seen = None
        if text is None and not any(value is not None for value in changes.values()):
            fact = facts.get(store, id)
            text, seen = _in_editor(fact.text), fact.sha256
            if text.rstrip() == fact.text.rstrip():
                raise CommandError("Nothing was changed in the editor.")
        fact = facts.edit(store, id, text=text, if_sha256=seen, **changes)
        row = _fact_row(fact) | {"archived": _last_version(store, fact.path)}
        self._answer(as_json, row, f"Corrected {fact.id}: {fact.title}")

    def delete(self, store: Store, *, id: str, forever: bool, as_json: bool, **_: Any) -> None:
        archived = facts.delete(store, id, forever=forever)
        row = {"id": id, "store": store.name, "archived": str(archived) if archived else None}
        self._answer(as_json, row, f"Erased {id}." if forever else f"Deleted {id}; its file is kept in superseded/.")

    def move(self, store: Store, *, id: str, to: str, as_json: bool, **_: Any) -> None:
        before = facts.get(store, id).path
        target = _store(to, writing=to == ".")  # a project's store may begin with what is moved there
        fact = moves.move(store, id, target)
        row = _fact_row(fact) | {"store": target.name, "archived": _last_version(store, before)}
        self._answer(as_json, row, f"Moved {fact.id} to {stores.display_name(target)}: {fact.path}")

    def clear(self, store: Store, *, yes: bool, as_json: bool, **_: Any) -> None:
        name, count = stores.display_name(store), counts.fact_count(store)
        question = f"Move all {count} facts of {name} to superseded/?"
        console.confirm(question, yes=yes, otherwise="--yes moves them without asking.")
        count = facts.clear(store)
        row = {"store": store.name, "cleared": count, "archive": str(superseded.folder(store))}
        self._answer(as_json, row, f"Moved {count} facts of {name} to superseded/.")

    def label(self, store: Store, *, label: str, as_json: bool, **_: Any) -> None:
        store = stores.set_label(store, label)
        self._answer(as_json, _store_row(store), f"{store.name} is shown as {stores.display_name(store)}.")

    def recall(
        self, store: Store, *, query: str, scope: str, top_k: int, explain: bool, as_json: bool, **_: Any
    ) -> None:
        searched = stores.with_scope(store, scope)
        hits, why = recall.explain(searched, query, top_k=top_k, counted=True, vector_seconds=recall.ALONE_SECONDS)
        texts = [
            f"{hit.id}  {share} %  {hit.source}\n{console.indent(hit.text)}\n"
            for hit, share in zip(hits, browse.shares(hits), strict=True)
        ]
        nothing = "Nothing found. Other words, an identifier or the other language may find it."
        texts = texts or [nothing]
        value: dict[str, Any] = {"hits": [hit.as_dict() for hit in hits]}
        if explain:
            value["explanation"] = why.as_dict()
            texts.append(explaining.told(why))
        self._answer(as_json, value, "\n".join(texts))

    def organize(self, store: Store, **options: Any) -> None:
        organizing.run(self, [store], **options)

    def reorg(self, store: Store, **options: Any) -> None:
        reorganizing.run(self, store, **options)

    def embed(self, store: Store, *, test: bool, as_json: bool, **_: Any) -> None:
        if test:
            tried = embedding.trial(store)
            said = [f"It says: {tried.said}"] if tried.said else []
            self._answer(as_json, vars(tried), "\n".join([tried.message, *said, *tried.warnings]))
            if not tried.ok:
                sys.exit(1)
            return
        done = embedding.catch_up(store, report=Bar(sys.stderr))
        text = f"{done.embedded} of {done.files} files are embedded by {done.model}; {done.failed} failed."
        self._answer(as_json, vars(done), text)

    def reindex(self, **_: Any) -> None:
        read, problems = stores.reindex(progress=self._progress if self.stdout.isatty() else None)
        console.show(self, f"{read} files read, {len(problems)} with warnings.")
        for path, problem in problems:
            console.show(self, f"  {path}: {problem}")
        if problems:
            sys.exit(1)

    def _lane_verb(self, verb: Callable[..., Parser], name: str, show: lanes.Show, text: str) -> Parser:
        def run(store: Store, *, as_json: bool, **options: Any) -> None:
            answer = show(store, **options)
            self._answer(as_json, answer.value, answer.text)

        return verb(name, run, text)

    def _progress(self, name: str) -> None:
        self.stderr.write(f"indexing {name}")

    def _answer(self, as_json: bool, value: Any, text: str) -> None:
        console.answer(self, value, text, as_json=as_json)


def _from_stdin() -> str:
    data = sys.stdin.buffer.read()
    if not markdown.is_text(data):
        raise Invalid("What came on stdin is no text (UTF-8 without NUL); nothing was remembered.")
    return data.decode()


def _typed(text: str) -> str:
    """An argument that is to be kept. Raises Invalid when the terminal sent bytes that are no UTF-8."""
    if not markdown.is_text(os.fsencode(text)):
        raise Invalid("The text is not valid UTF-8; nothing was remembered.")
    return text


def _store_row(store: Store) -> dict[str, Any]:
    return {
        "name": store.name,
        "display_name": stores.display_name(store),
        "root": store.project_root or None,
        "fact_count": counts.fact_count(store),
        "store_dir": str(stores.folder(store)),
    }


def _metrics_row(store: Store) -> dict[str, Any]:
    metrics = vars(counts.metrics(store))
    return {key: markdown.stamp(value) if key == "last_write_at" and value else value for key, value in metrics.items()}


def _fact_row(fact: facts.Fact) -> dict[str, Any]:
    return {key: markdown.stamp(value) if isinstance(value, datetime) else value for key, value in vars(fact).items()}


def _last_version(store: Store, path: Path) -> str | None:
    """Where the version lies that was archived last of a file."""
    found = browse.versions(store, path.relative_to(stores.folder(store)).as_posix())
    return str(superseded.folder(store) / found[0].file) if found else None


def _in_editor(text: str) -> str:
    """What a person makes of a text in $VISUAL or $EDITOR."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="coffer-") as folder:
        path = Path(folder) / "fact.md"
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(editor), str(path)], check=True)
        except subprocess.CalledProcessError as error:
            how = f"ended with code {error.returncode}" if error.returncode > 0 else "was killed"
            raise Invalid(f"The editor {editor!r} {how}; nothing was changed.") from error
        except (OSError, ValueError) as error:
            raise Invalid(f"The editor {editor!r} cannot be started; set EDITOR. Nothing was changed.") from error
        return path.read_text(encoding="utf-8")
