"""What values of foreign JSON are worth: text, one line, a point in time. Anything may stand anywhere."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from json.scanner import make_scanner
from typing import Any

from coffer import scrub
from memory.files.markdown import clean

IMAGE = "[image]"
TITLE_CHARS = 80
_WORD_CHARS = 600
_MOST_MADE = 256
_made: dict[str, str | None] = {}  # titles by what they were made of, and by themselves
_FIRST_YEAR = 2000
_scan = make_scanner(json.JSONDecoder())  # type: ignore[arg-type] # what it takes is a decoder
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mapping(value: Any) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """The value when it is a string that can be stored, else the empty one."""
    if not isinstance(value, str):
        return ""
    return value if value.isascii() and "\0" not in value else clean(value)


def one_line(value: Any) -> str | None:
    """A title: white space folded, 80 characters at most, ``?`` for what cannot be written. None when it is blank.

    It has no secrets, since it is kept and shown.
    """
    return title(opening(value))


def opening(value: Any) -> str | None:
    """What a title is made of: a text's first characters in one line, up to the end of the word they end in.

    Half a secret would not be known for one.
    """
    line = " ".join(text(value).lstrip()[: 20 * TITLE_CHARS].split())
    end = line.find(" ", TITLE_CHARS)
    return line[: end if 0 <= end < _WORD_CHARS else _WORD_CHARS] or None


def title(opening: str | None) -> str | None:
    """The title that an opening makes; one that was made lately is not looked through again."""
    if opening is None or opening in _made:
        return opening and _made[opening]
    found = scrub.redact(opening).text[:TITLE_CHARS].strip().replace("\ufffd", "?") or None
    if len(_made) > _MOST_MADE:
        _made.clear()
    _made[opening] = found
    if found is not None:
        _made[found] = found
    return found


def moment(value: Any) -> datetime | None:
    """ISO text (UTC when it names no zone) or a number of (milli-, micro-, nano-) seconds since 1970, as UTC.

    None for anything else, and for years before 2000: they come from clocks that were never set.
    """
    try:
        if isinstance(value, str):
            at = datetime.fromisoformat(value)
            if at.tzinfo is not UTC:
                at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            at = _EPOCH + timedelta(seconds=value / _per_second(abs(value)))
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return at if at.year >= _FIRST_YEAR else None


def from_nanos(count: int) -> datetime:
    """A file's own time as UTC."""
    return _EPOCH + timedelta(microseconds=count // 1000)


def loads(data: str | bytes) -> dict[str, Any] | None:
    """The object that the JSON text is; None when it is no object, no JSON, or nested beyond reason."""
    try:
        # Not json.loads: with short texts it spends more time on the way to the decoder than in it.
        content = (data if isinstance(data, str) else data.decode()).strip()
        value, end = _scan(content, 0)
    except (ValueError, RecursionError, StopIteration):
        return None
    return value if isinstance(value, dict) and end == len(content) else None


def without_spans(text: str, tags: Iterable[str]) -> str:
    """The text without ``<tag …>…</tag>`` of these tags; time is linear in its length, closed or not."""
    for tag in tags:
        start = text.find(f"<{tag}")
        if start == -1:
            continue
        kept, done, close = [], 0, f"</{tag}>"
        while start != -1 and (end := text.find(close, start)) != -1:
            kept.append(text[done:start])
            done = end + len(close)
            start = text.find(f"<{tag}", done)
        text = "".join(kept) + text[done:]
    return text


def _per_second(size: float) -> float:
    for most, unit in ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6)):
        if size < most:
            return unit
    return 1e9
