"""Nothing is replaced or deleted without a copy in ``superseded/`` and a line in its ``index.jsonl`` (promise 1).

Every function here expects the caller to hold the store's write lock and takes the store's folder. A replacement is
announced (a ``pending`` line, fsynced), the old file is set aside and checked, the new one linked into place, and the
line closed; ``recover`` puts back what a killed process left half-way.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as with_changes
from datetime import UTC, datetime
from pathlib import Path

from coffer import fs
from coffer.errors import Conflict, Invalid
from memory.files import lanes, markdown

log = logging.getLogger("memory.archive")
FOLDER, INDEX = "superseded", "index.jsonl"
_STAMP = re.compile(r"\d{8}T\d{6,}Z.*")
_TEMPORARY = re.compile(r"\..{1,40}\.[0-9a-f]{12}\.tmp")  # as `fs` names them
MOVED = "moved to "  # why a file left its store, before the name of the one it went to


@dataclass(frozen=True)
class Superseded:
    """One archived version: its file in ``superseded/``, where it stood, why and when it left."""

    file: str
    lane: str
    path: str
    why: str
    when: str
    state: str


def replace(folder: Path, relative: str, *, expected_sha256: str, data: bytes, why: str) -> None:
    """Put a new version in place of the one that was read; raises Conflict when it is no longer that one."""
    aside = _set_aside(folder, relative, why)
    place = folder / relative
    if sha256(aside.read_bytes()) != expected_sha256:
        _put_back(folder, aside, place)
        raise Conflict(f"{relative} changed on disk since it was read; read it again and repeat the change.")
    try:
        fs.create(place, data)
    except FileExistsError:
        _close(folder, aside.name, "done")
        raise Conflict(f"{relative} was written by another program at the same moment; read it again.") from None
    except BaseException:
        _put_back(folder, aside, place)
        raise
    _close(folder, aside.name, "done")


def remove(folder: Path, relative: str, why: str) -> Path:
    """Take a file out of its lane into the archive; returns its place there."""
    aside = _set_aside(folder, relative, why)
    _close(folder, aside.name, "done")
    return aside


def keep_copy(folder: Path, relative: str, data: bytes, why: str) -> Path:
    """Archive bytes that are about to be replaced in place (scenes, rules, journal days)."""
    target = _free_name(folder, relative)
    _append(folder, _line(target.name, relative, why, "done"))
    fs.create(target, data)
    return target


def restore(folder: Path, line: Superseded) -> Path:
    """Put an archived version back in its place; what stands there now takes its place in the archive.

    Raises FileNotFoundError when the version has gone, Conflict when another program fills the place meanwhile.
    """
    aside, place = inside(folder, f"{FOLDER}/{line.file}"), inside(folder, line.path)
    aside.lstat()
    fs.ensure_dir(place.parent)
    current = _set_aside(folder, line.path, "replaced by an earlier version") if os.path.lexists(place) else None
    try:
        fs.move(aside, place)
    except FileExistsError:
        if current is not None:
            _close(folder, current.name, "done")
        raise Conflict(f"{line.path} was written by another program at the same moment; try again.") from None
    except BaseException:
        if current is not None:
            _put_back(folder, current, place)
        raise
    if current is not None:
        _close(folder, current.name, "done")
    _close(folder, line.file, "restored")
    return place


def erase(folder: Path, relative: str, identity: str) -> int:
    """Remove a file, its archived versions and their index lines for good; returns how many files went.

    ``identity`` finds versions from before the file was renamed; empty when another file claims the same one.
    """
    lines = list(_lines(folder))
    ours = {line.file for line in _collapsed(lines) if line.path == relative}
    ours |= {file for file in _archived_files(folder) if identity and _claims(folder / FOLDER / file, identity)}
    # The file itself goes last: cut off before that, the same request finds it again and finishes the work.
    return _unlink(folder, lines, ours, [folder / relative])


def erase_moved(folder: Path, identity: str) -> int:
    """Remove for good what a move into another store left here of a fact; returns how many files went."""
    lines = list(_lines(folder))
    rows = _collapsed(lines)
    left = {row.path for row in rows if row.why.startswith(MOVED) and _is_of(folder, row, identity)}
    gone = {path for path in left if not os.path.lexists(folder / path)}
    return _unlink(folder, lines, {row.file for row in rows if row.path in gone}, [])


def _unlink(folder: Path, lines: Sequence[dict[str, str]], files: Collection[str], more: Sequence[Path]) -> int:
    """Take archived files out of the index, then remove them and some others, leftovers of their writers too."""
    if files:
        kept = [json.dumps(line, ensure_ascii=False) for line in lines if line["file"] not in files]
        fs.write(folder / FOLDER / INDEX, "".join(f"{line}\n" for line in kept).encode())
    doomed = [*(folder / FOLDER / file for file in sorted(files)), *more]
    for path in doomed:
        for leftover in _leftovers(path):
            leftover.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(doomed)


def _is_of(folder: Path, row: Superseded, identity: str) -> bool:
    try:
        return Path(row.path).stem == identity or _claims(folder / FOLDER / row.file, identity)
    except FileNotFoundError:
        return False


def recover(folder: Path) -> int:
    """Put back files whose replacement was cut off, if their place is empty; returns how many lines were open."""
    opened = open_lines(folder)
    for line in opened:
        aside, place = folder / FOLDER / line.file, folder / line.path
        if not aside.exists():
            _close(folder, line.file, "undone")
        elif not os.path.lexists(place):
            _put_back(folder, aside, place)
            log.warning("a cut-off replacement was undone file=%s", line.file)
        elif place.samefile(aside):
            aside.unlink()
            _close(folder, line.file, "undone")
        else:
            _close(folder, line.file, "done")
    return len(opened)


def sweep(folder: Path) -> int:
    """Remove what writers that were killed left in the lanes; with the lock held nobody is writing. How many went."""
    gone = 0
    for lane in (".", "knowledge", "knowledge/inbox", "rules", "journal", "handoff", FOLDER):
        with suppress(OSError):
            for entry in os.scandir(folder / lane):
                if _TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    os.unlink(entry.path)
                    gone += 1
    return gone


def open_lines(folder: Path) -> list[Superseded]:
    """Replacements that were announced and not closed."""
    opened = [line for line in _collapsed(_lines(folder)) if line.state == "pending"]
    return [line for line in opened if lanes.is_plain(folder, line.path)]


def listing(folder: Path) -> list[Superseded]:
    """Every archived version whose file is there, newest first; within one second the file names tell."""
    known = {line.file: line for line in _collapsed(_lines(folder))}
    unknown = Superseded("", "", "", "unknown", "", "done")
    found = [known.get(file) or with_changes(unknown, file=file) for file in _archived_files(folder)]
    return sorted(found, key=lambda line: (line.when, _STAMP.findall(line.file)), reverse=True)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def inside(folder: Path, relative: str) -> Path:
    """The path of a lane file, after checking that no link lies on the way to it (BC-067). Raises Invalid."""
    if not lanes.is_plain(folder, relative):
        raise Invalid(f"{relative} leads through a link; links inside a store are neither read nor written.")
    return folder / relative


def _set_aside(folder: Path, relative: str, why: str) -> Path:
    place = inside(folder, relative)
    aside = _free_name(folder, relative)
    _append(folder, _line(aside.name, relative, why, "pending"))
    with fs.storage_errors(aside):
        # A rename, whose target is free because the lock is ours: with a link and an unlink, as `fs.move` has them, a
        # file that an editor saves between the two would be the one that goes.
        os.rename(place, aside)
        _sync_folder(aside.parent)
        _sync_folder(place.parent)
    return aside


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_back(folder: Path, aside: Path, place: Path) -> None:
    try:
        fs.move(aside, place)
    except FileExistsError:
        _close(folder, aside.name, "done")  # somebody else filled the place: the old version stays archived
    else:
        _close(folder, aside.name, "undone")


def _free_name(folder: Path, relative: str) -> Path:
    archive = fs.ensure_dir(inside(folder, FOLDER))
    stem = f"{Path(relative).stem[:100]}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%fZ')}"
    names = (f"{stem}{suffix}.md" for suffix in ("", *(f"-{count}" for count in range(2, 1000))))
    return next(archive / name for name in names if not os.path.lexists(archive / name))


def _line(file: str, relative: str, why: str, state: str) -> dict[str, str]:
    lane = relative.partition("/")[0]
    when = markdown.stamp(datetime.now(UTC))
    return {"file": file, "lane": lane, "path": relative, "why": why, "when": when, "state": state}


def _close(folder: Path, file: str, state: str) -> None:
    _append(folder, {"file": file, "state": state})


def _append(folder: Path, line: dict[str, str]) -> None:
    fs.append_line(inside(folder, f"{FOLDER}/{INDEX}"), json.dumps(line, ensure_ascii=False).encode())


def _lines(folder: Path) -> Iterator[dict[str, str]]:
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


def _collapsed(lines: Iterable[dict[str, str]]) -> list[Superseded]:
    """One row per file: what its first line tells, in the state of its last."""
    rows: dict[str, dict[str, str]] = {}
    for line in lines:
        rows[line["file"]] = {**rows.get(line["file"], {}), **line}
    fields = ("lane", "path", "why", "when", "state")
    return [Superseded(file, *(row.get(key, "") for key in fields)) for file, row in rows.items()]


def _archived_files(folder: Path) -> list[str]:
    try:
        entries = sorted(os.scandir(folder / FOLDER), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    return [entry.name for entry in entries if entry.name.endswith(".md") and entry.is_file(follow_symlinks=False)]


def _is_file_name(file: object) -> bool:
    """Whether a line names a file of the archive itself; the index may have come from another machine."""
    return isinstance(file, str) and file not in ("", ".", "..") and "/" not in file and "\0" not in file


def _leftovers(path: Path) -> list[Path]:
    """What writers of this file that were killed left beside it (`fs.write` names them so)."""
    with suppress(FileNotFoundError):
        start = f".{path.name[:40]}."
        return [other for other in path.parent.iterdir() if other.name.startswith(start) and other.suffix == ".tmp"]
    return []


def _claims(path: Path, identity: str) -> bool:
    with suppress(OSError):
        return markdown.parse(fs.read(path)).meta.get("id") == identity
    return False
