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
    with fs.locked(f"{first}.write.lock"), fs.locked(f"{second}.write.lock"):
        source, target = paths.store(older), paths.store(name)
        if not source.is_dir():
            return
        old = store_file.read(source, older, older.removeprefix("project-"))
        if target.is_dir():
            carried = carry_over(source, target)
            _mark(target, name, remote, old)
            fs.ensure_dir(paths.retired())
            stamp = timezone.now().strftime("%Y%m%dT%H%M%S%fZ")
            shutil.move(source, paths.retired() / f"{older}-{stamp}")
            log.info("store joined from=%s to=%s files=%d", older, name, carried.added + carried.renamed)
        else:
            os.rename(source, target)
            _mark(target, name, remote, old)
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
            fs.create(place, data)
            carried.added += 1
        elif (there := fs.read(place)) == data:
            carried.same += 1
        elif relative in _APPENDED or relative.startswith("journal/"):
            joined = journal.join(there, data) if relative.startswith("journal/") else _union(there, data)
            if joined != there:
                fs.write(place, joined)
                carried.joined += 1
        else:
            carried.renamed += _beside(place, data)
    return carried


def _files(source: Path) -> Iterator[str]:
    """Regular files below a store, relative; links are left where they are."""
    for folder, _, names in os.walk(source):
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink() and not name.endswith(".tmp"):
                yield path.relative_to(source).as_posix()


def _beside(place: Path, data: bytes) -> int:
    """Keep both: the newcomer gets the first free number, unless the same bytes stand there already."""
    for count in range(2, 10_000):
        other = place.with_name(f"{place.stem}-{count}{place.suffix}")
        if not os.path.lexists(other):
            fs.create(other, data)
            return 1
        if fs.read(other) == data:
            return 0
    raise FileExistsError(place)


def _union(there: bytes, more: bytes) -> bytes:
    """The lines of both, those that are new at the end."""
    lines = there.splitlines()
    known = set(lines)
    return b"".join(line + b"\n" for line in [*lines, *(line for line in more.splitlines() if line not in known)])


def _mark(target: Path, name: str, remote: str, old: store_file.StoreFile) -> None:
    """Write the survivor's store.yaml: the adopted identity becomes an alias; label and settings if it has none."""
    file = store_file.read(target, name, name.removeprefix("project-"))
    aliases = dict.fromkeys([*file.merged_identities, *old.merged_identities, old.project_id])
    aliases.pop(file.project_id, None)
    merged = file.with_(
        remote=file.remote or remote,
        label=file.label or old.label,
        config=file.config or old.config,
        merged_identities=tuple(aliases),
        created_at=min(filter(None, (file.created_at, old.created_at)), default=None),
    )
    fs.write(target / store_file.NAME, store_file.dump(merged))
