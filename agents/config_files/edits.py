"""One edit of one file: planned without touching anything, then made under a lock, journal first; and undone again."""

import difflib
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agents.config_files import entries, journal, targets, texts
from agents.config_files.documents import Document
from agents.config_files.entries import Records
from agents.config_files.journal import History, Line, Owner
from agents.config_files.targets import Target
from agents.kinds.base import ConfigFile
from coffer import fs
from coffer.errors import Conflict, Invalid

_LOCK, _PATIENCE, _TRIES = "agents.lock", 30.0, 3

Pending = dict[Path, bytes | None]  # what files will hold once the edits planned so far are made


@dataclass(frozen=True)
class Edit:
    """What one file will be; ``before`` and ``after`` are its bytes, None for no file.

    ``files`` says what of ours should stand in it, or with ``undo`` what should not.
    """

    owner: Owner
    files: tuple[ConfigFile, ...]
    path: Path
    before: bytes | None
    after: bytes | None
    undo: bool = False
    purposes: frozenset[str] = frozenset()  # that begin with it, or with ``undo`` end
    records: Records = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = (_lines(data) for data in (self.before, self.after))
        names = ["/dev/null" if data is None else str(self.path) for data in (self.before, self.after)]
        return "".join(difflib.unified_diff(old, new, names[0], names[1]))


def plan(owner: Owner, file: ConfigFile, pending: Pending | None = None) -> Edit:
    """The edit that makes our entries stand in a file. Raises Invalid when that cannot be."""
    return _plan(owner, file, _looked(_chosen(file)), {} if pending is None else pending)


def plan_undo(owner: Owner, files: Sequence[ConfigFile], pending: Pending | None = None) -> list[Edit]:
    """The edits that take all our entries out of some files, one for each path. Raises Invalid when that cannot be."""
    pending = {} if pending is None else pending
    found: dict[Path, list[ConfigFile]] = {}
    for file in files:
        for path in (file.path, *file.elsewhere):
            if os.path.lexists(path) or journal.history(path).edits:
                found.setdefault(path, []).append(file)
    return [_plan_undo(owner, tuple(those), _looked(path), pending) for path, those in found.items()]


def apply(edit: Edit) -> Edit:
    """Make an edit, planned anew from what the file says now; the edit that was made.

    Raises Invalid as its plan does, Conflict when the file changes all the time, StorageFailed, Busy.
    """
    with fs.locked(_LOCK, seconds=_PATIENCE):
        for _ in range(_TRIES):
            target = targets.look(edit.path)
            targets.sweep(target)
            whole = _looked(edit.path)
            if whole.data != target.data:
                _put_right(target, whole)
                continue
            if edit.undo:
                fresh = _plan_undo(edit.owner, edit.files, target, {})
            else:
                fresh = _plan(edit.owner, edit.files[0], target, {})
            with suppress(targets.Changed):
                return _made(fresh, target)
    raise Conflict(f"{edit.path} changes all the time; end the program that writes it and try again.")


def tidy(agent: str) -> None:
    """Remove the folders that were made for an agent's files and are empty."""
    for folder in journal.folders_of(agent):
        with suppress(OSError):
            folder.rmdir()


def _plan(owner: Owner, file: ConfigFile, target: Target, pending: Pending) -> Edit:
    before = pending.get(target.path, target.data)
    if file.format == "text":
        after, records = _with_text(file, target.path, before), Records()
    else:
        after, records = _with_entries(file, target.path, before)
    pending[target.path] = after
    return Edit(owner, (file,), target.path, before, after, purposes=frozenset([file.purpose]), records=records)


def _with_text(file: ConfigFile, path: Path, before: bytes | None) -> bytes:
    if before is not None and file.optional:
        return before
    if before is not None and not _is_own_text(file, before):
        raise Invalid(f"{path} is another program's; rename or remove it first.")
    return file.text.encode()


def _with_entries(file: ConfigFile, path: Path, before: bytes | None) -> tuple[bytes, Records]:
    earlier = journal.history(path).containers
    records: Records = {}

    def change(document: Document) -> None:
        made = entries.make(document, file, earlier)
        records.update(made | records)  # the first time it is the file itself, then only a check of it

    after = texts.changed(file, path, before, change, strict=True)
    if after == (before or b""):
        return after, {}
    if before is None:
        records[()] = None
    elif records.get((), "") is None:
        records[()] = before.removeprefix(texts.BOM).decode()
    return after, records


def _plan_undo(owner: Owner, files: tuple[ConfigFile, ...], target: Target, pending: Pending) -> Edit:
    before = pending.get(target.path, target.data)
    past = journal.history(target.path)
    purposes = frozenset(file.purpose for file in files)
    after = _unwound(before, past, purposes)
    for file in files:
        if after is not None:
            after = _without(file, target.path, after, past)
    pending[target.path] = after
    known = frozenset(purpose for line in past.edits for purpose in line.purposes) & purposes
    ended = known or purposes - {"native memory"}  # without a line about it we have not switched it off
    return Edit(owner, files, target.path, before, after, undo=True, purposes=ended)


def _unwound(data: bytes | None, past: History, purposes: Collection[str]) -> bytes | None:
    """The bytes of before our last edits, as far back as nobody else has changed the file in between."""
    for line in reversed(past.edits):
        if line.after != journal.digest(data) or not set(purposes).issuperset(line.purposes):
            break
        earlier = journal.kept(line.backup, line.before) if line.before is not None else None
        if earlier is None and line.before is not None:
            break  # its backup is gone
        data = earlier
    return data


def _without(file: ConfigFile, path: Path, before: bytes, past: History) -> bytes | None:
    """The bytes without our entries, everything that anybody else wrote kept; None: nothing is left of our file."""
    if file.format == "text":
        return _without_text(file, before)
    members = past.members([file.purpose])

    def change(document: Document) -> None:
        entries.unmake(document, file, members, past.containers)

    after = texts.changed(file, path, before, change, strict=False)
    return None if before and not after and past.containers.get((), "") is None else after


def _without_text(file: ConfigFile, before: bytes) -> bytes | None:
    if not _is_own_text(file, before):
        return before
    ours = file.text.encode().splitlines()
    left = [line for line in before.splitlines(keepends=True) if file.optional and line.rstrip() not in ours]
    return b"".join(left) or None


def _made(edit: Edit, target: Target) -> Edit:
    if not edit.changes and not (edit.undo and journal.history(edit.path).edits):
        return edit
    line = Line(
        owner=edit.owner,
        path=str(edit.path),
        purposes=sorted({file.purpose for file in edit.files}),
        before=journal.digest(edit.before),
        after=journal.digest(edit.after),
        folders=[str(folder) for folder in targets.missing_folders(target)],
        records=[(list(keys), raw) for keys, raw in edit.records.items()],
    )
    in_place = edit.after if target.names > 1 else None
    if not edit.undo:
        journal.note(line, before=edit.before, wanted=in_place)
        targets.replace(target, edit.after)
        return edit
    if edit.changes:  # else another hand took our entries out, and what was begun still has to end
        journal.note(replace(line, purposes=[]), before=edit.before, wanted=in_place)
        targets.replace(target, edit.after)
    journal.note(replace(line, undone=True), before=None)
    return edit


def _looked(path: Path) -> Target:
    """A file as it is; one whose last edit in place was cut off in the middle as it was before that."""
    target = targets.look(path)
    line = journal.history(path).in_place if target.names > 1 else None
    if target.data is None or line is None:
        return target
    before, after = journal.kept(line.backup, line.before), journal.kept(line.wanted, line.after)
    if before is None or after is None or target.data in (before, after):
        return target
    pairs = zip(target.data, after, strict=False)
    same = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(target.data), len(after)))
    return replace(target, data=before) if target.data[same:] == before[same:] else target


def _put_right(target: Target, whole: Target) -> None:
    with suppress(targets.Changed):
        targets.replace(target, whole.data)


def _chosen(file: ConfigFile) -> Path:
    """The name under which a file is edited: the one that exists, else the usual one."""
    return next((path for path in (file.path, *file.elsewhere) if os.path.lexists(path)), file.path)


def _is_own_text(file: ConfigFile, data: bytes) -> bool:
    """Whether a file that is ours alone is ours: its first line says so."""
    return data.split(b"\n", 1)[0] == file.text.encode().split(b"\n", 1)[0]


def _lines(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
