"""One ranking out of several whose scores do not compare (FR-009): only places count."""

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def reciprocal_rank_fusion(lists: Iterable[Sequence[T]], k: int = 60) -> list[tuple[T, float]]:
    """Return (item, score), best first; items that tie keep the order in which the lists name them."""
    scores: dict[T, float] = {}
    for ranking in lists:
        # An item counts once per list, at its best place there.
        for place, item in enumerate(dict.fromkeys(ranking), start=1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + place)
    return sorted(scores.items(), key=lambda entry: -entry[1])
