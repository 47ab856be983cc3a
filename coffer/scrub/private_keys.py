"""Private keys as blocks of text: whole, cut at either end, one after the other, or spelled out in a string."""

import re
from collections.abc import Iterator

from coffer.scrub.spans import Span

_LABEL = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_BLANK = r"\n[ \t\r>#|*+]{0,8}\n"
# Line ends as they are, quoted, or spelled out in a string; a blank line ends a key, but for the one behind its head.
_BREAK = rf"(?:(?!{_BLANK})[ \t\r\n>#|*+]|-(?!-)|\\[nrt])"
_BLOCK = re.compile(
    rf"-----BEGIN {_LABEL}-----\r?(?:{_BLANK})?"
    rf"(?:[A-Za-z0-9+/=]{{16,}}+|{_BREAK}|(?:Proc-Type|DEK-Info|Version|Comment|Hash):[^\n\\]{{0,200}}+(?:{_BLANK})?)*+"
    rf"(?:(?:[A-Za-z0-9+/]{{1,14}}={{1,2}}|[A-Za-z0-9+/]{{1,15}}+(?={_BREAK}{{0,40}}(?:-----END|\Z))){_BREAK}{{0,40}})?"
    rf"(?:-----END {_LABEL}-----)?"
)
_BODY = re.compile(r"[A-Za-z0-9+/=]{16,}")
_END = re.compile(rf"-----END {_LABEL}-----")
_LAST_LINE = re.compile(r"[ \t>#|*+\-]*+[A-Za-z0-9+/=]+[ \t\r\n]*+")
_BODY_LINE = re.compile(r"[ \t>#|*+\-]*+[A-Za-z0-9+/=]{16,}[ \t\r\n]*+")


def find(text: str) -> Iterator[Span]:
    """Blocks of PEM; one whose head was cut off reaches back over the lines that look like its body."""
    if "PRIVATE KEY" not in text:
        return
    done = 0
    blocks = [*_BLOCK.finditer(text)]
    inside = {end.end() for end in (_END.search(text, block.start(), block.end()) for block in blocks) if end}
    for block in blocks:
        if _BODY.search(block[0]):  # code and documents name the lines before and after a key alone
            yield Span(block.start(), block.start() + len(block[0].rstrip(" \t\r\n>#|*")), "private-key")
    for end in _END.finditer(text):
        if end.end() not in inside and (start := _body_start(text, end.start(), done)) < end.start():
            yield Span(start, end.end(), "private-key")
        done = end.end()


def _body_start(text: str, end: int, limit: int) -> int:
    """Where the lines before ``end`` stop looking like base64."""
    start, shape = end, _LAST_LINE
    while start > limit:
        line = max(text.rfind("\n", limit, start - 1) + 1, limit)
        if not shape.fullmatch(text, line, start):
            break
        start, shape = line, _BODY_LINE
    return start
