"""Fenced blocks of a markdown text: where each begins and ends. Pure, and linear whatever the text holds."""

import re
from bisect import bisect_right
from collections.abc import Sequence

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)", re.DOTALL)


def closed(lines: Sequence[str]) -> dict[int, int]:
    """The first and last line of each fenced block.

    A fence that nothing closes is left out, though CommonMark lets it run to the end of the text: someone forgot the
    closing line, and the sections that follow must still be found as sections.
    """
    likely = [(at, line) for at, line in enumerate(lines) if "```" in line or "~~~" in line]
    marks = [(at, mark) for at, line in likely if (mark := _FENCE.match(line))]
    ends: dict[int, int] = {}
    # Going backwards, per character: the closing lines ahead, the nearest on top and each shorter than those below.
    ahead: dict[str, tuple[list[int], list[int]]] = {"`": ([], []), "~": ([], [])}
    for at, mark in reversed(marks):
        sign, length, info = mark[1][0], len(mark[1]), mark[2]
        negated, places = ahead[sign]
        nearest = bisect_right(negated, -length) - 1
        if nearest >= 0 and not (sign == "`" and "`" in info):
            ends[at] = places[nearest]
        if not info or info.isspace():
            while negated and negated[-1] >= -length:
                negated.pop()
                places.pop()
            negated.append(-length)
            places.append(at)
    return _outermost(ends, [at for at, _ in marks])


def _outermost(ends: dict[int, int], starts: list[int]) -> dict[int, int]:
    fences: dict[int, int] = {}
    inside = -1
    for at in starts:
        if at > inside and at in ends:
            inside = fences[at] = ends[at]
    return fences
