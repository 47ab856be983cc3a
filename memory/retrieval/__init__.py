"""The engine's only door: bring the index in line with the files, and search it.

One full-text index serves all stores, filtered by store, so that scores compare (retrieval.md: one ranking beats joined
ones). Files that the index cannot answer for right now are read as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.db import DatabaseError, transaction

from coffer import db, paths
from memory.files import lanes
from memory.models import Chunk, Document, Store
from memory.retrieval import grep, keyword, reconcile
from memory.retrieval.entries import MAX_BYTES, Entry, read_entry
from memory.retrieval.fusion import reciprocal_rank_fusion
from memory.retrieval.reconcile import Changes

__all__ = ["MAX_BYTES", "Changes", "Hit", "check", "create", "expression", "forget", "mend", "optimize", "rebuild", "refresh", "search"]

PROJECT_WEIGHT = 1.15  # what a project remembers beats an equal global fact
CANDIDATES = 60


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
    stores: Sequence[Store], query: str, limit: int, behind: Mapping[str, Sequence[str]] | None = None
) -> list[Hit]:
    """The best ``limit`` documents of the stores for a person's words; any text is a valid query (FR-008, FR-009).

    ``behind`` names, by store, files whose newest state is not in the index: they are searched on disk instead.
    """
    if not stores or not query.strip():
        return []
    late = {name: set(files) for name, files in (behind or {}).items()}
    indexed = _from_index(stores, query, limit, late)
    on_disk: list[Hit] = []
    if any(late.values()) or not indexed:
        on_disk = _from_files(stores, query, limit, late if indexed else None)
    if not on_disk:
        return _distinct(indexed, limit)
    fused = reciprocal_rank_fusion([[_identity(hit) for hit in hits] for hits in (indexed, on_disk)])
    by_identity = {_identity(hit): hit for hit in (*indexed, *on_disk)}
    return _distinct([by_identity[identity] for identity, _ in fused], limit)


def expression(stores: Sequence[Store], query: str) -> str:
    """The full-text expression that a query becomes for these stores; to measure and to explain."""
    with db.raw() as con:
        return keyword.match_expression(con, keyword.parse(query), [reconcile.scope_token(store) for store in stores])


def forget(store: Store) -> None:
    """Drop everything the index holds of a store; its files stay."""
    reconcile.forget(store)


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
    except DatabaseError:
        return False


def optimize() -> None:
    """Rewrite the full-text table so that no word of a deleted document is left in it."""
    with db.raw() as con:
        keyword.optimize(con)


def _from_index(stores: Sequence[Store], query: str, limit: int, late: Mapping[str, set[str]]) -> list[Hit]:
    by_pk = {store.pk: store for store in stores if store.pk is not None}
    scopes = [reconcile.scope_token(store) for store in by_pk.values()]
    with db.raw() as con:
        scores = dict(keyword.search(con, keyword.parse(query), scopes, max(CANDIDATES, limit * 6)))
    chunks = (
        Chunk.objects.filter(id__in=list(scores))
        .select_related("document")
        .only("text", "document__store_id", "document__ref", "document__kind", "document__path", "document__time")
    )
    best: dict[int, tuple[float, Chunk]] = {}
    for chunk in chunks:
        document = chunk.document
        store = by_pk.get(document.store_id)
        if store is None or document.path in late.get(store.name, ()):
            continue
        score = scores[chunk.pk] * (1.0 if store.name == "global" else PROJECT_WEIGHT)
        if document.pk not in best or score > best[document.pk][0]:
            best[document.pk] = (score, chunk)
    ordered = sorted(best.values(), key=lambda pair: (-pair[0], -pair[1].document.time.timestamp(), pair[1].pk))
    return [_hit(by_pk[chunk.document.store_id], chunk.document, chunk.text, score) for score, chunk in ordered]


def _hit(store: Store, document: Document, text: str, score: float) -> Hit:
    path = paths.store(store.name) / document.path
    return Hit(store.name, document.ref, document.kind, path, text, _rounded(score), document.time)


def _from_files(stores: Sequence[Store], query: str, limit: int, late: Mapping[str, set[str]] | None) -> list[Hit]:
    """What a literal search of the files finds: of the late ones only, or of all when ``late`` is None."""
    owners: dict[Path, tuple[Store, str]] = {}
    for store in stores:
        folder = paths.store(store.name)
        names = late.get(store.name, ()) if late is not None else lanes.walk(folder).files
        owners.update({folder / name: (store, name) for name in names})
    hits = []
    for position, path in enumerate(grep.search(query, list(owners), limit)):
        store, name = owners[path.path]
        hit = _hit_from_file(store, name, path.offset, 1.0 / (position + 1))
        if hit is not None:
            hits.append(hit)
    return hits


def _hit_from_file(store: Store, name: str, offset: int, score: float) -> Hit | None:
    folder = paths.store(store.name)
    stat = lanes.stat(folder, name)
    if stat is None:
        return None
    entry: Entry = read_entry(folder, name, stat, None)
    if not entry.passages:
        return None
    ref = Document.objects.filter(store=store, path=name).values_list("ref", flat=True).first() or entry.claimed
    return Hit(store.name, ref, entry.kind.value, folder / name, entry.passages[0].text, _rounded(score), entry.time)


def _rounded(score: float) -> float:
    """Four significant digits: in a small store the scores themselves are tiny."""
    return float(f"{score:.4g}")


def _identity(hit: Hit) -> tuple[str, str]:
    return hit.store, hit.ref


def _distinct(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """A copy of the same text under another name is not a second answer."""
    seen: set[str] = set()
    kept = []
    for hit in hits:
        if hit.text not in seen:
            seen.add(hit.text)
            kept.append(hit)
    return kept[:limit]
