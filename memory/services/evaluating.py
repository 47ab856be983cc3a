"""How well search finds, in figures: over a data set, over questions of a person's own, or over a store's own titles.

R@k is the share of the relevant documents among the first k, MRR looks at the first ten. Beside it stand a literal
search of the files, and the bare full-text query on the same database, to see the times against.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from coffer import fs
from coffer.errors import Invalid, NoModel
from memory import retrieval
from memory.files import lanes, markdown
from memory.files.lanes import Kind
from memory.models import Document, Store
from memory.services import stores as store_service

_T = TypeVar("_T")
Progress = Callable[[int, int, str], None]
WORDS, VECTORS, LITERAL = "words", "words and vectors", "literal"
MOST_OWN = 300  # questions made of a store's own titles and headings
_LOOKED_AT = 10
_TOGETHER = 100  # queries that are embedded in one go
_TRIES = 3  # of what takes milliseconds, and the best one counts: whatever else the machine does delays the others
_TIMED = 20  # queries whose vector is asked for alone, to see how long it takes
_NAMED_MISSING = 5
_ALL = "all"


@dataclass(frozen=True)
class Question:
    """What is asked, and the ids of the documents that answer it."""

    text: str
    relevant: frozenset[str]
    category: str = _ALL


@dataclass(frozen=True)
class Row:
    """The figures of one method for one kind of question; times in ms."""

    category: str
    method: str
    questions: int
    r5: float
    r10: float
    mrr: float
    p50: float
    p95: float


@dataclass(frozen=True)
class Report:
    """All figures of one run; ``bare`` is p50 and p95 of the bare full-text query, ``vector`` p50 of a vector."""

    name: str
    documents: int
    rows: list[Row]
    bare: tuple[float, float]
    vector: float | None = None
    model: str = ""
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Tally:
    """What one method gave, question by question."""

    method: str
    search: Callable[[str], list[str]]
    tries: int = 1
    found: list[list[str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def ask(self, question: Question) -> None:
        found, ms = _timed(partial(self.search, question.text), self.tries)
        self.found.append(found)
        self.times.append(ms)


def load(folder: Path) -> tuple[list[dict[str, Any]], list[Question]]:
    """The documents and questions of a data set: corpus.jsonl {id, title, text}, queries.jsonl. Raises Invalid."""
    records = list(_lines(folder / "corpus.jsonl", ("id", "text")))
    return records, read_questions(folder / "queries.jsonl")


def read_questions(file: Path) -> list[Question]:
    """Questions from lines of JSON {text, rel: ids of what answers it, cat?}. Raises Invalid."""
    found = []
    for number, line in enumerate(_lines(file, ("text", "rel")), 1):
        if not isinstance(line["rel"], list | dict) or not line["rel"]:
            raise Invalid(f"{file}, question {number}: rel must be a list of the ids of what answers it.")
        found.append(Question(str(line["text"]), frozenset(map(str, line["rel"])), str(line.get("cat") or _ALL)))
    if not found:
        raise Invalid(f"{file} holds no question.")
    return found


def fill(store: Store, records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write a data set as facts, one document one fact; the id of the document for each fact's id."""
    inbox = fs.ensure_dir(store_service.folder(store) / lanes.INBOX)
    ids = {}
    for number, record in enumerate(records):
        meta = {"id": f"d{number:06}", "title": str(record.get("title") or ""), "updated_at": "2026-01-01T00:00:00Z"}
        (inbox / f"{meta['id']}.md").write_bytes(markdown.dump(meta, str(record["text"])))
        ids[meta["id"]] = str(record["id"])
    return ids


def own_questions(store: Store) -> list[Question]:
    """A store's own titles, and the headings of its topics; what several documents say, each of them answers."""
    store_service.refresh(store)
    answers: dict[tuple[str, str], set[str]] = {}
    documents = Document.objects.filter(store_id=store.pk or 0).exclude(kind=Kind.JOURNAL).prefetch_related("chunks")
    for document in documents.order_by("path"):
        asked = [("title", document.title), *(("section", chunk.heading) for chunk in document.chunks.all())]
        for category, text in asked:
            if text.strip():
                answers.setdefault((category, text.rsplit(" > ", 1)[-1]), set()).add(document.ref)
    found = [Question(text, frozenset(refs), category) for (category, text), refs in answers.items()]
    if not found:
        raise Invalid(f"{store_service.display_name(store)} holds no fact or topic to ask for.")
    return found[:: -(-len(found) // MOST_OWN)]


def evaluate(
    name: str,
    store: Store,
    questions: Sequence[Question],
    *,
    ids: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Ask every question of one store, by each method; with vectors where the store is searched by them.

    ``ids`` says which document of a data set a fact is. Raises EngineError, when vectors are to be made and cannot be.
    """
    store_service.refresh(store)
    tallies = [_Tally(WORDS, partial(_search, store, ids, 0.0), _TRIES), _Tally(LITERAL, partial(_literal, store, ids))]
    notes = list(_unanswerable(store, questions, ids))
    model = _embedded(store, progress, notes)
    if model:
        tallies.insert(1, _Tally(VECTORS, partial(_search, store, ids, None), _TRIES))
    vector = _vector_time(store, questions) if model else None
    bare: list[float] = []
    for at in range(0, len(questions), _TOGETHER):
        some = questions[at : at + _TOGETHER]
        if model:
            retrieval.embed_queries(store, [question.text for question in some])
        for number, question in enumerate(some, at):
            if progress is not None:
                progress(number, len(questions), name)
            bare.append(_bare(store, question.text))
            for tally in tallies:
                tally.ask(question)
    if progress is not None:
        progress(len(questions), len(questions), name)
    rows = list(_rows(questions, tallies))
    count = Document.objects.filter(store_id=store.pk or 0).count()
    return Report(name, count, rows, (_middle(bare), _p95(bare)), vector, model, notes)


def _rows(questions: Sequence[Question], tallies: Sequence[_Tally]) -> Iterator[Row]:
    """All questions together, then, where there are several kinds, each kind."""
    kinds = dict.fromkeys((_ALL, *(question.category for question in questions)))
    for category in kinds if len({question.category for question in questions}) > 1 else (_ALL,):
        chosen = [at for at, question in enumerate(questions) if category in (_ALL, question.category)]
        for tally in tallies:
            asked = [(questions[at].relevant, tally.found[at]) for at in chosen]
            times = [tally.times[at] for at in chosen]
            yield Row(
                category,
                tally.method,
                len(chosen),
                round(statistics.fmean(_share(*one, 5) for one in asked), 3),
                round(statistics.fmean(_share(*one, 10) for one in asked), 3),
                round(statistics.fmean(_reciprocal(*one) for one in asked), 3),
                _middle(times),
                _p95(times),
            )


def _share(relevant: frozenset[str], found: Sequence[str], k: int) -> float:
    return len(relevant & set(found[:k])) / len(relevant) if relevant else 0.0


def _reciprocal(relevant: frozenset[str], found: Sequence[str]) -> float:
    return next((1 / place for place, one in enumerate(found[:_LOOKED_AT], 1) if one in relevant), 0.0)


def _search(store: Store, ids: Mapping[str, str] | None, seconds: float | None, query: str) -> list[str]:
    return _named(retrieval.search([store], query, _LOOKED_AT, vector_seconds=seconds), ids)


def _literal(store: Store, ids: Mapping[str, str] | None, query: str) -> list[str]:
    return _named(retrieval.literal([store], query, _LOOKED_AT), ids)


def _named(hits: Iterable[retrieval.Hit], ids: Mapping[str, str] | None) -> list[str]:
    return [hit.ref if ids is None else ids.get(hit.ref, hit.ref) for hit in hits]


def _bare(store: Store, query: str) -> float:
    return _timed(partial(retrieval.bare_query, retrieval.expression([store], query)), _TRIES)[1]


def _timed(work: Callable[[], _T], tries: int) -> tuple[_T, float]:
    """What some work gives, and the ms of its best try."""
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        found = work()
        times.append((time.perf_counter() - began) * 1000)
    return found, min(times)


def _unanswerable(store: Store, questions: Sequence[Question], ids: Mapping[str, str] | None) -> Iterator[str]:
    """What is asked for must be there, or the figures say nothing of the search."""
    there = set(ids.values() if ids is not None else _refs(store))
    missing = sorted(set().union(*(question.relevant for question in questions)) - there)
    if missing:
        shown = ", ".join(missing[:_NAMED_MISSING]) + (", …" if len(missing) > _NAMED_MISSING else "")
        yield f"Documents that are to be found but are not there, {len(missing)} in all: {shown}."


def _refs(store: Store) -> Iterator[str]:
    yield from Document.objects.filter(store_id=store.pk or 0).values_list("ref", flat=True)


def _embedded(store: Store, progress: Progress | None, notes: list[str]) -> str:
    """The model whose vectors are all there now; none where the store is not searched by vectors, or has no model."""
    if not store_service.searched_by_vectors(store):
        if store.config.get("retrieval") == "keyword":
            notes.append("Its own setting is to be searched by words alone, so no vectors took part.")
        return ""
    try:
        done = retrieval.catch_up(store, report=progress)
    except NoModel as error:
        notes.append(error.message)
        return ""
    if done.failed:
        notes.append(f"{done.failed} documents could not be embedded.")
    return done.model


def _vector_time(store: Store, questions: Sequence[Question]) -> float:
    times = []
    for question in questions[:_TIMED]:
        began = time.perf_counter()
        retrieval.embed_queries(store, [question.text])
        times.append((time.perf_counter() - began) * 1000)
    return _middle(times)


def _middle(times: Sequence[float]) -> float:
    return round(statistics.median(times), 2)


def _p95(times: Sequence[float]) -> float:
    return round(sorted(times)[int(len(times) * 0.95)], 2)


def _lines(file: Path, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise Invalid(f"{file} cannot be read: {reason}.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or any(key not in found for key in keys):
            raise Invalid(f"{file}, line {number}: expected a JSON object with {' and '.join(keys)}.")
        yield found
