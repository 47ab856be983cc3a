"""Why a ranking came out so: what the query was taken for, how each document stands in each list, what was cut."""

from dataclasses import asdict, dataclass, field
from typing import Any

from memory.retrieval.keyword import Reading
from memory.retrieval.ranking import Ranked, Ranking, Standing, distinct

SHOWN = 20  # of the documents that were found


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
    texts = [one.passage.text for one in ranking.ranked[:SHOWN]]
    candidates = [
        _candidate(one, id(one) in kept, one.passage.text in texts[:at], limit) for at, one in _first(ranking)
    ]
    return Explanation(reading, candidates, len(ranking.ranked), ranking.models, ranking.notes, on_disk)


def _first(ranking: Ranking) -> list[tuple[int, Ranked]]:
    return list(enumerate(ranking.ranked[:SHOWN]))


def _candidate(one: Ranked, shown: bool, copied: bool, limit: int) -> Candidate:
    outcome = "shown" if shown else "the same text as one above" if copied else f"after the first {limit}"
    score = float(f"{one.score:.4g}")
    return Candidate(
        one.store.name, one.passage.ref, one.passage.title, score, one.words, one.meaning, one.weight, outcome
    )
