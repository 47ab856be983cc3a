"""From a query to the best passage of each document: by its words, by the nearest vectors where there are some, and
with what weighs on both. The same list answers a recall and explains it.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coffer import db
from memory.files.lanes import Kind
from memory.models import Store
from memory.retrieval import asking, joining, keyword, rows, vectors
from memory.retrieval.asking import Asked, Meaning
from memory.retrieval.vectors import Place

PROJECT_WEIGHT = 1.15  # what a project remembers beats an equal global fact
CANDIDATES = 60
NEAREST = 20

Only = Callable[[sqlite3.Connection, Sequence[str], str, Sequence[int]], set[int]]


class Ranked(NamedTuple):
    """The best passage of one document; its score has the weight of its store in it."""

    score: float
    store: Store
    passage: rows.Passage
    weight: float = 1.0


@dataclass(frozen=True)
class Ranking:
    """Every document that was found, the best first, and the scores by row that this was made of.

    ``models`` are those whose vectors took part; ``notes`` say why others did not.
    """

    ranked: list[Ranked] = field(default_factory=list)
    words: Mapping[int, float] = field(default_factory=dict)
    cosines: Sequence[Mapping[int, float]] = ()
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Found:
    """Passages by their row, and how they stand in both lists."""

    passages: dict[int, rows.Passage]
    words: dict[int, float]
    cosines: list[dict[int, float]] = field(default_factory=list)


def rank(
    stores: Sequence[Store],
    query: str,
    limit: int,
    *,
    late: Mapping[str, set[str]],
    kind: Kind | None = None,
    only: Only | None = None,
    seconds: float | None = 0,
) -> Ranking:
    """Rank the documents of the stores; files in ``late`` are left out.

    ``only`` chooses among the passages found, ``seconds`` is how long the vector of the query is waited for.
    """
    by_pk = {store.pk: store for store in stores if store.pk is not None}
    asked = asking.ask(list(by_pk.values()), query, seconds)
    found = _by_words(by_pk, query, limit, kind, only)
    meanings = asked.meanings() if asked.pending else []
    _add_nearest(found, by_pk, meanings, asked)
    scores = joining.convex(found.words, found.cosines) if found.cosines else found.words
    best: dict[int, Ranked] = {}
    for row, passage in found.passages.items():
        store, score = by_pk.get(passage.store), scores.get(row)
        if store is None or score is None or passage.path in late.get(store.name, ()):
            continue
        if kind is not None and passage.kind != kind:
            continue
        weight = 1.0 if store.name == "global" else PROJECT_WEIGHT
        known = best.get(passage.document)
        if known is None or score * weight > known.score:
            best[passage.document] = Ranked(score * weight, store, passage, weight)
    # Of equal scores the newer first: times are kept as text whose order is theirs.
    ranked = sorted(best.values(), key=lambda one: (one.score, one.passage.time, one.passage.ref), reverse=True)
    models = tuple(one.space.model for one in meanings)
    return Ranking(ranked, found.words, found.cosines, models, tuple(asked.notes))


def rounded(score: float) -> float:
    """A score as callers see it, in four digits: in a small store scores are tiny."""
    return float(f"{score:.4g}")


def distinct(ranked: Sequence[Ranked], limit: int) -> list[Ranked]:
    """The first ``limit``; a copy of a text under another name is no second answer."""
    first: dict[str, Ranked] = {}
    for one in ranked:
        if len(first) == limit:
            break
        first.setdefault(one.passage.text, one)
    return list(first.values())


def _by_words(by_pk: Mapping[int, Store], query: str, limit: int, kind: Kind | None, only: Only | None) -> _Found:
    scopes = [rows.scope_token(store) for store in by_pk.values()]
    wanted = max(CANDIDATES, limit * 6)
    with db.raw() as con:
        if kind is None:
            scores = dict(keyword.search(con, keyword.parse(query), scopes, wanted))
        else:
            scores = dict(keyword.search_kind(con, keyword.parse(query), scopes, wanted, kind))
        passages = rows.passages(con, only(con, scopes, query, list(scores)) if only else scores)
    return _Found({passage.chunk: passage for passage in passages}, scores)


def _add_nearest(found: _Found, by_pk: Mapping[int, Store], meanings: Sequence[Meaning], asked: Asked) -> None:
    """Add the passages nearest to the query, and how near those are that its words found."""
    by_name = {store.name: store for store in by_pk.values()}
    for meaning in meanings:
        by_place = {_place(by_pk, passage): row for row, passage in found.passages.items() if passage.store in by_pk}
        try:
            # What is no nearer than texts that have nothing to do with each other is no answer by itself.
            close = [
                (place, cosine)
                for place, cosine in vectors.nearest(meaning.space, meaning.stores, meaning.vector, NEAREST)
                if cosine > meaning.space.least
            ]
            cosines = dict(close) | vectors.cosines(meaning.space, meaning.vector, list(by_place))
        except vectors.FAILURES:
            asked.notes.append("The vectors cannot be read now.")
            continue
        new = [place for place in cosines if place not in by_place]
        with db.raw() as con:
            passages = rows.passages_at(con, [(by_name[place.store].pk, *place[1:]) for place in new])
        found.passages.update((passage.chunk, passage) for passage in passages)
        by_place |= {_place(by_pk, passage): passage.chunk for passage in passages}
        found.cosines.append({by_place[place]: cosine for place, cosine in cosines.items() if place in by_place})


def _place(by_pk: Mapping[int, Store], passage: rows.Passage) -> Place:
    return Place(by_pk[passage.store].name, passage.path, passage.sha256, passage.position)
