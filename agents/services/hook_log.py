"""What hooks that found no answer noted in logs/hook.log; ``agents.hook`` writes it, a line each."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from coffer import paths
from coffer.text import visible_line

_TAIL_BYTES = 32 * 1024
_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) (\w+) '(\w+)' (.+)")  # stamp, event, agent, why


@dataclass(frozen=True)
class Failure:
    """When a hook ended without an answer, to the second, and why in its own words."""

    at: datetime
    why: str


def last_failure(agent: str, event: str) -> Failure | None:
    """The newest one of an agent's event in the last 32 KiB of the log; lines that are none are passed over."""
    for line in reversed(_tail().splitlines()):
        found = _LINE.fullmatch(line)
        if found is None or (found[2], found[3]) != (event, agent):
            continue
        try:
            at = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:  # such as a 13th month
            continue
        return Failure(at, visible_line(found[4]))
    return None


def _tail() -> str:
    """The end of the log; empty where there is none to be read."""
    try:
        with open(paths.logs() / "hook.log", "rb", opener=_opener) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe in its place must not hold up a page
