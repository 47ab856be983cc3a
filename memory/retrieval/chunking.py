"""Markdown to the passages that are indexed (FR-008, FR-030): a section each, a long one in windows.

Code and tables stay whole where they fit, and every line of the text is in some passage. All steps are linear in the
text, whatever it holds.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memory.files import fences as fenced

# Measured: whole sections find better than whole files, and pieces of about this size better than long sections.
WINDOW_CHARS = 1_200
# Headings without text of their own ride on the next passage, over its window if need be, up to this much.
CARRIED_CHARS = 250
# A heading is also repeated in front of each passage below it, so a paragraph in its place is cut.
HEADING_CHARS = 120
CONTEXT_NEIGHBOURS = 2
CONTEXT_CHARS = 300

_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:(=+)|-+)[ \t]*$")
# A line above an underline that is no heading: quote, table, list, rule, indented code, markup.
_NO_TITLE = re.compile(r" {4}|\t| {0,3}(?:[>|<]|[-+*=_](?:[ \t=_*-]|$)|\d{1,9}[.)](?:[ \t]|$))")
_BREAKS = " \t。；！？，、"


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document: the headings above it, outermost first, and its own lines."""

    heading: str
    text: str


def chunk_markdown(text: str) -> list[Passage]:
    """Return the passages of a text in order; a short text without headings is one, a blank text none."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fences = fenced.closed(lines)
    packer = _Packer(lines)
    at = 0
    while at < len(lines):
        if _is_blank(lines[at]):
            at += 1
            continue
        heading = None if at in fences else _heading(lines, at)
        end = heading.end if heading else _block_end(lines, at, fences)
        if heading:
            packer.open_section(heading, at)
        else:
            packer.add_block(at, end)
        at = end
    packer.flush()
    return packer.passages


def context(passages: Sequence[Passage], position: int) -> str:
    """Return the beginnings of the passages around one, which often hold the words that it leaves out."""
    around = range(max(position - CONTEXT_NEIGHBOURS, 0), min(position + CONTEXT_NEIGHBOURS + 1, len(passages)))
    return "\n".join(passages[other].text[:CONTEXT_CHARS] for other in around if other != position)


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    end: int


@dataclass(slots=True)
class _Packer:
    """Collects neighbouring blocks of one section until the window is full."""

    lines: list[str]
    passages: list[Passage] = field(default_factory=list)
    above: list[_Heading] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    held_chars: int = 0
    end: int = 0
    only_headings: bool = True

    def open_section(self, heading: _Heading, start: int) -> None:
        size = self._size(start, heading.end)
        if not self.only_headings or self.held_chars + size > WINDOW_CHARS:
            self.flush()
        while self.above and self.above[-1].level >= heading.level:
            self.above.pop()
        self.above.append(heading)
        if size > WINDOW_CHARS:
            self._split(start, heading.end)
        else:
            self._hold(start, heading.end, size)

    def add_block(self, start: int, end: int) -> None:
        size = self._size(start, end)
        carried = self.only_headings and self.held_chars <= CARRIED_CHARS
        if self.held_chars + size > WINDOW_CHARS and not carried:
            self.flush()
        if size > WINDOW_CHARS:
            self._split(start, end)
        else:
            self._hold(start, end, size)
            self.only_headings = False

    def flush(self) -> None:
        if self.held:
            title = " > ".join(heading.title for heading in self.above if heading.title)
            self.passages.append(Passage(heading=title, text="\n".join(self.held)))
        self.held, self.held_chars, self.only_headings = [], 0, True

    def _size(self, start: int, end: int) -> int:
        return sum(map(len, self.lines[start:end])) + end - start

    def _hold(self, start: int, end: int, size: int) -> None:
        if self.held and start > self.end:
            self.held.append("")
            self.held_chars += 1
        self.held += self.lines[start:end]
        self.held_chars += size
        self.end = end

    def _split(self, start: int, end: int) -> None:
        """Cut a block that no window holds between lines, and a line that none holds between words."""
        for line in self.lines[start:end]:
            for piece in _line_pieces(line):
                if self.held_chars + len(piece) >= WINDOW_CHARS and not self.only_headings:
                    self.flush()
                self.held.append(piece)
                self.held_chars += len(piece) + 1
                self.only_headings = False
        self.end = end
        self.flush()


def _line_pieces(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > WINDOW_CHARS:
        cut = max(line.rfind(mark, start, start + WINDOW_CHARS) for mark in _BREAKS) + 1
        if cut <= start:
            cut = start + WINDOW_CHARS
        yield line[start:cut]
        start = cut
    yield line[start:]


def _block_end(lines: list[str], start: int, fences: dict[int, int]) -> int:
    """Return the line after the block that begins at `start`: a fenced one, or lines up to a blank one."""
    if start in fences:
        return fences[start] + 1
    end = start + 1
    while end < len(lines) and end not in fences and not _is_blank(lines[end]) and not _ATX.match(lines[end]):
        end += 1
    return end


def _heading(lines: list[str], at: int) -> _Heading | None:
    line = lines[at]
    mark = _ATX.match(line)
    if mark:
        title = line[mark.end() :].strip()
        bare = title.rstrip("#")
        return _Heading(len(mark[1]), (bare if bare[-1:] in ("", " ", "\t") else title)[:HEADING_CHARS].strip(), at + 1)
    underline = at + 1 < len(lines) and not _NO_TITLE.match(line) and _UNDERLINE.match(lines[at + 1])
    if underline:
        return _Heading(1 if underline[1] else 2, line.strip()[:HEADING_CHARS].strip(), at + 2)
    return None


def _is_blank(line: str) -> bool:
    return not line or line.isspace()
