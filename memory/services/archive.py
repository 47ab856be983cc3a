"""Nothing is replaced or deleted without a copy in ``superseded/`` and a line in its ``index.jsonl`` (promise 1).

Every function here expects the caller to hold the store's write lock and takes the store's folder. A replacement is
announced (a ``pending`` line, fsynced), the old file is set aside and checked, the new one linked into place, and the
line closed; ``recover`` puts back what a killed process left half-way, or finishes it when that is the safe end.
"""

import hashlib
import logging
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace as with_changes
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from coffer import fs
from coffer.errors import CofferError, Conflict
from memory.files import lanes, markdown
from memory.services import archive_lines as lines
from memory.services.archive_lines import FOLDER, INDEX, Superseded, inside

__all__ = [
    "FOLDER", "INDEX", "MADE", "MOVED", "Superseded", "announce", "create", "drain", "erase", "erase_moved", "fold",
    "inside", "keep_copy", "listing", "open_lines", "recover", "remove", "replace", "restore", "retire", "sha256",
    "sweep",
]  # fmt: skip

log = logging.getLogger("memory.archive")
MADE = "made"  # the state of a line that stands for something new, of which no version is archived
MOVED = "moved to "  # why a file left its store, before the name of the one it went to
_STAMP = re.compile(r"\d{8}T\d{6,}Z.*")
_TEMPORARY = re.compile(r"\..{1,40}\.[0-9a-f]{12}\.tmp")  # as `fs` names them


def create(folder: Path, relative: str, data: bytes, *, run: str = "") -> None:
    """Make a new file, in a pass noting it so that it can be undone; raises Conflict when its place is taken."""
    place = inside(folder, relative)
    noted = announce(folder, relative, data, "made by a pass", run) if run else ""
    fs.ensure_dir(place.parent)
    try:
        fs.create(place, data)
    except FileExistsError:
        if noted:
            lines.close(folder, noted, "undone")
        raise Conflict(f"{relative} was written by another program at the same moment; read it again.") from None


def announce(folder: Path, relative: str, data: bytes, why: str, run: str) -> str:
    """Note what a pass is about to make that has no version before; returns the name of its line."""
    name = _free_name(folder, relative).name
    lines.append(folder, lines.new(name, relative, why, MADE, result=sha256(data), run=run))
    return name


def replace(folder: Path, relative: str, *, expected_sha256: str, data: bytes, why: str, run: str = "") -> None:
    """Put a new version in place of the one that was read; raises Conflict when it is no longer that one.

    With the ``run`` of a pass the index tells what it wrote, too, so that it can be undone.
    """
    more = {"run": run, "result": sha256(data)} if run else {}
    _replace(folder, relative, _free_name(folder, relative), expected_sha256, data, why, **more)


def remove(folder: Path, relative: str, why: str, run: str = "") -> Path:
    """Take a file out of its lane into the archive; returns its place there."""
    aside = _set_aside(folder, relative, why, **_of_pass(run))
    lines.close(folder, aside.name, "done")
    return aside


def retire(folder: Path, relative: str, *, expected_sha256: str, why: str, run: str) -> Path:
    """Like ``remove``, for the version that was read alone; raises Conflict when it is no longer that one."""
    aside = _set_aside(folder, relative, why, run=run)
    if sha256(aside.read_bytes()) != expected_sha256:
        _put_back(folder, aside, folder / relative)
        raise Conflict(f"{relative} changed on disk since it was read; it stays as it is.")
    lines.close(folder, aside.name, "done")
    return aside


def fold(
    folder: Path, note: str, into: str, *, note_sha256: str, into_sha256: str | None, data: bytes, why: str, run: str
) -> bool:
    """Put ``data`` in the place of a topic (None: there is none yet), and then the note that it holds into the archive.

    Both are announced as one, so that ``recover`` can tell whether the topic holds the note already. Raises Conflict
    when either file is not the version that was read; False when the note alone changed in the last moment and stays.
    """
    if sha256(fs.read(inside(folder, note))) != note_sha256:
        raise Conflict(f"{note} changed on disk since it was read; it stays as it is.")
    aside = _free_name(folder, note)
    over = _free_name(folder, into).name if into_sha256 is not None else ""
    told = {"into": into, "result": sha256(data), "was": note_sha256, "over": over, "run": run}
    plan = lines.new(aside.name, note, why, "planned", **told)
    try:
        if into_sha256 is not None:
            place = folder / FOLDER / over
            _replace(folder, into, place, into_sha256, data, "a note was merged into it", plan, run=run)
        else:
            lines.append(folder, plan)
            create(folder, into, data)
    except BaseException:
        with suppress(CofferError, OSError):  # a plan that nothing came of says so itself: its result is nowhere
            lines.close(folder, aside.name, "undone")
        raise
    return _drained(folder, note, aside, note_sha256, why, planned=True, **told)


def drain(folder: Path, note: str, *, note_sha256: str, why: str, into: str, run: str) -> bool:
    """Archive a note that another file holds by now; False when it changed meanwhile, and then it stays."""
    return _drained(folder, note, _free_name(folder, note), note_sha256, why, planned=False, into=into, run=run)


def keep_copy(folder: Path, relative: str, data: bytes, why: str, run: str = "") -> Path:
    """Archive bytes that are about to be replaced in place (scenes, rules, journal days)."""
    target = _free_name(folder, relative)
    lines.append(folder, lines.new(target.name, relative, why, "done", **_of_pass(run)))
    fs.create(target, data)
    return target


def restore(folder: Path, line: Superseded) -> Path:
    """Put an archived version back in its place; what stands there now takes its place in the archive.

    Raises FileNotFoundError when the version has gone, Conflict when another program fills the place meanwhile.
    """
    aside, place = inside(folder, f"{FOLDER}/{line.file}"), inside(folder, line.path)
    aside.lstat()
    fs.ensure_dir(place.parent)
    current = None
    if os.path.lexists(place):
        current = _set_aside(folder, line.path, "replaced by an earlier version")
    try:
        fs.move(aside, place)
    except FileExistsError:
        if current is not None:
            lines.close(folder, current.name, "done")
        raise Conflict(f"{line.path} was written by another program at the same moment; try again.") from None
    except BaseException:
        if current is not None:
            _put_back(folder, current, place)
        raise
    if current is not None:
        lines.close(folder, current.name, "done")
    lines.close(folder, line.file, "restored")
    return place


def erase(folder: Path, relative: str, identity: str) -> int:
    """Remove a file, its archived versions, the notes that went into it and their index lines; how many files went.

    ``identity`` finds versions from before the file was renamed; empty when another file claims the same one.
    """
    found = list(lines.read(folder))
    ours = {line.file for line in lines.collapsed(found) if relative in (line.path, line.into)}
    ours |= {file for file in lines.files(folder) if identity and claims(folder / FOLDER / file, identity)}
    # The file itself goes last: cut off before that, the same request finds it again and finishes the work.
    return _unlink(folder, found, ours, [folder / relative])


def erase_moved(folder: Path, identity: str) -> int:
    """Remove for good what a move into another store left here of a fact; returns how many files went."""
    found = list(lines.read(folder))
    rows = lines.collapsed(found)
    left = {row.path for row in rows if row.why.startswith(MOVED) and _is_of(folder, row, identity)}
    gone = {path for path in left if not os.path.lexists(folder / path)}
    return _unlink(folder, found, {row.file for row in rows if row.path in gone}, [])


def recover(folder: Path) -> int:
    """End what killed processes began, files before the notes that went into them; returns how many were open."""
    opened = open_lines(folder)
    for line in opened:
        if not line.into:
            _end_replacement(folder, line)
    states = {row.file: row.state for row in lines.rows(folder)}
    for line in opened:
        if line.into:
            _end_fold(folder, line, replaced=bool(line.over) and states.get(line.over) == "done")
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
    """What was announced and not closed."""
    opened = [line for line in lines.rows(folder) if line.state in lines.OPEN]
    return [line for line in opened if lanes.is_plain(folder, line.path)]


def listing(folder: Path) -> list[Superseded]:
    """Every archived version whose file is there, newest first; within one second the file names tell."""
    known = {line.file: line for line in lines.rows(folder)}
    unknown = Superseded("", "", "", "unknown", "", "done")
    found = [known.get(file) or with_changes(unknown, file=file) for file in lines.files(folder)]
    return sorted(found, key=lambda line: (line.when, _STAMP.findall(line.file)), reverse=True)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def claims(path: Path, identity: str) -> bool:
    """Whether the file at a path claims this id, read as the index reads it; not if it cannot be read."""
    with suppress(OSError):
        return bool(identity) and markdown.text_of(markdown.parse(fs.read(path)), "id") == identity
    return False


def _replace(
    folder: Path, relative: str, aside: Path, expected: str, data: bytes, why: str, *plan: dict[str, str], **more: str
) -> None:
    lines.append(folder, *plan, lines.new(aside.name, relative, why, "pending", **more))
    place = _moved_aside(inside(folder, relative), aside)
    if sha256(aside.read_bytes()) != expected:
        _put_back(folder, aside, place)
        raise Conflict(f"{relative} changed on disk since it was read; read it again and repeat the change.")
    try:
        fs.create(place, data)
    except FileExistsError:
        lines.close(folder, aside.name, "done")
        raise Conflict(f"{relative} was written by another program at the same moment; read it again.") from None
    except BaseException:
        _put_back(folder, aside, place)
        raise
    lines.close(folder, aside.name, "done", durable=False)


def _drained(folder: Path, note: str, aside: Path, expected: str, why: str, *, planned: bool, **more: str) -> bool:
    lines.append(folder, lines.new(aside.name, note, why, "pending", **more), durable=not planned)
    _moved_aside(inside(folder, note), aside)
    if sha256(aside.read_bytes()) != expected:
        _put_back(folder, aside, folder / note)
        return False
    lines.close(folder, aside.name, "done", durable=False)
    return True


def _end_replacement(folder: Path, line: Superseded) -> None:
    aside, place = folder / FOLDER / line.file, folder / line.path
    if not aside.exists():
        lines.close(folder, line.file, "undone")
    elif not os.path.lexists(place):
        _put_back(folder, aside, place)
        log.warning("a cut-off replacement was undone file=%s", line.file)
    elif place.samefile(aside):
        aside.unlink()
        lines.close(folder, line.file, "undone")
    else:
        lines.close(folder, line.file, "done")


def _end_fold(folder: Path, line: Superseded, *, replaced: bool) -> None:
    """A note whose topic holds it leaves the inbox; one whose topic was never written stays, or comes back."""
    note, aside = folder / line.path, folder / FOLDER / line.file
    # A line without a result is of a file that was written before the line was.
    held = replaced or not line.result or _hash(folder / line.into) == line.result
    if not held or (aside.exists() and os.path.lexists(note)):
        _end_replacement(folder, line)
    elif aside.exists() or not os.path.lexists(note):
        lines.close(folder, line.file, "done" if aside.exists() else "undone")
    elif line.was and _hash(note) != line.was:
        lines.close(folder, line.file, "undone")  # another version: it waits in the inbox like any note
    else:
        os.rename(note, aside)
        lines.close(folder, line.file, "done")
        log.warning("a cut-off merge was finished file=%s", line.file)


def _unlink(folder: Path, found: Sequence[dict[str, str]], files: Collection[str], more: Sequence[Path]) -> int:
    """Take archived files out of the index, then remove them and some others, leftovers of their writers too."""
    if files:
        lines.write(folder, [line for line in found if line["file"] not in files])
    doomed = [*(folder / FOLDER / file for file in sorted(files)), *more]
    for path in doomed:
        for leftover in _leftovers(path):
            leftover.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return len(doomed)


def _set_aside(folder: Path, relative: str, why: str, **more: str) -> Path:
    """Out of its lane for good, should nobody put it back."""
    place, aside = inside(folder, relative), _free_name(folder, relative)
    lines.append(folder, lines.new(aside.name, relative, why, "pending", **more))
    _moved_aside(place, aside)
    fs.sync_folder(place.parent)
    return aside


def _moved_aside(place: Path, aside: Path) -> Path:
    """Rename into the archive; returns the place that is free now, durably so only once its folder is synced.

    Until then a power cut may bring the file back beside its announced line, as a kill before the rename leaves it.
    """
    with fs.storage_errors(aside):
        # A rename, whose target is free because the lock is ours: with a link and an unlink, as `fs.move` has them, a
        # file that an editor saves between the two would be the one that goes.
        os.rename(place, aside)
        fs.sync_folder(aside.parent)
    return place


def _put_back(folder: Path, aside: Path, place: Path) -> None:
    try:
        fs.move(aside, place)
    except FileExistsError:
        lines.close(folder, aside.name, "done")  # somebody else filled the place: the old version stays archived
    else:
        lines.close(folder, aside.name, "undone")


def _free_name(folder: Path, relative: str) -> Path:
    inside(folder, relative)  # before anything is made for it
    archive = fs.ensure_dir(inside(folder, FOLDER))
    stem = f"{Path(relative).stem[:100]}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S%fZ')}"
    names = chain([f"{stem}.md"], (f"{stem}-{count}.md" for count in range(2, 1000)))
    return next(archive / name for name in names if not os.path.lexists(archive / name))


def _of_pass(run: str) -> dict[str, str]:
    return {"run": run} if run else {}


def _hash(path: Path) -> str:
    try:
        return sha256(fs.read(path))
    except OSError:
        return ""


def _leftovers(path: Path) -> list[Path]:
    """What writers of this file that were killed left beside it (`fs.write` names them so)."""
    with suppress(FileNotFoundError):
        start = f".{path.name[:40]}."
        return [other for other in path.parent.iterdir() if other.name.startswith(start) and other.suffix == ".tmp"]
    return []


def _is_of(folder: Path, row: Superseded, identity: str) -> bool:
    try:
        return Path(row.path).stem == identity or claims(folder / FOLDER / row.file, identity)
    except FileNotFoundError:
        return False
