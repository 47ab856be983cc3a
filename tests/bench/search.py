"""Measure search against its bars: ``python tests/bench/search.py [--passages N ...]``.

Fills temporary homes with so many facts, gives each a vector of 512 numbers that says nothing, and asks the questions
of the data sets: of ``tests/fixtures/devfacts``, and of those in bench/ where COFFER_SHARED names a folder. Bars: at
p50 a search takes at most three times the bare full-text query, at p95 six times, the vector of the question aside; to
index takes at most four times as long as to insert the same rows.
"""

import argparse
import hashlib
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gateway.figures import ms, p95

ROOT = Path(__file__).resolve().parents[2]
SETS = ("tldr_en_1k", "tldr_zh_loo")
QUESTIONS, TRIES = 100, 3
DIMENSION = 512


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, nargs="*", default=[2_000, 15_000, 50_000])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        _measure(options.measure)
        return
    for size in options.passages:
        with tempfile.TemporaryDirectory(prefix="coffer-search-") as home:
            env = {**os.environ, "COFFER_HOME": home, "PYTHONPATH": str(ROOT), "COFFER_RETRIEVAL": "hybrid"}
            env |= {"COFFER_EMBEDDING_BASE_URL": "http://127.0.0.1:9/v1", "COFFER_EMBEDDING_MODEL": "bench"}
            env |= {"COFFER_LLM_DAY_CALLS": "1000000", "DJANGO_SETTINGS_MODULE": "coffer.settings"}
            subprocess.run([sys.executable, __file__, "--measure", str(size)], env=env, check=True)


def _measure(size: int) -> None:
    import django

    django.setup()
    from coffer import db
    from memory import retrieval
    from memory.models import Chunk
    from memory.retrieval import embedding
    from memory.services import stores

    db.prepare()
    texts, questions = _data()
    store = stores.provision("global")
    _fill(stores.folder(store) / "knowledge", texts, size)
    began = time.perf_counter()
    stores.refresh(store)
    indexing = time.perf_counter() - began
    with db.raw() as con:
        inserting = _inserted(con)
    say(f"{Chunk.objects.count()} passages: indexed in {indexing:.1f} s, {indexing / inserting:.2f} (bar 4)")
    _without_a_model()
    embedding.catch_up(store)
    chosen = random.Random(size).sample(questions, min(QUESTIONS, len(questions)))
    for what, asked in (("as they are", chosen), ("of three words", [" ".join(one.split()[:3]) for one in chosen])):
        retrieval.embed_queries(store, asked)
        expressions = {question: retrieval.expression([store], question) for question in asked}
        bare = _times(asked, lambda question: retrieval.bare_query(expressions[question]))  # noqa: B023
        say(f"  questions {what}: the bare query {_both(bare)} ms")
        for name, seconds in (("by words", 0.0), ("with vectors", None)):
            times = _times(asked, lambda question: retrieval.search([store], question, 10, vector_seconds=seconds))  # noqa: B023
            ratios = (statistics.median(times) / statistics.median(bare), p95(times) / p95(bare))
            say(f"    {name:12} {_both(times)} ms, {ratios[0]:.2f} (bar 3) and {ratios[1]:.2f} (bar 6)")


def _data() -> tuple[list[str], list[str]]:
    shared = os.environ.get("COFFER_SHARED")
    folders = [ROOT / "tests" / "fixtures" / "devfacts", *(Path(shared, "bench", name) for name in SETS if shared)]
    texts = [one["text"] for folder in folders for one in _lines(folder / "corpus.jsonl")]
    return texts, [one["text"] for folder in folders for one in _lines(folder / "queries.jsonl")]


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text("utf-8").splitlines())


def _fill(folder: Path, texts: Sequence[str], size: int) -> None:
    """The texts once, then halves of two of them together, until there are enough."""
    chosen = random.Random(1)
    folder.mkdir(parents=True)
    for number in range(size):
        words = texts[number % len(texts)].split(" ")
        if number >= len(texts):
            other = chosen.choice(texts).split(" ")
            words = words[: len(words) // 2] + other[len(other) // 2 :]
        (folder / f"{number}.md").write_text(f"# {' '.join(words[:6])[:60]}\n\n{' '.join(words)}\n", "utf-8")


def _inserted(con: sqlite3.Connection) -> float:
    """The seconds in which the rows that indexing made can be put into a database of the same tables, all at once."""
    tables = ("memory_document", "memory_chunk", "memory_fts")
    rows = {table: con.execute(f"SELECT rowid, * FROM {table}").fetchall() for table in tables}
    again = sqlite3.connect(Path(os.environ["COFFER_HOME"], "again.sqlite3"))
    again.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
    for (statement,) in con.execute(
        "SELECT sql FROM sqlite_master WHERE tbl_name IN (?, ?, ?) AND sql IS NOT NULL", tables
    ):
        again.execute(statement)
    columns = {table: [row[1] for row in con.execute(f"PRAGMA table_info({table})")] for table in tables}
    began = time.perf_counter()
    for table in tables:
        names = ", ".join(["rowid", *columns[table]])
        again.executemany(
            f"INSERT INTO {table}({names}) VALUES ({', '.join('?' * (len(columns[table]) + 1))})", rows[table]
        )
    again.commit()
    seconds = time.perf_counter() - began
    again.close()
    return seconds


def _without_a_model() -> None:
    """Vectors out of the hash of a text: how long a model takes is not what is measured here."""
    from coffer.llm import embeddings

    def asked(_: object, texts: Sequence[str], *__: object) -> list[bytes]:
        return [_vector(text) for text in texts]

    embeddings._asked = asked  # type: ignore[assignment]


def _vector(text: str) -> bytes:
    chosen = random.Random(hashlib.sha256(text.encode()).digest())
    numbers = [chosen.random() - 0.5 for _ in range(DIMENSION)]
    length = sum(number * number for number in numbers) ** 0.5
    return array("f", [number / length for number in numbers]).tobytes()


def _times(questions: Sequence[str], ask: Callable[[str], object]) -> list[float]:
    return [min(ms(partial(ask, question)) for _ in range(TRIES)) for question in questions]


def _both(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.2f} / {p95(times):.2f}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
