"""What every command line says and asks: JSON for a script, text for a person, tables, a yes or no."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from coffer.text import visible


def answer(command: BaseCommand, value: Any, text: str, *, as_json: bool) -> None:
    """Print the value for a script, or the text for a person."""
    if as_json:
        command.stdout.write(json.dumps(value, ensure_ascii=False, indent=2, default=str))
    else:
        show(command, text)


def show(command: BaseCommand, text: str) -> None:
    """Print text: nothing in it steers a terminal or hides there, behind a pipe either. JSON has it exactly."""
    command.stdout.write(visible(text))


def confirm(question: str, *, yes: bool, otherwise: str) -> None:
    """Go on when the person says so or ``yes`` is set. Raises CommandError: nobody to ask, or the answer was no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"There is no terminal to ask on, so nothing was changed. {otherwise}")
    if not agrees(question):
        raise CommandError("Nothing was changed.")


def agrees(question: str) -> bool:
    """Whether the person types a yes."""
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the last one is left as it is."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in lines
    )


def pairs(values: Mapping[str, Any]) -> str:
    """One line for each value, its name before it; ``-`` for none."""
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
