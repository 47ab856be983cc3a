"""The engine's only door: bring the index in line with the files, and search it.

One full-text index serves all stores, filtered by store, so that scores compare (retrieval.md: one ranking beats joined
ones). Files that the index cannot answer for right now are read as they are.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError, transaction
from django.db.models import F

from coffer import db, paths
from memory.files import lanes
from memory.files.lanes import Kind, Listing
from memory.models import Chunk, Document, Store
from memory.retrieval import embedding, grep, keyword, reconcile, relevance, rows
from memory.retrieval.asking import SECONDS as VECTOR_SECONDS
from memory.retrieval.asking import embed_queries
from memory.retrieval.embedding import Coverage, catch_up, coverage
from memory.retrieval.entries import MAX_BYTES, Entry, read_entry
from memory.retrieval.explain import Candidate, Explanation, explained
from memory.retrieval.fusion import reciprocal_rank_fusion
from memory.retrieval.ranking import CANDIDATES, PROJECT_WEIGHT, Ranking, distinct, rank, rounded
from memory.retrieval.reconcile import Changes
from memory.retrieval.rows import Title, title_of
from memory.retrieval.spaces import PROBE, Measure, embedder_of, hybrid, measure

__all__ = [
    "MAX_BYTES",
    "PROBE",
    "PROJECT_WEIGHT",
    "VECTOR_SECONDS",
    "Candidate",
    "Changes",
    "Coverage",
    "Entry",
    "Explanation",
    "Hit",
    "Measure",
    "Title",
    "bare_query",
    "belonging",
    "catch_up",
    "check",
    "coverage",
    "create",
    "embed_queries",
    "embedder_of",
    "erase_vectors",
    "explain",
    "expression",
    "forget",
    "hybrid",
    "late",
    "listing",
    "literal",
    "measure",
    "mend",
    "optimize",
    "peek",
    "rebuild",
    "ref_of",
    "refresh",
    "search",
    "skipped",
    "title_of",
    "titles",
]


@dataclass(frozen=True)
class Hit:
    """One document with its best passage."""

    store: str
    ref: str
    kind: str
    path: Path
    text: str
    score: float
    time: datetime


def refresh(store: Store, files: Sequence[str] | None = None) -> Changes:
    """Bring the index in line with the store's folder, or with the named files only (FR-010)."""
    return reconcile.refresh(store, paths.store(store.name), files)


def search(
    stores: Sequence[Store],
    query: str,
    limit: int,
    behind: Mapping[str, Sequence[str]] | None = None,
    *,
    kind: Kind | None = None,
    vector_seconds: float | None = VECTOR_SECONDS,
) -> list[Hit]:
    """The best ``limit`` documents of the stores for a person's words; any text is a valid query (FR-008, FR-009).

    ``behind`` names, by store, files whose newest state is not in the index: they are searched on disk instead.
    ``kind`` is what alone is looked for. ``vector_seconds`` is how long the vector of the query is waited for, where
    a store is searched by vectors: 0 not at all, None as long as it takes.
    """
    return _searched(stores, query, limit, behind, kind, vector_seconds)[0]


def explain(
    stores: Sequence[Store],
    query: str,
    limit: int,
    behind: Mapping[str, Sequence[str]] | None = None,
    *,
    vector_seconds: float | None = VECTOR_SECONDS,
) -> tuple[list[Hit], Explanation]:
    """What ``search`` gives, and why."""
    hits, ranking, on_disk = _searched(stores, query, limit, behind, None, vector_seconds)
    with db.raw() as con:
        scopes = [rows.scope_token(store) for store in stores if store.pk]
        reading = keyword.read(con, keyword.parse(query), scopes)
    return hits, explained(reading, ranking, limit, on_disk)


def literal(stores: Sequence[Store], query: str, limit: int) -> list[Hit]:
    """What a literal search of the files alone finds; to measure against."""
    return _finished(_from_files(stores, query, limit, None, None), limit)


def belonging(
    stores: Sequence[Store], text: str, limit: int, behind: Mapping[str, Sequence[str]] | None = None
) -> list[Hit]:
    """The best ``limit`` documents that clearly belong to a text, mostly none; files in ``behind`` are left out."""
    if not stores or not text.strip():
        return []
    late = {name: set(files) for name, files in (behind or {}).items()}
    ranking = rank(stores, text[: relevance.MOST_CHARS], limit, late=late, only=relevance.belonging)
    return _finished(_hits(ranking, limit), limit)


def expression(stores: Sequence[Store], query: str) -> str:
    """The full-text expression that a query becomes for these stores; to measure and to explain."""
    with db.raw() as con:
        return keyword.match_expression(con, keyword.parse(query), [rows.scope_token(store) for store in stores])


def bare_query(expression: str) -> None:
    """The full-text query alone, without all that makes hits of it; to measure against."""
    with db.raw() as con:
        keyword.bare(con, expression, CANDIDATES)


def peek(store: Store, name: str) -> Entry | None:
    """One file as it is on disk now, whatever the index knows of it; None when it has gone."""
    folder = paths.store(store.name)
    stat = lanes.stat(folder, name)
    try:
        return read_entry(folder, name, stat, None) if stat is not None else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return Entry.unreadable(name, stat, os.strerror(error.errno or 0)) if stat is not None else None


def late(store: Store, files: Sequence[str], limit: int | None = None) -> list[tuple[str, Entry]]:
    """The newest of some files that the index is behind with, read now, each with the id that callers know it by."""
    folder = paths.store(store.name)
    stats = {name: stat for name in files if (stat := lanes.stat(folder, name)) is not None}
    newest = sorted(stats, key=lambda name: -stats[name].mtime_ns)[:limit]
    entries = [entry for name in newest if (entry := peek(store, name)) is not None]
    return [(_ref(store, entry), entry) for entry in entries]


def ref_of(store: Store, path: str) -> str:
    """The id that callers know an indexed file by; empty when the index does not hold it."""
    with db.raw() as con:
        return rows.ref_of(con, store, path)


def titles(store: Store, kind: str, limit: int | None, holds: rows.Holds | None = None) -> list[Title]:
    """The newest indexed documents of one kind, without their texts; ``holds`` chooses by title, description, path."""
    with db.raw() as con:
        return rows.titles(con, store, kind, limit, holds)


def forget(store: Store) -> None:
    """Drop everything the index holds of a store; its files stay."""
    reconcile.forget(store)


def listing(store: Store) -> Listing:
    """What the last refresh of a store in this process found on disk; a walk now when there was none."""
    return reconcile.walked(store) or lanes.walk(paths.store(store.name))


def skipped(store: Store) -> list[tuple[str, str]]:
    """Files that the last refresh of a store in this process did not serve, each with the reason."""
    return listing(store).skipped


def create() -> None:
    """Make the full-text table where there is none (its migration calls this)."""
    with db.raw() as con:
        keyword.create(con)


def mend() -> None:
    """Rebuild an index that is missing or unsound; forgets what this process knew of another database."""
    reconcile.reset()
    if not check():
        rebuild()


def rebuild() -> None:
    """Drop the whole index; the next refresh of each store fills it again from the files."""
    with transaction.atomic():
        Chunk.objects.all()._raw_delete("default")
        Document.objects.all()._raw_delete("default")
        # Other processes learn by it that what they know of the index is no longer so.
        Store.objects.update(generation=F("generation") + 1)
        with db.raw() as con:
            keyword.drop(con)
            keyword.create(con)
    reconcile.reset()


def check() -> bool:
    """Whether the full-text table is sound and holds exactly the indexed passages."""
    try:
        with db.raw() as con:
            keyword.check(con)
            return keyword.count(con) == Chunk.objects.count()
    except DatabaseError as error:
        return not db.damaged(error)  # a busy database is not a damaged one


def optimize() -> None:
    """Rewrite the full-text table so that no word of a deleted document is left in it."""
    with db.raw() as con:
        keyword.optimize(con)


def erase_vectors(store: Store) -> None:
    """Leave no vector of what is no longer in the index of a store. Raises Busy when it cannot be done now."""
    embedding.tidy(store)


def _hits(ranking: Ranking, limit: int) -> list[Hit]:
    return [
        Hit(
            one.store.name,
            one.passage.ref,
            one.passage.kind,
            paths.store(one.store.name) / one.passage.path,
            one.passage.text,
            rounded(one.score),
            one.passage.when,
        )
        for one in distinct(ranking.ranked, limit)
    ]


def _searched(
    stores: Sequence[Store],
    query: str,
    limit: int,
    behind: Mapping[str, Sequence[str]] | None,
    kind: Kind | None,
    vector_seconds: float | None,
) -> tuple[list[Hit], Ranking, int]:
    """The hits, the ranking of the index that they come from, and how many the files themselves gave."""
    if not stores or not query.strip():
        return [], Ranking(), 0
    late = {name: set(files) for name, files in (behind or {}).items()}
    ranking = rank(stores, query, limit, late=late, kind=kind, seconds=vector_seconds)
    indexed = _hits(ranking, limit)
    on_disk: list[Hit] = []
    if any(late.values()) or not indexed:
        on_disk = _from_files(stores, query, limit, late if indexed else None, kind)
    if not on_disk:
        return indexed, ranking, 0
    fused = reciprocal_rank_fusion([[_identity(hit) for hit in hits] for hits in (indexed, on_disk)])
    by_identity = {_identity(hit): hit for hit in (*indexed, *on_disk)}
    return _finished([by_identity[identity] for identity, _ in fused], limit), ranking, len(on_disk)


def _from_files(
    stores: Sequence[Store], query: str, limit: int, late: Mapping[str, set[str]] | None, kind: Kind | None
) -> list[Hit]:
    """What a literal search of the files finds: of the late ones only, or of all when ``late`` is None."""
    owners: dict[Path, tuple[Store, str]] = {}
    for store in stores:
        folder = paths.store(store.name)
        names = late.get(store.name, ()) if late is not None else lanes.walk(folder).files
        of_kind = names if kind is None else [name for name in names if lanes.recallable(name) is kind]
        owners.update({folder / name: (store, name) for name in of_kind})
    hits = []
    for position, path in enumerate(grep.search(query, list(owners), limit)):
        store, name = owners[path.path]
        hit = _hit_from_file(store, name, path.line, rounded(1.0 / (position + 1)))
        if hit is not None:
            hits.append(hit)
    return hits


def _hit_from_file(store: Store, name: str, line: str, score: float) -> Hit | None:
    entry = peek(store, name)
    if entry is None or not entry.passages:
        return None
    best = next((passage.text for passage in entry.passages if line in passage.text), entry.passages[0].text)
    place = paths.store(store.name) / name
    return Hit(store.name, _ref(store, entry), entry.kind.value, place, best, score, entry.time)


def _ref(store: Store, entry: Entry) -> str:
    """The id that callers know the file by; of one that was never indexed, the one it claims."""
    return ref_of(store, entry.path) or entry.claimed


def _identity(hit: Hit) -> tuple[str, str]:
    return hit.store, hit.ref


def _finished(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """The first ``limit``, each text once."""
    first = {hit.text: hit for hit in reversed(hits)}
    return [hit for hit in hits if first[hit.text] is hit][:limit]
