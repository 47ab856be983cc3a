"""Why a recall came out so, as lines for a terminal."""

from collections.abc import Iterator

from coffer import console
from memory.retrieval import Candidate, Explanation


def told(why: Explanation) -> str:
    """What the query was taken for, then a line for each document that was found."""
    rows = [_row(place, one) for place, one in enumerate(why.candidates, 1)]
    header = ("", "SCORE", "WORDS", "MEANING", "WEIGHT", "OUTCOME", "TITLE")
    table = [console.table(header, rows)] if rows else []
    return "\n".join(
        [*_understood(why), *table, f"{why.found} documents found, {why.on_disk} files searched literally"]
    )


def _understood(why: Explanation) -> Iterator[str]:
    reading = why.reading
    yield f"looked for    {' '.join(reading.asked) or 'none of the words: no document holds them'}"
    for typo, word in why.repaired.items():
        yield f"for {typo}  {word} (one slip away)"
    if reading.translations:
        yield f"and for       {' '.join(reading.translations)} (translations, half as much)"
    if reading.unknown:
        yield f"in none       {' '.join(reading.unknown)}"
    for model in why.models:
        yield f"vectors of    {model}"
    for note in why.notes:
        yield f"no vectors    {note}"


def _row(place: int, one: Candidate) -> tuple[str, ...]:
    words = f"{one.words.place}. {one.words.score:.4g}" if one.words else "-"
    meaning = f"{one.meaning.place}. {one.meaning.score:.3f}" if one.meaning else "-"
    return str(place), f"{one.score:.4g}", words, meaning, f"{one.weight:g}", one.outcome, one.title
