"""What a merge must keep, decided by code and never by a model's word (promise 1). Pure.

Texts are compared unit by unit. A unit is a line without its white space and list mark, or a whole fenced block or
comment, whose lines mean nothing apart. Of an agent's note the words count: all that are exact, and most of the others.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from memory.files import fences, sections
from memory.files.words import CJK, STOP_WORDS

KEPT_OF_TEN = 8  # content words of an agent's note that must come back
ADDED_FACTOR, ADDED_CHARS = 4, 2_000  # a merge may add this much: so many times the note, and so much besides
TOLD, TOLD_CJK = 4, 8  # content words, or pairs of characters, from which an added line tells something of its own

_BULLET = re.compile(r"[-*+] (?=\S)")
_NUMBER = re.compile(r"(\d{1,9})[.)] (?=\S)")
_COMMENT = re.compile(r" {0,3}<!--(?!.*-->)")
# Markup whose content no reader of a page sees.
_HIDING = re.compile(r"<!--|<(?:script|style|template|textarea|title|noscript|iframe|xmp)\b|<[^>]*\bhidden\b", re.I)

_QUOTED = re.compile(
    r'`+([^`\n]+)`+|"([^"\n]+)"|\u201c([^\u201d\n]+)\u201d|\u201e([^\u201c\n]+)\u201c|\u00ab([^\u00bb\n]+)\u00bb'
    r"|\u300c([^\u300d\n]+)\u300d|(?<!\w)'([^'\n]+)'(?!\w)"
)
_CJK_RUN = re.compile(f"([{CJK}]+)")
_TOKEN = re.compile(r"(?:[\w./\\:@#+=%$~&'\-]|(?<=\d),(?=\d))+")
_EDGES = ".,:;'&="
_JOINT = re.compile(r"[\d_./\\:@#+=%$~&]|[a-z][A-Z]|^--\w|-.+-")
_ABBREVIATION = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]?")
_NEGATIONS = frozenset(
    [
        "no",
        "not",
        "nor",
        "never",
        "none",
        "without",
        "cannot",
        "nicht",
        "kein",
        "keine",
        "nie",
        "ohne",
        "pas",
        "jamais",
        "sans",
        "ne",
    ]
)
_CJK_NEGATION = re.compile("[不没沒未勿别別无無非莫]")
_ENDINGS = ("ing", "ed", "es", "s", "e")


def refusal(before: str, after: str, *, note: str, details: str = "", by_person: bool) -> str:
    """Why a merge of ``note`` into ``before`` is not accepted, in words without content; empty when it is.

    Every unit of the document stands in the result, exact doubles may fold; so does every unit of a person's note, and
    of an agent's note what ``missing_terms`` looks for. ``details`` are words about the note, held to the same.
    """
    if len(after) > len(before) + ADDED_FACTOR * (len(note) + len(details)) + ADDED_CHARS:
        return "it added far more than the note says"
    if lost := len(missing_lines(before, after)):
        return f"it dropped or changed {lost} of the topic's lines"
    if by_person and (lost := len(missing_lines(note, after))):
        return f"it dropped or changed {lost} of the note's lines"
    if not by_person and (lost := len(missing_terms(note, before, after))):
        return f"it dropped {lost} of the note's names, numbers or words"
    if details and (lost := len(missing_terms(details, before, after))):
        return f"it dropped {lost} words of the note's title or description"
    if twice := len(repeated(after, before, note, details)):
        return f"it repeated {twice} lines"
    known = {*units(before), *units(note)}
    added = [unit for unit in units(after) if unit not in known]
    if strange := len(strangers(added, before, note, details)):
        return f"it added {strange} lines that nobody gave it"
    return unfounded(added, before, note, details)


def unfounded(added: Sequence[str], *sources: str) -> str:
    """Why units that a text adds to its sources may not stand there, in words without content; empty when they may."""
    if new := invented("\n".join(added), *sources):
        return f"it added {len(new)} names or numbers that nobody gave it"
    if any(_HIDING.search(unit) for unit in added):
        return "it added markup that hides text"
    if any(unit.startswith(("```", "~~~")) and "\n" not in unit for unit in added):
        return "it left a fenced block open"
    return ""


def repeated(after: str, *sources: str) -> list[str]:
    """The units that a text holds more often than its sources together do; rules and the like may repeat."""
    had = Counter(unit for text in sources for unit in units(text))
    held = Counter(units(after))
    return [unit for unit, count in held.items() if count > had[unit] > 0 and any(map(str.isalnum, unit))]


def strangers(added: Sequence[str], *sources: str) -> list[str]:
    """Those of the added units that tell something of their own: fewer than half of their words are of the sources.

    Short ones, as headings are, and those that only join what was there cannot be judged so.
    """
    told = [(unit, _terms(unit).content) for unit in added]
    told = [(unit, words) for unit, words in told if len(words) >= (TOLD_CJK if _CJK_RUN.search(unit) else TOLD)]
    if not told:
        return []
    known = _words(map(_terms, sources))
    return [unit for unit, words in told if 2 * len(words & known) < len(words)]


def missing_lines(before: str, *after: str) -> list[str]:
    """The units of a text that stand in none of the others."""
    held = {unit for text in after for unit in units(text)}
    return [unit for unit in units(before) if unit not in held]


def missing_terms(note: str, before: str, after: str, *, kept: int = KEPT_OF_TEN) -> list[str]:
    """What a result lost of an agent's note: its exact words, quotes and blocks, and content words beyond two in ten.

    ``kept`` is how many of ten content words must be there.

    They count where something was added, together with any one section: that section may have held them already. Words
    scattered over a long document do not make up a note.
    """
    known = set(units(before))
    added = _terms("\n".join(unit for unit in units(after) if unit not in known))
    wanted = _terms(note)
    if not (wanted.exact or wanted.content or wanted.quoted):
        return missing_lines(note, after)
    held = set(units(after))
    lost = [unit for unit in units(note) if "\n" in unit and unit not in held]
    fewest = _lost(wanted, kept, added)
    for section in sections.split(after):
        if not fewest:
            break
        fewest = min(fewest, _lost(wanted, kept, added, _terms(section.text)), key=len)
    return lost + fewest


def invented(text: str, *sources: str) -> list[str]:
    """Paths, numbers and identifiers of a text that stand in none of its sources."""
    exact = [word for word in _terms(text).exact if not _shouts(word)]
    if not exact:
        return []
    known = _words(map(_terms, sources))
    return [word for word in exact if word not in known]


def in_common(text: str, other: str) -> int:
    """How many of the words that matter in a text stand in another, too."""
    wanted, held = _terms(text), _terms(other).words
    return sum(word in held for word in wanted.exact | wanted.content)


def units(text: str) -> list[str]:
    """The units of a text in order, blank lines left out."""
    lines = unicodedata.normalize("NFC", text).split("\n")
    blocks = dict(_blocks(lines))
    plain = [" ".join(line.split()) for line in lines]
    numbers = {int(match[1]) for line in plain if (match := _NUMBER.match(line))}
    found, at = [], 0
    while at < len(lines):
        stop = blocks.get(at, at + 1)
        found.append(_block(lines[at:stop]) if stop > at + 1 else _without_mark(plain[at], numbers))
        at = stop
    return [unit for unit in found if unit]


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where each fenced block and each comment of several lines begins and ends."""
    fenced = fences.closed(lines)
    closings = [at for at, line in enumerate(lines) if "-->" in line]
    at = 0
    while at < len(lines):
        stop = at + 1
        if at in fenced:
            stop = fenced[at] + 1
        elif _COMMENT.match(lines[at]):
            later = bisect_left(closings, at)
            stop = closings[later] + 1 if later < len(closings) else len(lines)
        if stop > at + 1:
            yield at, stop
        at = stop


def _block(lines: Sequence[str]) -> str:
    """A block as one unit: its lines stay as they are, but for what it is indented by and how long its fence is."""
    indent = len(lines[0]) - len(lines[0].lstrip(" "))
    inner = [line[min(indent, len(line) - len(line.lstrip(" "))) :].rstrip() for line in lines]
    if inner[0][:1] in "`~":
        inner = [f"```{inner[0].lstrip('`~').strip()}", *inner[1:-1], "```"]
    return "\n".join(inner)


def _without_mark(line: str, numbers: set[int]) -> str:
    """A line without its list mark; a number is one only where the one before or after it stands in the text too."""
    if bullet := _BULLET.match(line):
        return line[bullet.end() :]
    number = _NUMBER.match(line)
    if number and (number[1] == "1" or {int(number[1]) - 1, int(number[1]) + 1} & numbers):
        return line[number.end() :]
    return line


@dataclass(frozen=True)
class _Terms:
    """What a text says: ``words`` are all, ``content`` those that matter, ``exact`` those that allow no change."""

    text: str
    exact: frozenset[str]
    words: frozenset[str]
    content: frozenset[str]
    quoted: tuple[str, ...]
    negated: bool


@lru_cache(maxsize=32)  # of one merge the same texts are asked about again and again
def _terms(text: str) -> _Terms:
    text = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    prose = "\n".join(unit for unit in units(text) if "\n" not in unit)
    quoted = tuple(" ".join(next(filter(None, found)).split()) for found in _QUOTED.findall(prose) if any(found))
    exact, words, content = set(), set(), set()
    for token in _tokens(text):
        if _CJK_RUN.match(token):
            pairs = {"".join(pair) for pair in pairwise(token)} or {token}
            words |= pairs
            content |= pairs - STOP_WORDS
            continue
        word = token.casefold()
        words |= {word, _stem(word), token}
        if _is_exact(token):
            exact.add(token)
        elif len(word) > 1 and word not in STOP_WORDS:
            content.add(_stem(word))
    negated = bool(words & _NEGATIONS or _CJK_NEGATION.search(text) or any(word.endswith("n't") for word in words))
    return _Terms(" ".join(text.split()), frozenset(exact), frozenset(words), frozenset(content), quoted, negated)


def _words(texts: Iterable[_Terms]) -> frozenset[str]:
    return frozenset().union(*(text.words for text in texts))


def _lost(wanted: _Terms, kept: int, *places: _Terms) -> list[str]:
    words = _words(places)
    lost = [word for word in wanted.exact if word not in words and not (_shouts(word) and word.casefold() in words)]
    lost += [text for text in wanted.quoted if not any(text in place.text for place in places)]
    if wanted.negated and not any(place.negated for place in places):
        lost.append("not")
    gone = [word for word in wanted.content if word not in words]
    return lost + (gone if (len(wanted.content) - len(gone)) * 10 < len(wanted.content) * kept else [])


def _tokens(text: str) -> Iterable[str]:
    for match in _TOKEN.finditer(_CJK_RUN.sub(r" \1 ", text)):
        token = match[0].rstrip(_EDGES + "-").lstrip(",:;'&=")
        if token.strip("-./") and any(map(str.isalnum, token)):
            yield token


def _is_exact(token: str) -> bool:
    """Whether a word is a name, a number or a path, to be kept letter by letter."""
    if _ABBREVIATION.fullmatch(token):
        return False
    return bool(_JOINT.search(token)) or (token.isupper() and len(token) > 1)


def _shouts(word: str) -> bool:
    return word.isalpha() and word.isupper()


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
