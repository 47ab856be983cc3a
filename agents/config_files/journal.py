"""The journal of edits in COFFER_HOME/backups/agents: what was changed where, and the bytes as they were before.

One line per edit, durable before the edit is made, and one when it was undone. A line of an edit that a crash kept from
happening does no harm: what counts is always what the file says.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agents.config_files.entries import Records
from coffer import fs, paths

_NAME = "edits.jsonl"


@dataclass(frozen=True)
class Owner:
    """The agent that a file belongs to, as its row says it."""

    name: str
    type: str
    folder: str


@dataclass(frozen=True)
class Line:
    """One edit, or with ``undone`` the end of every edit of a path for these purposes.

    Without a purpose it announces the end of edits: what counts of it are its backups.
    """

    owner: Owner
    path: str
    purposes: list[str]
    undone: bool = False
    before: str | None = None  # sha256 of the bytes; None: there was no file
    after: str | None = None
    backup: str = ""
    wanted: str = ""  # with an edit in place: the name of a copy of the new bytes
    folders: list[str] = field(default_factory=list)  # that had to be made, the outermost first
    records: list[tuple[list[str | int], str | None]] = field(default_factory=list)
    at: str = ""


@dataclass(frozen=True)
class History:
    """The edits of one path that have not been undone, oldest first, and what all since the first have recorded."""

    edits: list[Line]
    containers: Records
    in_place: Line | None = None  # the last edit, or end of edits, that was written over the file itself

    def members(self, purposes: Iterable[str]) -> Records:
        """What the edits for some purposes have recorded; a later one says what a person wanted last."""
        wanted = set(purposes)
        return {tuple(keys): raw for line in self.edits if wanted & set(line.purposes) for keys, raw in line.records}


def folder() -> Path:
    return paths.backups() / "agents"


def note(line: Line, *, before: bytes | None, wanted: bytes | None = None) -> None:
    """Keep the bytes of before, then write the line; both are durable."""
    fs.ensure_dir(folder())
    names = {"backup": _keep(Path(line.path), before), "wanted": _keep(Path(line.path), wanted)}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = json.dumps({**asdict(line), **names, "at": now}, ensure_ascii=False)
    fs.append_line(folder() / _NAME, text.encode("utf-8", "surrogatepass"))


def history(path: Path) -> History:
    """What has been done to a path."""
    edits: list[Line] = []
    containers: Records = {}
    in_place: Line | None = None
    for line in _lines():
        if line.path != str(path):
            continue
        in_place = line if line.wanted else in_place
        if not line.purposes:
            continue
        if not line.undone:
            edits.append(line)
            containers |= {tuple(keys): raw for keys, raw in line.records}
        else:
            edits = [one for one in edits if not set(one.purposes) <= set(line.purposes)]
        if not edits:
            containers = {}
    return History(edits, containers, in_place)


def owners() -> dict[Owner, set[str]]:
    """The agents with edits that have not been undone, and the purposes of those."""
    found: dict[tuple[str, Owner], set[str]] = {}
    for line in _lines():
        purposes = found.setdefault((line.path, line.owner), set())
        if line.undone:
            purposes -= set(line.purposes)
        else:
            purposes |= set(line.purposes)
    merged: dict[Owner, set[str]] = {}
    for (_, owner), purposes in found.items():
        if purposes:
            merged.setdefault(owner, set()).update(purposes)
    return merged


def folders_of(agent: str) -> list[Path]:
    """Every folder that was made for an agent's files, the innermost first."""
    found = dict.fromkeys(Path(name) for line in _lines() if line.owner.name == agent for name in line.folders)
    return sorted(found, key=lambda one: len(one.parts), reverse=True)


def kept(name: str, sha256: str | None) -> bytes | None:
    """The bytes of a backup, or None when they are gone or are not those."""
    with suppress(OSError):
        data = fs.read(folder() / name)
        if digest(data) == sha256:
            return data
    return None


def digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _keep(path: Path, data: bytes | None) -> str:
    """Back up the bytes of a file; the backup's name, "" for no file."""
    if data is None:
        return ""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    name = f"{now}-{(digest(data) or '')[:8]}-{path.name.lstrip('.')}"
    fs.ensure_dir(folder())
    with suppress(FileExistsError):  # the same bytes, a moment ago
        fs.create(folder() / name, data)
    return name


def _lines() -> list[Line]:
    """Every whole line; one that a crash cut off tells of an edit that was not made."""
    try:
        data = fs.read(folder() / _NAME)
    except FileNotFoundError:
        return []
    found = []
    for text in data.splitlines():
        with suppress(ValueError, TypeError, LookupError):
            members = json.loads(text.decode("utf-8", "surrogatepass"))
            found.append(Line(**{**members, "owner": Owner(**members["owner"])}))
    return found
