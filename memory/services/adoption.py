"""A store that began before its repository had a remote moves to the identity that the remote gives (FR-004a)."""

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.utils import timezone

from coffer import fs, paths
from memory.files import journal, store_file
from memory.services import archive

log = logging.getLogger("memory.adoption")
PATIENCE = 2.0  # seconds; a session that only reads waits no longer to have an older store adopted
_DERIVED = {"store.yaml", "knowledge/INDEX.md"}
_APPENDED = {"consolidation-log.md", "superseded/index.jsonl"}


@dataclass
class Carried:
    """How the files of one store went over into another."""

    added: int = 0
    same: int = 0
    renamed: int = 0
    joined: int = 0


def adopt(older: str, name: str, remote: str) -> None:
    """Make ``older`` (keyed by path) part of ``name`` (keyed by remote): renamed when that has no folder yet, else
    carried over additively and retired. Holds both write locks; does nothing when ``older`` has gone meanwhile."""
    first, second = sorted((older, name))
    with fs.locked(f"{first}.write.lock", seconds=PATIENCE), fs.locked(f"{second}.write.lock", seconds=PATIENCE):
        source, target = paths.store(older), paths.store(name)
        if not source.is_dir():
            return
        archive.recover(source)
        old = _read(source, older)
        if target.is_dir():
            carried = carry_over(source, target)
            _mark(target, name, remote, old)
            retire(source, older)
            log.info("store joined from=%s to=%s files=%d", older, name, carried.added + carried.renamed)
        else:
            # Marked first: killed before the rename, the next one begins again; after it, all is done.
            _mark(source, name, remote, old)
            os.rename(source, target)
            log.info("store adopted from=%s to=%s", older, name)


def carry_over(source: Path, target: Path) -> Carried:
    """Copy every file of one store into another without losing or doubling one; may be repeated after a crash."""
    carried = Carried()
    for relative in _files(source):
        if relative in _DERIVED:
            continue
        data, place = fs.read(source / relative), archive.inside(target, relative)
        fs.ensure_dir(place.parent)
        if not os.path.lexists(place):
            _copy(source / relative, place, data)
            carried.added += 1
        elif (there := fs.read(place)) == data:
            carried.same += 1
        elif relative in _APPENDED or relative.startswith("journal/"):
            joined = journal.join(there, data) if relative.startswith("journal/") else _union(there, data)
            if joined != there:
                fs.write(place, joined)
                carried.joined += 1
        else:
            carried.renamed += _beside(source / relative, place, data)
    return carried


def retire(folder: Path, name: str) -> Path:
    """Move a store's folder to retired/; expects its write lock to be held."""
    stamp = timezone.now().strftime("%Y%m%dT%H%M%S%fZ")
    target = fs.ensure_dir(paths.retired()) / f"{name}-{stamp}"
    with fs.storage_errors(target):
        shutil.move(folder, target)
    return target


def _files(source: Path) -> Iterator[str]:
    """Regular files below a store, relative; links are left where they are."""
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and not name.endswith(".tmp"):
                yield path.relative_to(source).as_posix()


def _copy(source: Path, place: Path, data: bytes) -> None:
    """A new file with the times of the old one: for a file without stamps they are its age."""
    fs.create(place, data)
    found = source.stat()
    os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))


def _beside(source: Path, place: Path, data: bytes) -> int:
    """Keep both: the newcomer gets the first free number, unless the same bytes stand there already."""
    for count in range(2, 10_000):
        other = place.with_name(f"{place.stem}-{count}{place.suffix}")
        if not os.path.lexists(other):
            _copy(source, other, data)
            return 1
        if fs.read(other) == data:
            return 0
    raise FileExistsError(place)


def _union(there: bytes, more: bytes) -> bytes:
    """The lines of both, those that are new at the end."""
    lines = there.splitlines()
    known = set(lines)
    return b"".join(line + b"\n" for line in [*lines, *(line for line in more.splitlines() if line not in known)])


def _read(folder: Path, name: str) -> store_file.StoreFile:
    """``store.yaml``; one that cannot be read is kept in the archive, for it is written anew."""
    project_id = name.removeprefix("project-")
    try:
        return store_file.read(folder, name, project_id)
    except store_file.Unreadable:
        archive.keep_copy(folder, store_file.NAME, fs.read(folder / store_file.NAME), "unreadable")
        return store_file.StoreFile(name=name, project_id=project_id)


def _mark(folder: Path, name: str, remote: str, old: store_file.StoreFile) -> None:
    """Write the survivor's store.yaml: the adopted identity becomes an alias; label and settings if it has none."""
    file = _read(folder, name)
    aliases = dict.fromkeys([*file.merged_identities, *old.merged_identities, old.project_id])
    aliases.pop(file.project_id, None)
    merged = file.with_(
        remote=file.remote or remote,
        former_remotes=tuple(dict.fromkeys([*file.former_remotes, *old.former_remotes])),
        label=file.label or old.label,
        config=file.config or old.config,
        merged_identities=tuple(aliases),
        created_at=min(filter(None, (file.created_at, old.created_at)), default=None),
    )
    fs.write(folder / store_file.NAME, store_file.dump(merged))
