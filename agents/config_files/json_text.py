"""Where each value of a JSON text stands. Pure.

Comments and trailing commas (JSONC) are read too, and the first place that strict JSON would refuse is remembered: one
agent takes them, another would then read nothing of the file.
"""

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal, NoReturn

MOST_LEVELS = 200
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONG = 300  # digits; Python refuses to read very long numbers, and none of ours is long


class Unreadable(Exception):
    """A text that cannot be read: where, and what was expected there."""

    def __init__(self, line: int, column: int, reason: str) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.line, self.column, self.reason = line, column, reason


@dataclass(slots=True)
class Node:
    """One value: ``text[start:end]``, and the elements of an object or array."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int = 0
    elements: list["Element"] = field(default_factory=list)


@dataclass(slots=True)
class Element:
    """One member or item, from its key or value to the end of its value; ``comma`` is the place of the one after it."""

    start: int
    value: Node
    key: str | None = None
    comma: int | None = None

    @property
    def end(self) -> int:
        return self.value.end


class Scan:
    """A JSON text and the tree of its spans; ``root`` is None for a blank text. Raises Unreadable."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments: list[tuple[int, int]] = []
        self.not_strict: Unreadable | None = None
        self._at = 0
        self._skip()
        self.root: Node | None = None
        if self._at < len(text):
            self.root = self._value(0)
            self._skip()
            if self._at < len(text):
                self._fail("there is more text behind the end of the value")

    def data(self, node: Node) -> object:
        """The value as Python has it; of members with one name the last counts, as for every agent."""
        if node.kind == "object":
            return {str(one.key): self.data(one.value) for one in node.elements}
        if node.kind == "array":
            return [self.data(one.value) for one in node.elements]
        raw = self.text[node.start : node.end]
        return json.loads(raw) if raw[0] == '"' or len(raw) < _LONG else raw

    def token_end(self, start: int, low: int) -> int:
        """Where the white space before ``start`` begins, but not below ``low`` nor inside a comment."""
        before = bisect_right(self.comments, (start, 0))
        if before:
            low = max(low, self.comments[before - 1][1])
        while start > low and self.text[start - 1] in " \t\r\n":
            start -= 1
        return start

    def line_end(self, start: int) -> int:
        """The end of the comments that stand behind ``start`` on its line; ``start`` itself when there are none."""
        end = start
        for first, last in self.comments[bisect_right(self.comments, (start, -1)) :]:
            if self.text[end:first].strip(" \t") or "\n" in self.text[first:last]:
                break
            end = last
        return end

    def _value(self, level: int) -> Node:
        mark = self.text[self._at : self._at + 1]
        if mark in ("{", "["):
            if level == MOST_LEVELS:
                self._fail(f"values are nested deeper than {MOST_LEVELS} levels")
            return self._container(level, mark)
        found = _STRING.match(self.text, self._at) or _SCALAR.match(self.text, self._at)
        if found is None:
            self._fail("expected a value")
        self._at = found.end()
        return Node("scalar", found.start(), found.end())

    def _container(self, level: int, mark: str) -> Node:
        node = Node("object" if mark == "{" else "array", self._at)
        close = "}" if mark == "{" else "]"
        self._at += 1
        self._skip()
        while not self._take(close):
            if node.elements and node.elements[-1].comma is None:
                self._fail(f"expected a comma or {close}")
            node.elements.append(self._element(level, node.kind))
            self._skip()
            if self._take(","):
                node.elements[-1].comma = self._at - 1
                self._skip()
        if node.elements and node.elements[-1].comma is not None:
            self._note(node.elements[-1].comma, "a comma before the closing bracket")
        node.end = self._at
        return node

    def _element(self, level: int, kind: str) -> Element:
        start, key = self._at, None
        if kind == "object":
            found = _STRING.match(self.text, start)
            if found is None:
                self._fail("expected a name in double quotes")
            key = json.loads(found.group())
            self._at = found.end()
            self._skip()
            if not self._take(":"):
                self._fail("expected a colon")
            self._skip()
        return Element(start, self._value(level + 1), key)

    def _take(self, mark: str) -> bool:
        if not self.text.startswith(mark, self._at):
            return False
        self._at += 1
        return True

    def _skip(self) -> None:
        """Past white space and comments."""
        while True:
            found = _BLANK.match(self.text, self._at)
            self._at = found.end() if found else self._at
            comment = _COMMENT.match(self.text, self._at)
            if comment is None:
                return
            self._note(self._at, "a comment")
            self.comments.append(comment.span())
            self._at = comment.end()

    def _note(self, place: int, what: str) -> None:
        if self.not_strict is None:
            self.not_strict = self._problem(place, what)

    def _fail(self, reason: str) -> NoReturn:
        raise self._problem(self._at, reason)

    def _problem(self, place: int, reason: str) -> Unreadable:
        before = self.text[:place].replace("\r\n", "\n").replace("\r", "\n")
        return Unreadable(before.count("\n") + 1, len(before) - before.rfind("\n"), reason)
