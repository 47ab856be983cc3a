"""Recall: bring the stores' index in line with their files, search once over all of them, answer with passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coffer.errors import Invalid
from memory import retrieval
from memory.files import markdown
from memory.models import Store
from memory.services import embedding, uses
from memory.services import stores as store_service

DEFAULT_TOP_K, MAX_TOP_K = 5, 20
ALONE_SECONDS = 3.0  # for the vector of a query in a process that asks its first and last one


@dataclass(frozen=True)
class Hit:
    """What a caller sees of one document: its best passage, and where it stands."""

    id: str
    text: str
    score: float
    source: str  # <scope>:<absolute path>
    time: datetime

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "text": self.text,
            "score": self.score,
            "source": self.source,
            "time": markdown.stamp(self.time),
        }


def recall(stores: Sequence[Store], query: str, *, top_k: int = DEFAULT_TOP_K, counted: bool = True) -> list[Hit]:
    """The passages that answer a query best, over all given stores; blank asks find nothing (FR-008..010, FR-043).

    ``counted`` is whether the hits count as recalled: not when a person only looks at what an agent would get.
    """
    query, behind = _prepared(stores, query, top_k)
    return _told(retrieval.search(stores, query, top_k, behind), counted=counted)


def explain(
    stores: Sequence[Store],
    query: str,
    *,
    top_k: int = DEFAULT_TOP_K,
    counted: bool = False,
    vector_seconds: float = retrieval.VECTOR_SECONDS,
) -> tuple[list[Hit], retrieval.Explanation]:
    """The same hits, and for a person why they came out so."""
    query, behind = _prepared(stores, query, top_k)
    hits, explanation = retrieval.explain(stores, query, top_k, behind, vector_seconds=vector_seconds)
    return _told(hits, counted=counted), explanation


def _prepared(stores: Sequence[Store], query: str, top_k: int) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The query as it is searched, and the files that the index is behind with."""
    if not 1 <= top_k <= MAX_TOP_K:
        raise Invalid(f"top_k is {top_k}; it must be a whole number from 1 to {MAX_TOP_K}.")
    behind = {store.name: store_service.refresh(store).behind for store in stores}
    embedding.look_after(stores)
    return markdown.clean(query), behind


def _told(hits: Sequence[retrieval.Hit], *, counted: bool) -> list[Hit]:
    if counted:
        uses.count("recalled", [(hit.store, hit.ref) for hit in hits])
    return [
        Hit(hit.ref, hit.text, hit.score, f"{'global' if hit.store == 'global' else 'project'}:{hit.path}", hit.time)
        for hit in hits
    ]
