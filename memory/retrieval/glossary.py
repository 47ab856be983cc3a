"""The developer's words in Chinese and English, so that a question in one finds a note in the other (FR-032).

The list is written from general developer vocabulary and is read once, when the first query needs it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from pathlib import Path

# An expansion is a guess: a few of them help, many would drown the words that were really asked for.
MAX_EXPANSIONS = 32
MAX_CHINESE_PER_WORD = 4

_FILE = Path(__file__).with_name("glossary.txt")
_ENDINGS = ("s", "es", "ed", "ing", "d", "er")


@dataclass(frozen=True, slots=True)
class Glossary:
    english: dict[str, tuple[str, ...]]
    chinese: dict[str, tuple[str, ...]]
    longest: int


def translations(runs: Iterable[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return English for the Chinese `runs` and Chinese for the English `words`, without what is there already."""
    known = _glossary()
    found: dict[str, None] = {}
    for run in runs:
        found.update(dict.fromkeys(_english_of(run, known)))
        if len(found) >= MAX_EXPANSIONS:
            break
    for word in words:
        found.update(dict.fromkeys(_chinese_of(word, known)))
        if len(found) >= MAX_EXPANSIONS:
            break
    return tuple(word for word in found if word not in words)[:MAX_EXPANSIONS]


def parse(text: str) -> Glossary:
    """Read lines of `chinese:english,english`; a line without English only keeps its parts from being translated."""
    english: dict[str, tuple[str, ...]] = {}
    chinese: dict[str, list[tuple[int, str]]] = {}
    for line in text.splitlines():
        source, _, targets = line.strip().partition(":")
        if not source or source.startswith("#"):
            continue
        english[source] = tuple(target for target in targets.split(",") if target)
        # One character is too little to look for: it is part of half the words of the language.
        if len(source) > 1:
            for place, target in enumerate(english[source]):
                chinese.setdefault(target, []).append((place, source))
    return Glossary(
        english=english,
        chinese={word: _closest(sources) for word, sources in chinese.items()},
        longest=max(map(len, english), default=0),
    )


def _closest(sources: list[tuple[int, str]]) -> tuple[str, ...]:
    # The earlier an English word stands in an entry, the closer it is to that entry's meaning.
    return tuple(source for _, source in sorted(sources, key=itemgetter(0))[:MAX_CHINESE_PER_WORD])


def _english_of(run: str, known: Glossary) -> list[str]:
    """Translate the longest entries of a run, left to right."""
    found: list[str] = []
    start = 0
    while start < len(run) and len(found) < MAX_EXPANSIONS:
        for length in range(min(known.longest, len(run) - start), 0, -1):
            entry = known.english.get(run[start : start + length])
            if entry is not None:
                found += entry
                start += length
                break
        else:
            start += 1
    return found


def _chinese_of(word: str, known: Glossary) -> tuple[str, ...]:
    if not word.isascii():
        return ()
    stems = (word.removesuffix(ending) for ending in ("", *_ENDINGS))
    return next((known.chinese[stem] for stem in stems if stem in known.chinese), ())


@cache
def _glossary() -> Glossary:
    return parse(_FILE.read_text(encoding="utf-8"))
