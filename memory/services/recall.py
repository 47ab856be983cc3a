"""Recall: bring the stores' index in line with their files, search once over all of them, answer with passages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coffer.errors import Invalid
from memory import retrieval
from memory.files import markdown
from memory.models import Store
from memory.services import stores as store_service
from memory.services import uses

DEFAULT_TOP_K, MAX_TOP_K = 5, 20


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
    if not 1 <= top_k <= MAX_TOP_K:
        raise Invalid(f"top_k is {top_k}; it must be a whole number from 1 to {MAX_TOP_K}.")
    query = markdown.clean(query)
    behind = {store.name: store_service.refresh(store).behind for store in stores}
    hits = retrieval.search(stores, query, top_k, behind)
    if counted:
        uses.count("recalled", [(hit.store, hit.ref) for hit in hits])
    return [
        Hit(hit.ref, hit.text, hit.score, f"{'global' if hit.store == 'global' else 'project'}:{hit.path}", hit.time)
        for hit in hits
    ]
