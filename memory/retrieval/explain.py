"""Why a ranking came out so: what the query was taken for, how each document stands in each list, what was cut."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from memory.retrieval.keyword import Reading
from memory.retrieval.ranking import Ranking, distinct, rounded

SHOWN = 20  # of the documents that were found


class Standing(NamedTuple):
    """Where a passage stands in one list: its place, from 1, and its score there."""

    place: int
    score: float


@dataclass(frozen=True)
class Candidate:
    """One document that was found: where it stands, what its score is made of, and what became of it."""

    store: str
    id: str
    title: str
    score: float
    words: Standing | None
    meaning: Standing | None
    weight: float
    outcome: str  # shown, or why it is not

    def as_dict(self) -> dict[str, Any]:
        standings = {
            name: found._asdict() if found else None
            for name, found in (("words", self.words), ("meaning", self.meaning))
        }
        return {**vars(self), **standings}


@dataclass(frozen=True)
class Explanation:
    """What a query was taken for, and every document that was found, the best first."""

    reading: Reading
    candidates: list[Candidate] = field(default_factory=list)
    found: int = 0
    models: tuple[str, ...] = ()  # whose vectors took part
    notes: tuple[str, ...] = ()  # why others did not
    on_disk: int = 0  # hits of a literal search of the files, for what is not indexed or holds none of the words

    @property
    def repaired(self) -> dict[str, str]:
        """Of each likely typo the likeliest word: the others may be no words, only share a stem."""
        return {typo: words[0] for typo, words in self.reading.repaired.items()}

    def as_dict(self) -> dict[str, Any]:
        """The same for a program to read."""
        return {
            "reading": {**asdict(self.reading), "repaired": self.repaired},
            "candidates": [one.as_dict() for one in self.candidates],
            "found": self.found,
            "models": list(self.models),
            "notes": list(self.notes),
            "on_disk": self.on_disk,
        }


def explained(reading: Reading, ranking: Ranking, limit: int, on_disk: int) -> Explanation:
    """The explanation of a ranking of which the first ``limit`` were shown."""
    kept = {id(one) for one in distinct(ranking.ranked, limit)}
    words, meaning = _standings(ranking.words), _standings(*ranking.cosines)
    above: set[str] = set()
    candidates = []
    for one in ranking.ranked[:SHOWN]:
        passage, score = one.passage, rounded(one.score)
        outcome = _outcome(shown=id(one) in kept, copied=passage.text in above, limit=limit)
        standings = words.get(passage.chunk), meaning.get(passage.chunk)
        candidates.append(Candidate(one.store.name, passage.ref, passage.title, score, *standings, one.weight, outcome))
        above.add(passage.text)
    return Explanation(reading, candidates, len(ranking.ranked), ranking.models, ranking.notes, on_disk)


def _outcome(*, shown: bool, copied: bool, limit: int) -> str:
    return "shown" if shown else "the same text as one above" if copied else f"after the first {limit}"


def _standings(*scores: Mapping[int, float]) -> dict[int, Standing]:
    together = {row: score for one in scores for row, score in one.items()}
    order = sorted(together, key=lambda row: -together[row])
    return {row: Standing(place, together[row]) for place, row in enumerate(order, 1)}
