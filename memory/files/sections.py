"""A topic as its sections: the headings of a long one, the part that may be rewritten, and what is appended. Pure."""

import re
from dataclasses import dataclass

from memory.files import fences

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")


@dataclass(frozen=True)
class Section:
    """A heading with its own lines, up to the next heading of whatever level; what stands before the first has none."""

    level: int
    title: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def split(body: str) -> list[Section]:
    """Every section in order; together they are the whole text."""
    lines = body.split("\n")
    blocks = fences.closed(lines)
    heads, at = [], 0
    while at < len(lines):
        if at in blocks:
            at = blocks[at]
        elif match := _HEADING.match(lines[at]):
            heads.append((at, len(match[1]), match[2] or ""))
        at += 1
    if not heads or heads[0][0] > 0:
        heads.insert(0, (0, 0, ""))
    ends = [start for start, *_ in heads[1:]] + [len(lines)]
    return [
        Section(level, title, tuple(lines[start:stop])) for (start, level, title), stop in zip(heads, ends, strict=True)
    ]


def outline(body: str) -> list[str]:
    """The headings, as they are written but for blanks."""
    return [f"{'#' * section.level} {section.title}".rstrip() for section in split(body) if section.level]


def holding(body: str, passage: str) -> str:
    """The section that holds most lines of a passage, without blank lines around it."""
    wanted = {line.strip() for line in passage.split("\n") if line.strip()}

    def held(section: Section) -> int:
        return len(wanted & {line.strip() for line in section.lines})

    return max(split(body), key=held).text.strip("\n")


def spliced(body: str, old: str, new: str) -> str | None:
    """The text with one part replaced; None when the part does not stand there exactly once."""
    lines, part = body.split("\n"), old.split("\n")
    places = [at for at in range(len(lines) - len(part) + 1) if lines[at : at + len(part)] == part]
    if len(places) != 1:
        return None
    return "\n".join([*lines[: places[0]], new.strip("\n"), *lines[places[0] + len(part) :]])


def appended(body: str, heading: str, text: str) -> str:
    """The text with one more piece at its end, below a heading unless the last one is that very heading."""
    before = body.rstrip("\n")
    last = next((section for section in reversed(split(body)) if section.level), None)
    again = last is not None and f"{'#' * last.level} {last.title}" == heading
    return "\n\n".join(part for part in (before, "" if again else heading, text.strip("\n")) if part)
