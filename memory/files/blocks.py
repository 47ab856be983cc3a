"""The frontmatter block: a python-frontmatter handler for which every scalar is the string that was written.

python-frontmatter's own YAML handler types its values (`on`, `1.10`, `12:30:45`), takes any text between two rules for
a block, and its `parse` strips the body; this one replaces all three (BC-018, BC-020).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from frontmatter.default_handlers import BaseHandler

FENCE = "---"

_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_STRING_TAGS = ("tag:yaml.org,2002:str", "!")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_KEY_LINE = re.compile(r"([A-Za-z_][\w .-]{0,60}?)[ \t]*:(?:[ \t]+(.*))?$")
_MAPPING_LINE = re.compile(r"[ \t#]|-(?:[ \t]|$)|$")

# Plain only when no YAML parser of any version can read it as anything but this string.
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9 _.,/()-]*[A-Za-z0-9_./()-])?")
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS_WITH_MEANING = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True)
class Loaded:
    """A block as read; `starts` has the line of each top-level key, or nothing when they share lines."""

    meta: dict[str, Any]
    problems: tuple[str, ...] = ()
    starts: dict[str, int] = field(default_factory=dict)
    broken: bool = False


class NoMapping(ValueError):
    """The text between the fences is no set of keys: it is prose, and belongs to the body."""


class StringsHandler(BaseHandler):
    """Strings only, at position 0 only, exactly three dashes."""

    FM_BOUNDARY = re.compile(r"^---[ \t]*$", re.MULTILINE)
    START_DELIMITER = END_DELIMITER = FENCE

    def split(self, text: str) -> tuple[str, str]:
        """Block and the rest behind the closing fence; ValueError when there is none. Expects LF line ends."""
        opening = text.find("\n")
        if not text.startswith(FENCE) or opening < 0 or text[3:opening].strip(" \t"):
            raise ValueError("no block")
        at = opening
        while (at := text.find("\n---", at)) >= 0:
            end = text.find("\n", at + 1)
            end = len(text) if end < 0 else end
            if not text[at + 4 : end].strip(" \t"):
                return text[opening + 1 : at + 1], text[end + 1 :]
            at += 1
        raise ValueError("the block is never closed")

    def load(self, fm: str) -> dict[str, Any]:
        """The keys of a block, as well as they can be read."""
        return read(fm).meta

    def export(self, metadata: Mapping[str, Any], **_: object) -> str:
        """The keys as YAML lines in their order, each ended by a line end."""
        return "".join(line + "\n" for line in _lines(metadata, ""))


HANDLER = StringsHandler()


def read(block: str) -> Loaded:
    """Read a block; a broken one key by key, with a problem that names its line. Raises NoMapping (BC-014, BC-015)."""
    if not block.strip():
        return Loaded({})
    try:
        return _load(block)
    except (yaml.YAMLError, RecursionError) as error:
        if not _looks_like_keys(block):
            raise NoMapping from None
        return Loaded(_by_hand(block), (_problem(error),), broken=True)


def _load(block: str) -> Loaded:
    node = yaml.compose(block, Loader=_LOADER)
    if not isinstance(node, yaml.MappingNode):
        raise NoMapping
    problems: list[str] = []
    seen: set[int] = set()
    meta = _mapping(node, problems, seen)
    # Editing line by line needs one key per line: not `{a: 1, b: 2}`, and no key twice.
    starts = {} if node.flow_style else {key.value: key.start_mark.line for key, _ in node.value}
    if len(set(starts.values())) != len(node.value):
        starts = {}
    return Loaded(meta, tuple(problems), starts)


def _value(node: Any, problems: list[str], seen: set[int]) -> Any:
    if type(node) is yaml.ScalarNode:
        return _scalar_value(node, problems)
    # An alias may repeat a node without end or make a small block huge, so it counts as broken.
    if id(node) in seen:
        raise yaml.YAMLError("aliases are not supported")
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, problems, seen)
    return [_value(item, problems, seen) for item in node.value]


def _mapping(node: Any, problems: list[str], seen: set[int]) -> dict[str, Any]:
    meta: dict[str, Any] = {}
    for key, value in node.value:
        if type(key) is not yaml.ScalarNode:
            raise yaml.YAMLError("a key is a list or a mapping")
        if key.value in meta:
            problems.append(f"line {key.start_mark.line + 2}: a key stands here a second time; the last one counts")
        meta[key.value] = _value(value, problems, seen)
    return meta


def _scalar_value(node: Any, problems: list[str]) -> str | None:
    if node.tag not in _STRING_TAGS:
        problems.append(f"line {node.start_mark.line + 2}: a YAML tag is kept as part of the text")
        return f"{node.tag.replace('tag:yaml.org,2002:', '!!')} {node.value}".rstrip()
    text: str = node.value
    return None if text in _NULLS and not node.style else text


def _problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error) or "nested too deeply"
    where = "" if mark is None else f"line {mark.line + 2}: "
    return f"{where}the frontmatter is not valid YAML ({reason}); it was read key by key"


def _looks_like_keys(block: str) -> bool:
    lines = [line for line in block.split("\n") if line.strip() and not line.startswith("#")]
    return (
        bool(lines)
        and _KEY_LINE.match(lines[0]) is not None
        and all(_KEY_LINE.match(line) or _MAPPING_LINE.match(line) for line in lines)
    )


def _by_hand(block: str) -> dict[str, Any]:
    """Each key with the lines below it on its own: YAML where it is YAML, else the text after the colon."""
    meta: dict[str, Any] = {}
    for chunk in re.split(r"^(?=[A-Za-z_])", block, flags=re.MULTILINE):
        first, _, below = chunk.partition("\n")
        match = _KEY_LINE.match(first)
        if match is None:
            continue
        try:
            meta.update(_load(chunk).meta)
        except (yaml.YAMLError, RecursionError, NoMapping):
            text = " ".join((match[2] or "").split() + below.split())
            quoted = len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]
            meta[match[1]] = text[1:-1] if quoted else text
    return meta


def _lines(meta: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in meta.items():
        name = indent + (key if _is_plain(key, _PLAIN_WORD) else _quoted(key))
        if isinstance(value, Mapping) and value:
            yield f"{name}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{name}: {_inline(value, _PLAIN)}"


def _inline(value: Any, plain: re.Pattern[str]) -> str:
    if isinstance(value, str):
        return value if _is_plain(value, plain) else _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, (bool, int)):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = (f"{_quoted(key)}: {_inline(item, _PLAIN_WORD)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_inline(item, _PLAIN_WORD) for item in value) + "]"
    raise TypeError(f"frontmatter holds text, lists and mappings, not {type(value).__name__}")


def _is_plain(text: str, plain: re.Pattern[str]) -> bool:
    return plain.fullmatch(text) is not None and text.lower() not in _WORDS_WITH_MEANING


def _quoted(text: str) -> str:
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT_ESCAPES.get(char) or (f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
