"""The first sentence of a text: what a session index shows, so it must state the conclusion."""

import re
import unicodedata

_ENOUGH = 10_000  # characters in which a first sentence begins, or never

# What may stand before the words of a line: heading, bullet, number, quote, check box.
_LEADING_MARK = re.compile(r"(?:#{1,6}|[-*+]|\d{1,3}[.)]|>+|\[[ xX]\])(?:[ \t]+|$)|>+")
_ONLY_MARKS = re.compile(r"[\W_]*|(?:```+|~~~+)\s*[\w+-]*|<!--.*-->")
_BREAKS_PARAGRAPH = re.compile(r"\s*(?:#{1,6}[ \t]|[-*+][ \t]|\d{1,3}[.)][ \t]|>|```|~~~|<!--|\|)")
_HEADING = re.compile(r"[ \t>]*#{1,6}[ \t]")

_CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_END = re.compile(r"[。！？｡]+[」』”’）》]*|[.!?]+[\"'”’)\]*_»]*(?=\s)")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[])(?:e\.g|i\.e|z\.b|d\.h|u\.a|vs|cf|mr|mrs|ms|dr|prof|bzw|vgl)\.$", re.IGNORECASE
)
# These may also end a sentence: what follows decides.
_MAYBE_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[])(?:(?:[a-z]\.)+[a-z]|etc|usw|al|st|approx|ca|incl|excl|resp|no|nr|fig|min|max|sec|inc|ltd)\.$",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"\s+[a-z0-9]")


def first_sentence(text: str, limit: int = 100) -> str:
    """The first sentence in one line of at most `limit` characters, leading marks skipped; only marks stay marks."""
    text = text[:_ENOUGH]
    paragraph = _first_paragraph(text.split("\n"))
    sentence = _sentence(paragraph) if paragraph else " ".join(text.split())
    return shorten(sentence, limit)


def shorten(text: str, limit: int) -> str:
    """The text in at most `limit` characters, cut between words where it has any, and then ending in …"""
    if len(text) <= limit:
        return text
    end = limit - 1
    # Between two characters that make one sign there is no place to cut.
    while end > 1 and (unicodedata.combining(text[end]) or text[end] in "\u200d\ufe0f" or text[end - 1] == "\u200d"):
        end -= 1
    head = text[:end]
    if not text[end].isspace():
        words = head.rpartition(" ")[0]
        head = words if len(words) > limit // 2 else head
    return head.rstrip(" ,;:-") + "…"


def _first_paragraph(lines: list[str]) -> str:
    for at, line in enumerate(lines):
        words = _without_marks(line)
        if not words:
            continue
        if _HEADING.match(line):
            return words
        return " ".join([words, *_continuation(lines[at + 1 :])])
    return ""


def _continuation(lines: list[str]) -> list[str]:
    """The further lines of a wrapped paragraph."""
    words: list[str] = []
    for line in lines:
        if _ONLY_MARKS.fullmatch(line) or _BREAKS_PARAGRAPH.match(line) or len(words) > 300:
            break
        words += line.split()
    return words


def _without_marks(line: str) -> str:
    """The words of a line; empty when it has none, as a rule or the fence of a code block."""
    words = line.strip()
    if _ONLY_MARKS.fullmatch(words):
        return ""
    while (mark := _LEADING_MARK.match(words)) and words[mark.end() :].strip():
        words = words[mark.end() :].lstrip()
    return " ".join(words.split())


def _sentence(paragraph: str) -> str:
    code = [match.span() for match in _CODE_SPAN.finditer(paragraph)]
    for match in _END.finditer(paragraph):
        end = match.end()
        if any(start < match.start() < stop for start, stop in code):
            continue
        if not _is_abbreviation(paragraph, match):
            return paragraph[:end]
    return paragraph


def _is_abbreviation(paragraph: str, mark: re.Match[str]) -> bool:
    """Whether a full stop belongs to the word before it, or is the first of three."""
    if not mark[0].startswith("."):
        return False
    word = max(0, mark.start() - 20), mark.start() + 1
    if _ABBREVIATION.search(paragraph, *word):
        return True
    maybe = mark[0].startswith("..") or _MAYBE_ABBREVIATION.search(paragraph, *word)
    return bool(maybe) and _CONTINUES.match(paragraph, mark.end()) is not None
