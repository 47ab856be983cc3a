"""Plain-text shapes for a terminal. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

# Control, escape and direction characters in a remembered text must not steer the terminal.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def safe(text: str) -> str:
    """The text with everything that a terminal would obey, or that hides, replaced by a visible mark."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the last one is left as it is."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    )


def pairs(values: Mapping[str, Any]) -> str:
    width = max(len(key) for key in values)
    return "\n".join(f"{key.ljust(width)}  {'-' if value is None else value}" for key, value in values.items())


def indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def ago(time: datetime) -> str:
    """The age in one unit, as short as a column wants it."""
    seconds = max(0, int((datetime.now(UTC) - time).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
