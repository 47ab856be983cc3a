"""A JSON text edited by the spans of its values, in its own style. Pure."""

import json

from agents.config_files.documents import MISSING, Path
from agents.config_files.json_text import Element, Node, Scan

_DEFAULT_INDENT = "  "


class JsonDocument:
    """Order, indentation, line ends, comments, doubles, numbers and escapes stay; see ``documents.Document``."""

    def __init__(self, text: str) -> None:
        self._read(text)

    @property
    def text(self) -> str:
        return self._scan.text

    @property
    def scan(self) -> Scan:
        return self._scan

    def data(self, path: Path = ()) -> object:
        node = self._node(path)
        return MISSING if node is None else self._scan.data(node)

    def raw(self, path: Path) -> str:
        node = self._node(path)
        return self.text if node is None else self.text[node.start : node.end]

    def put(self, path: Path, value: object) -> None:
        node = self._node(path)
        if node is not None:
            parent = self._node(path[:-1]) if path else None
            self._replace((node.start, node.end, self._written(value, node.start, self._spread(parent))))
        elif path:
            self._append(self._parent(path), path[-1], value)
        else:
            before = self.text if self.text.endswith("\n") or not self.text else f"{self.text}\n"
            self._read(f"{before}{json.dumps(value, ensure_ascii=False, indent=_DEFAULT_INDENT)}\n")

    def put_raw(self, path: Path, raw: str) -> None:
        """A container gets its earlier text back unless somebody wrote a comment into it since."""
        node = self._node(path)
        if node is None or (not raw.strip() and not self._scan.comments):
            self._read(raw)
        elif node.kind == "scalar" or _comments(raw) == _comments(self.text[node.start : node.end]):
            self._replace((node.start, node.end, raw))

    def remove(self, path: Path) -> None:
        if path:
            parent = self._parent(path)
            self._replace(*self._without(parent, _position(parent, path[-1])))
        elif not self._scan.comments:
            self._read("")

    def _read(self, text: str) -> None:
        self._scan = Scan(text)
        self._newline = "\r\n" if text[: max(0, text.find("\n"))].endswith("\r") else "\n"
        root = self._scan.root
        self._indent = _DEFAULT_INDENT
        if root is not None and root.elements and self._spread(root):
            self._indent = self._margin(root.elements[0].start)

    def _node(self, path: Path) -> Node | None:
        node = self._scan.root
        for step in path:
            index = -1 if node is None else _position(node, step)
            if node is None or index < 0:
                return None
            node = node.elements[index].value
        return node

    def _parent(self, path: Path) -> Node:
        parent = self._node(path[:-1])
        if parent is None:
            raise KeyError(path)
        return parent

    def _replace(self, *changes: tuple[int, int, str]) -> None:
        text = self.text
        for start, end, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        self._read(text)

    def _append(self, parent: Node, step: str | int, value: object) -> None:
        spread = self._spread(parent)
        name = f"{json.dumps(step, ensure_ascii=False)}:{' ' if spread or ': ' in self.text else ''}"
        name = name if parent.kind == "object" else ""
        if not parent.elements:
            self._fill(parent, name, value, spread)
            return
        last = parent.elements[-1]
        after = last.end if last.comma is None else last.comma + 1
        if not spread:
            gap = " " if not self._tight(parent) else ""
            new = gap + name + self._written(value, last.start, False)
            self._replace((after, after, f",{new}" if last.comma is None else f"{new},"))
            return
        lead = self._newline + self._margin(last.start)
        new = lead + name + self._written(value, last.start, True)
        place = self._scan.line_end(after)
        if last.comma is not None:
            self._replace((place, place, f"{new},"))
        elif place == after:
            self._replace((after, after, f",{new}"))
        else:
            self._replace((after, after, ","), (place, place, new))

    def _fill(self, parent: Node, name: str, value: object, spread: bool) -> None:
        """The first element; comments that stand between the brackets stay before it."""
        between = self.text[parent.start + 1 : parent.end - 1]
        inner = between.rstrip()
        if not spread and "\n" not in between:
            new = f"{inner}{name}{self._written(value, parent.start, False)}"
        else:
            margin = self._margin(parent.start)
            written = self._written(value, parent.start, True, margin + self._indent)
            new = f"{inner}{self._newline}{margin}{self._indent}{name}{written}{self._newline}{margin}"
        self._replace((parent.start + 1, parent.end - 1, new))

    def _without(self, parent: Node, index: int) -> list[tuple[int, int, str]]:
        """The cuts that take one element out, exactly what ``_append`` puts in where it was put in by that."""
        one, elements = parent.elements[index], parent.elements
        if len(elements) == 1:
            return self._emptied(parent, one)
        if index == 0:
            return [self._up_to_next(one, elements[1])]
        before = elements[index - 1]
        low = before.end if before.comma is None else before.comma + 1
        start = self._scan.token_end(one.start, low)
        if index < len(elements) - 1:
            return [self._up_to_next(one, elements[index + 1])]
        cut = (start, one.end if one.comma is None else one.comma + 1, "")
        if self._comment_open(start, cut[1]):
            cut = (start, cut[1], self._newline)
        if one.comma is not None or before.comma is None:
            return [cut]
        return [(before.comma, before.comma + 1, ""), cut]

    def _up_to_next(self, one: Element, following: Element) -> tuple[int, int, str]:
        end = one.end if one.comma is None else one.comma + 1
        between = self.text[one.end : one.comma] + self.text[end : following.start]
        return (one.start, following.start if not between.strip() else end, "")

    def _emptied(self, parent: Node, one: Element) -> list[tuple[int, int, str]]:
        end = one.end if one.comma is None else one.comma + 1
        left = self.text[parent.start + 1 : one.start] + self.text[end : parent.end - 1]
        if not left.strip():
            return [(parent.start + 1, parent.end - 1, "")]
        start = self._scan.token_end(one.start, parent.start + 1)
        return [(start, end, self._newline if self._comment_open(start, end) else "")]

    def _comment_open(self, start: int, end: int) -> bool:
        """Whether a comment that ends with its line stands before a cut whose end does not begin a new line."""
        if self.text[end:].lstrip(" \t").startswith(("\r", "\n")):
            return False
        return any(last == start and self.text.startswith("//", first) for first, last in self._scan.comments)

    def _spread(self, parent: Node | None) -> bool:
        """Whether the elements of a container stand on lines of their own; an empty one does as the whole text does."""
        if parent is None:
            return True
        if parent.elements:
            return "\n" in self.text[parent.start : parent.elements[0].start]
        root = self._scan.root
        return root is None or root is parent or self._spread(root)

    def _tight(self, parent: Node) -> bool:
        """Whether there is no space behind the commas of a container on one line."""
        for one, following in zip(parent.elements, parent.elements[1:], strict=False):
            return one.comma is not None and following.start == one.comma + 1
        return ": " not in self.text and ", " not in self.text

    def _margin(self, place: int) -> str:
        """The white space that the line of a place begins with."""
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _written(self, value: object, place: int, spread: bool, margin: str | None = None) -> str:
        if not spread:
            tight = ": " not in self.text and ", " not in self.text
            return json.dumps(value, ensure_ascii=False, separators=(",", ":") if tight else (", ", ": "))
        text = json.dumps(value, ensure_ascii=False, indent=self._indent)
        return text.replace("\n", self._newline + (self._margin(place) if margin is None else margin))


def _position(parent: Node, step: str | int) -> int:
    """Where a member (of several with one name the last, which is the one that counts) or an item is; -1: nowhere."""
    if isinstance(step, int):
        return step if parent.kind == "array" and 0 <= step < len(parent.elements) else -1
    places = [place for place, one in enumerate(parent.elements) if one.key == step]
    return places[-1] if places else -1


def _comments(raw: str) -> list[str]:
    scan = Scan(raw)
    return [raw[start:end] for start, end in scan.comments]
