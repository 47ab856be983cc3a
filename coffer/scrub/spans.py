"""Where secrets stand in a text, and what one kind of them looks like."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Span:
    """Where a secret stands, and of which kind it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Detector:
    """One kind of secret: the group ``secret`` of the expression, or all of it, where ``check`` agrees.

    ``hints`` are lower-case pieces of which a text holds one, or the pattern need not be tried. Without a
    kind, ``kind_of`` the match is asked. Compiled when first needed: all of them would delay every start.
    """

    kind: str
    hints: tuple[str, ...]
    regex: str
    check: Callable[[re.Match[str]], bool] = lambda match: True
    kind_of: Callable[[re.Match[str]], str] = lambda match: "secret"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex)

    def spans(self, text: str) -> Iterator[Span]:
        """Every place in a text."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        for match in self.pattern.finditer(text):
            if self.check(match):
                yield Span(match.start(group), match.end(group), self.kind or self.kind_of(match))


def merged(spans: Iterable[Span]) -> list[Span]:
    """From left to right, with spans that overlap made one; of those the earlier in the given order gives the kind."""
    joined: list[tuple[int, Span]] = []
    for rank, span in sorted(enumerate(spans), key=lambda pair: (pair[1].start, pair[0])):
        if joined and span.start < joined[-1][1].end:
            first, last = joined[-1]
            kind = last.kind if first < rank else span.kind
            joined[-1] = (min(first, rank), Span(last.start, max(last.end, span.end), kind))
        else:
            joined.append((rank, span))
    return [span for _, span in joined]
