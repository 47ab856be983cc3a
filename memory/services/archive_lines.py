"""``superseded/index.jsonl``: a line for each step in the life of an archived file; the last that names it counts.

Every function takes the store's folder; who appends holds the store's write lock.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from coffer import fs
from coffer.errors import Invalid
from memory.files import lanes, markdown

FOLDER, INDEX = "superseded", "index.jsonl"
OPEN = ("planned", "pending")  # announced, and nobody has said yet how it ended


@dataclass(frozen=True)
class Superseded:
    """One archived version: its file in ``superseded/``, where it stood, why and when it left.

    Of a note that went into another file: ``into``, with the hash ``result`` of the version that holds it, the hash
    ``was`` of the note, and ``over`` for the archived version of that file before. Of what a pass did: its ``run``, and
    in ``result`` the hash of what it wrote in the place.
    """

    file: str
    lane: str
    path: str
    why: str
    when: str
    state: str
    into: str = ""
    result: str = ""
    was: str = ""
    over: str = ""
    run: str = ""


def new(file: str, relative: str, why: str, state: str, **more: str) -> dict[str, str]:
    """The first line of a file."""
    when = markdown.stamp(datetime.now(UTC))
    lane = relative.partition("/")[0]
    return {"file": file, "lane": lane, "path": relative, "why": why, "when": when, "state": state, **more}


def append(folder: Path, *lines: dict[str, str], durable: bool = True) -> None:
    """Add lines, as a rule durable before this returns."""
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    fs.append_line(inside(folder, f"{FOLDER}/{INDEX}"), text.encode(), durable=durable)


def close(folder: Path, file: str, state: str, *, durable: bool = True) -> None:
    """Say how it ended. Need not be durable where ``archive.recover`` would come to the same end."""
    append(folder, {"file": file, "state": state}, durable=durable)


def read(folder: Path) -> Iterator[dict[str, str]]:
    """Lines that can be read; one cut off by a crash is passed over, its file is found by name."""
    try:
        text = (folder / FOLDER / INDEX).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    for line in text.splitlines():
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict) and _is_file_name(value.get("file")):
                yield {key: str(item) for key, item in value.items()}


def write(folder: Path, lines: Iterable[dict[str, str]]) -> None:
    """Replace the whole index."""
    fs.write(folder / FOLDER / INDEX, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode())


def collapsed(lines: Iterable[dict[str, str]]) -> list[Superseded]:
    """One row per file: what its first line tells, in the state of its last."""
    rows: dict[str, dict[str, str]] = {}
    for line in lines:
        rows[line["file"]] = {**rows.get(line["file"], {}), **line}
    fields = ("lane", "path", "why", "when", "state", "into", "result", "was", "over", "run")
    return [Superseded(file, *(row.get(key, "") for key in fields)) for file, row in rows.items()]


def rows(folder: Path) -> list[Superseded]:
    """What the index tells, file by file, in the order in which they were announced."""
    return collapsed(read(folder))


def files(folder: Path) -> list[str]:
    """The archived files that are there, by name."""
    try:
        entries = sorted(os.scandir(folder / FOLDER), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    return [entry.name for entry in entries if entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)]


def inside(folder: Path, relative: str) -> Path:
    """The path of a lane file, after checking that no link lies on the way to it (BC-067). Raises Invalid."""
    if not lanes.is_plain(folder, relative):
        raise Invalid(f"{relative} leads through a link; links inside a store are neither read nor written.")
    return folder / relative


def _is_file_name(file: object) -> bool:
    """Whether a line names a file of the archive itself; the index may have come from another machine."""
    return isinstance(file, str) and file not in ("", ".", "..") and "/" not in file and "\0" not in file
