"""Memory files as values: bytes to text, text to frontmatter and body, and back without losing what a person wrote.

A file is one block of frontmatter (when it has any), one blank line, and the body. Reading drops one blank line behind
the block and one line end at the end, writing adds both, so a body comes back exactly; only its line ends become LF.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memory.files import blocks
from memory.files.titles import first_sentence, shorten

__all__ = [
    "Page", "clean", "decode", "dump", "first_sentence", "is_text", "parse", "replace", "shorten", "stamp", "text_of",
    "timestamp", "title_of",
]  # fmt: skip

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(r"\r\n|\r|\n")
_RAW_BLOCK = re.compile(r"---[ \t]*(?:\r\n|\r|\n)((?:[^\r\n]*(?:\r\n|\r|\n))*?)---[ \t]*(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(r"---[ \t]*\n[A-Za-z_][\w .-]{0,60}:(?:\s|$)")
_SURROGATE = re.compile("[\ud800-\udfff]")
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?([Zz]|[+-]\d\d:?\d\d)", re.ASCII
)  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A file as read: strings, lists and mappings in `meta` (a key without a value is left out), the body in LF.

    `raw_block` is the text of a block that is not valid YAML; `meta` then holds what could be read of it (FR-001).
    """

    meta: dict[str, Any]
    body: str
    problems: tuple[str, ...] = ()
    raw_block: str | None = None


@dataclass(frozen=True)
class _Parts:
    block: str | None
    body: str
    loaded: blocks.Loaded = field(default_factory=lambda: blocks.Loaded({}))
    problems: tuple[str, ...] = ()


def decode(data: bytes) -> tuple[str, list[str]]:
    """The text in LF without BOM and NUL, and a sentence for each thing that had to be replaced (BC-004, BC-023)."""
    problems: list[str] = []
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
        problems.append("the file is UTF-16; it is read, and saved as UTF-8 when it is next changed")
    else:
        data = data.removeprefix(_BOM)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = len(_LINE_END.findall(data[: error.start].decode("latin-1"))) + 1
            problems.append(f"line {line}: not valid UTF-8; what could not be read is shown as \ufffd")
            text = data.decode("utf-8", "replace")
    if "\0" in text:
        problems.append(f"line {text[: text.index(chr(0))].count(chr(10)) + 1}: NUL characters are left out")
        text = text.replace("\0", "")
    return _with_lf(text), problems


def parse(data: bytes) -> Page:
    """Read a file as well as it can be read; never raises (BC-014 to BC-025)."""
    text, problems = decode(data)
    parts = _take_apart(text)
    meta = {key: _without_nulls(value) for key, value in parts.loaded.meta.items() if value is not None}
    raw = parts.block if parts.loaded.broken else None
    return Page(meta, parts.body, (*problems, *parts.problems, *parts.loaded.problems), raw)


def dump(meta: Mapping[str, Any], body: str) -> bytes:
    """A new file: every string reads back as the same string with any safe YAML parser, in the given order (BC-022)."""
    body = _with_lf(clean(body))
    if not meta and not body.startswith((blocks.FENCE, "\ufeff")):
        return f"{body}\n".encode()
    block = blocks.HANDLER.export(_cleaned(meta))
    return f"---\n{block}---\n{_behind_fence(body)}".encode()


def replace(data: bytes, meta_updates: Mapping[str, Any], body: str | None = None) -> bytes:
    """The file with some keys and the body (None: kept) changed; other lines, BOM and line ends stay (BC-016, BC-025).

    An update of None takes the key out. A block that is not valid YAML keeps its bytes and takes no updates: see
    `Page.raw_block`. UTF-16 becomes UTF-8.
    """
    bom, raw = _raw_text(data)
    text, _ = decode(data)
    parts = _take_apart(text)
    match = _RAW_BLOCK.match(raw)
    line_end = _line_end(raw)
    new_body = parts.body if body is None else _with_lf(clean(body))
    if parts.block is None or match is None:
        meta = {key: value for key, value in {**parts.loaded.meta, **meta_updates}.items() if value is not None}
        return bom + _LINE_END.sub(line_end, dump(meta, new_body).decode()).encode()
    if parts.loaded.broken:
        head = match[0] if match[0].endswith(("\r", "\n")) else match[0] + line_end
    else:
        block = _edited(match[1], parts.loaded, _cleaned(meta_updates))
        head = _LINE_END.sub(line_end, f"{blocks.FENCE}\n{block}{blocks.FENCE}\n")
    rest = raw[match.end() :]
    if body is not None:
        separated = _LINE_END.match(rest) is not None
        rest = _LINE_END.sub(line_end, _behind_fence(new_body, separated))
    return bom + (head + rest).encode("utf-8", "surrogateescape")


def clean(text: str) -> str:
    """Text that can be stored: both halves of a surrogate pair joined, a lone half U+FFFD, NUL taken out (BC-002)."""
    if not text.isascii() and _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "")


def one_line(text: str) -> str:
    """The same in one line, white space folded."""
    return " ".join(clean(text).split())


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8 without NUL, so that nothing is lost when they are read and written again."""
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def title_of(page: Page, stem: str) -> str:
    """The title as written, in one line; the file's stem when it is missing, empty, a list or a mapping (BC-020)."""
    return text_of(page, "title") or stem


def text_of(page: Page, key: str) -> str:
    """A frontmatter value when it is text, in one line; else empty."""
    value = page.meta.get(key)
    if not isinstance(value, str):
        return ""
    value = value.strip()
    return " ".join(value.split()) if len(value.splitlines()) > 1 else value


def timestamp(value: str | None) -> datetime | None:
    """An ISO date and time with its zone as UTC; None for anything else, a time without a zone included."""
    match = _TIMESTAMP.fullmatch(value.strip()) if value else None
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone in "Zz" else zone
    try:
        return datetime.fromisoformat(f"{day}T{clock}{(fraction or '')[:7]}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def stamp(moment: datetime) -> str:
    """The moment in UTC, to the second, ending in Z."""
    if moment.tzinfo is None:
        raise ValueError("a time without a zone cannot be stamped")
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _take_apart(text: str) -> _Parts:
    try:
        block, rest = blocks.HANDLER.split(text)
        loaded = blocks.read(block)
    except blocks.NoMapping:
        return _Parts(None, text.removesuffix("\n"))
    except ValueError:
        unclosed = ("line 1: the frontmatter that opens here is never closed; it is read as text",)
        return _Parts(None, text.removesuffix("\n"), problems=unclosed if _KEY.match(text) else ())
    return _Parts(block, rest.removeprefix("\n").removesuffix("\n"), loaded)


def _behind_fence(body: str, separated: bool = True) -> str:
    if not body:
        return ""
    return f"\n{body}\n" if separated or body.startswith("\n") else f"{body}\n"


def _edited(raw_block: str, loaded: blocks.Loaded, updates: Mapping[str, Any]) -> str:
    """The block with only the lines of the updated keys changed; written anew when its form does not allow that."""
    removed = {key for key, value in updates.items() if value is None}
    wanted = {key: value for key, value in {**loaded.meta, **updates}.items() if key not in removed}
    if wanted == loaded.meta:
        return raw_block
    edited = _edited_lines(raw_block, loaded.starts, updates)
    with suppress(blocks.NoMapping):
        again = blocks.read(decode(edited.encode("utf-8", "surrogateescape"))[0])
        if loaded.starts and again.meta == wanted and not again.broken:
            return edited
    return blocks.HANDLER.export(wanted)


def _edited_lines(raw_block: str, starts: Mapping[str, int], updates: Mapping[str, Any]) -> str:
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)", raw_block)
    ends = [*sorted(starts.values())[1:], len(lines)]
    extents = dict(zip(sorted(starts, key=starts.__getitem__), ends, strict=False))
    added = ""
    for key, value in updates.items():
        new = "" if value is None else blocks.HANDLER.export({key: value})
        if key not in starts:
            added += new
            continue
        start, end = starts[key], extents[key]
        # Comments and blank lines between this key and the next are not part of its value.
        while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1
        lines[start:end] = [new] + [""] * (end - start - 1)
    return "".join(lines) + added


def _raw_text(data: bytes) -> tuple[bytes, str]:
    """BOM and text with the line ends as they are; bytes that are no UTF-8 come back when it is encoded again."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return b"", data.decode("utf-16", "replace")
    bom = _BOM if data.startswith(_BOM) else b""
    return bom, data[len(bom) :].decode("utf-8", "surrogateescape")


def _line_end(text: str) -> str:
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(counts, key=counts.__getitem__)


def _with_lf(text: str) -> str:
    return _LINE_END.sub("\n", text) if "\r" in text else text


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, (list, tuple)) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value if item is not None] if isinstance(value, list) else value
