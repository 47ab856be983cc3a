"""``coffer eval``: how well search finds, on a data set in a temporary home, or on a store of one's own."""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer import db, env, launchers
from memory.management import naming
from memory.management.progress import Bar
from memory.services import evaluating, stores
from memory.services.evaluating import Report

_INSIDE = "COFFER_EVAL_HOME"
_KEPT = ("COFFER_EMBEDDING_BASE_URL", "COFFER_EMBEDDING_MODEL", "COFFER_RETRIEVAL")
_HEAD = ("set", "questions", "number", "by", "R@5", "R@10", "MRR", "p50 ms", "p95 ms")


class Command(BaseCommand):
    help = "Measure how well search finds: R@5, R@10, MRR and time, beside a literal search"
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "dataset", nargs="*", help="folders with corpus.jsonl {id, title, text} and queries.jsonl {text, rel, cat}"
        )
        parser.add_argument("--store", help="ask a store of yours: name, label, or . for the project of this folder")
        parser.add_argument("--queries", help="file of questions for it; without one its own titles and headings")
        parser.add_argument(
            "--hybrid", action="store_true", help="with vectors too, also where they are not switched on"
        )
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(
        self, *, dataset: list[str], store: str | None, queries: str | None, hybrid: bool, as_json: bool, **_: Any
    ) -> None:
        if bool(dataset) == bool(store) or (queries and not store):
            raise CommandError("Name data sets, or a store with --store; --queries goes with a store.")
        if hybrid:
            os.environ["COFFER_RETRIEVAL"] = "hybrid"
        if store is not None:
            self._show([_own(store, queries)], as_json)
        elif os.environ.get(_INSIDE) != os.environ.get("COFFER_HOME") or _INSIDE not in os.environ:
            _run_in_temporary_home(dataset, as_json)
        else:
            self._show(list(_measured(dataset)), as_json)

    def _show(self, reports: Sequence[Report], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"reports": [report.as_dict() for report in reports]}, ensure_ascii=False))
        else:
            self.stdout.write("\n".join(_told(reports)))


def _own(name: str, queries: str | None) -> Report:
    db.prepare()
    store = naming.named(name)
    questions = evaluating.read_questions(Path(queries)) if queries else evaluating.own_questions(store)
    return evaluating.evaluate(stores.display_name(store), store, questions, progress=Bar(sys.stderr))


def _measured(folders: Sequence[str]) -> Iterator[Report]:
    """Each data set as the global store of the temporary home, one after the other."""
    db.prepare()
    for folder in folders:
        records, questions = evaluating.load(Path(folder))
        store = stores.provision("global")
        for file in stores.folder(store).rglob("*.md"):
            file.unlink()
        ids = evaluating.fill(store, records)
        yield evaluating.evaluate(Path(folder).name, store, questions, ids=ids, progress=Bar(sys.stderr))


def _run_in_temporary_home(folders: Sequence[str], as_json: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="coffer-eval-") as home:
        settings = {name: env.text(name) for name in _KEPT}
        settings["COFFER_EMBEDDING_API_KEY"] = env.secret("COFFER_EMBEDDING_API_KEY")
        limits = {"COFFER_LLM_DAY_CALLS": "100000", "COFFER_LLM_DAY_TOKENS": str(2**40)}  # of a ledger of its own
        place = {"COFFER_HOME": home, _INSIDE: home, "PYTHONPATH": str(launchers.root())}
        command = [
            sys.executable,
            "-P",
            "-s",
            "-m",
            "coffer.cli",
            "eval",
            *(str(Path(one).resolve()) for one in folders),
        ]
        flags = ["--json"] if as_json else []
        done = subprocess.run([*command, *flags], env={**os.environ, **settings, **limits, **place}, check=False)
    if done.returncode:
        sys.exit(done.returncode)  # it has said why


def _told(reports: Sequence[Report]) -> Iterator[str]:
    """A table that is Markdown, and under it what the times are to be seen against."""
    rows = [_HEAD, *(row for report in reports for row in _rows(report))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    yield from (lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:], "")
    for report in reports:
        vector = f"; vector of a query p50 {report.vector:.1f} ms ({report.model})" if report.vector is not None else ""
        bare = f"bare full-text query p50 {report.bare[0]:.2f} ms, p95 {report.bare[1]:.2f} ms"
        yield f"{report.name}: {report.documents} documents; {bare}{vector}."
        yield from (f"{report.name}: {note}" for note in report.notes)


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    for row in report.rows:
        figures = (f"{row.r5:.3f}", f"{row.r10:.3f}", f"{row.mrr:.3f}", f"{row.p50:.1f}", f"{row.p95:.1f}")
        yield report.name, row.category, str(row.questions), row.method, *figures
