"""A merge taken back: the source stands where it stood, and the target loses only what the merge brought and nobody
has changed since. What was written since stays where it is, and is listed.

The source is put back first, so at no moment a file is in neither store; cut off, the same undo finishes the work.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from coffer import fs, paths
from coffer.errors import Busy, Conflict, NotFound
from memory.files import lanes, markdown, store_file
from memory.files.store_file import StoreFile
from memory.models import Checkout, Store
from memory.services import adoption, archive, carry, merge_record, store_files, store_rows, trail
from memory.services import stores as store_service
from memory.services.merge_record import About, Entry, Record

log = logging.getLogger("memory.merge")
EVENT = "memory_stores_unmerged"


@dataclass(frozen=True)
class Undone:
    """What an undo did, or would do: files taken out of the target, joined files that are as before, what stays there
    with the reason, and what was written there since the merge."""

    source: str
    target: str
    removed: list[str] = field(default_factory=list)
    parted: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    since: list[str] = field(default_factory=list)


def preview(source: str) -> Undone:
    """What ``undo`` would do; nothing is written. Raises as it does."""
    record = _record(source)
    return _look(record, paths.store(record.about.target))


def undo(source: str, *, actor: str = "user") -> Undone:
    """Take back the last merge of a store into another, done or cut off.

    Raises NotFound when there is none, and Conflict when either store is not what the merge left: the source
    began anew, the target was merged away or is being worked on.
    """
    about = _record(source).about
    try:
        with adoption.alone(source, about.target):
            undone = _undone(_record(source))
    except Busy as error:
        raise Conflict(
            f"{source} or {about.target} is being worked on ({error}); try again when that is done."
        ) from None
    trail.record(EVENT, store=about.target, ref=source, actor=actor, removed=len(undone.removed), kept=len(undone.kept))
    log.info("merge undone from=%s to=%s kept=%d", source, about.target, len(undone.kept))
    return undone


def _record(source: str) -> Record:
    """The merge to take back: one that was cut off before the source went, else the last that is done."""
    store_service.check_name(source)
    here = paths.store(source)
    record = merge_record.open_in(here) if here.is_dir() else None
    if record is None:
        found = merge_record.retired(lambda about: about.source == source)
        if not found:
            raise NotFound(f"No merge of {source} is on record; `coffer memory list` shows what there is.")
        if here.is_dir():
            raise Conflict(f"{source} began anew since it was merged; merge or archive it first.")
        record = found[0]
    target = record.about.target
    if not paths.store(target).is_dir():
        survivor = store_rows.holder(store_rows.project_id(target))
        where = f"was merged into {survivor.name} since; undo that first" if survivor else "is not there any more"
        raise Conflict(f"{source} cannot be taken out of {target}: it {where}.")
    return record


def _undone(record: Record) -> Undone:
    about = record.change(state="undoing")
    with adoption.both(about.source, about.target) as (here, there):
        if record.store != here:
            with fs.storage_errors(here):
                os.rename(record.store, here)
            record = Record(here)
        undone = _look(record, there)
        for entry in record.entries.values():
            _take_out(record, entry, there, undone)
        _unmark(about, there)
        record.remove()
    _rows(about)
    return undone


def _look(record: Record, there: Path) -> Undone:
    """What becomes of every file that the merge wrote."""
    undone = Undone(record.about.source, record.about.target)
    for entry in record.entries.values():
        reason = _reason_to_stay(record, entry, there) if entry.is_ours else ""
        if entry.did == "joined" or (reason and carry.is_joined(entry.path)):
            undone.parted.append(entry.to)
        elif reason:
            undone.kept.append((entry.to, reason))
        elif entry.is_ours:
            undone.removed.append(entry.to)
    ours = {entry.to for entry in record.entries.values()}
    undone.since.extend(sorted(_written_since(record.about, there) - ours))
    return undone


def _reason_to_stay(record: Record, entry: Entry, there: Path) -> str:
    """Why a file that the merge made stays in the target; blank when it goes, or has gone already."""
    place, mine = there / entry.to, record.store / entry.path
    if not place.is_file():
        return "" if not os.path.lexists(place) else "it is no file any more"
    if archive.sha256(fs.read(place)) != entry.sha256:
        return "it was changed since the merge"
    if not carry.is_joined(entry.path) and (not mine.is_file() or archive.sha256(fs.read(mine)) != entry.sha256):
        return "the archived store lacks it"
    return ""


def _take_out(record: Record, entry: Entry, there: Path, undone: Undone) -> None:
    place, mine = there / entry.to, record.store / entry.path
    if entry.to in undone.removed:
        place.unlink(missing_ok=True)
    elif entry.to in undone.parted and place.is_file():
        now, before = fs.read(place), record.kept(entry) if entry.before else b""
        more = fs.read(mine) if mine.is_file() else b""
        if entry.path == carry.ARCHIVE_INDEX:
            more = carry.renamed_lines(more, _new_names(record))
        left = carry.taken_out(entry.path, now, more, before)
        if not left and not entry.before:
            place.unlink()
        elif left != now:
            fs.write(place, left)


def _new_names(record: Record) -> dict[str, str]:
    """How archived files of the source were called in the target."""
    folder = f"{archive.FOLDER}/"
    moved = (entry for entry in record.entries.values() if entry.path.startswith(folder) and entry.to != entry.path)
    return {entry.path.removeprefix(folder): entry.to.removeprefix(folder) for entry in moved if entry.to}


def _written_since(about: About, there: Path) -> set[str]:
    """What was written into the target's lanes after the merge began, by the files' own times."""
    began = markdown.timestamp(about.started_at)
    if began is None:
        return set()
    listing = lanes.walk(there)
    return {path for path, stat in listing.files.items() if stat.mtime_ns > began.timestamp() * 1_000_000_000}


def _unmark(about: About, there: Path) -> None:
    """Take the merge's part out of the target's store.yaml: all of it when nobody changed the file since."""
    place = there / store_file.NAME
    if not about.merged_file or not place.is_file():
        return
    before = about.target_file.encode("utf-8", "surrogateescape")
    if fs.read(place) == about.merged_file.encode():
        fs.write(place, before) if before else place.unlink()
        return
    with suppress(store_file.Unreadable):
        merged, was = _loaded(about.merged_file, about.target), _loaded(about.target_file, about.target)
        left = _without_merge(store_files.read_or_keep(there, about.target), merged, was)
        fs.write(place, store_file.dump(left))


def _loaded(text: str, name: str) -> StoreFile:
    return store_file.load(text.encode("utf-8", "surrogateescape"), name, store_rows.project_id(name))


def _without_merge(now: StoreFile, merged: StoreFile, before: StoreFile) -> StoreFile:
    """The file as it is, less what the merge put in: aliases, origins, and what nobody has changed since."""
    brought = set(merged.merged_identities) - set(before.merged_identities)
    origins = {merged.remote, *merged.former_remotes} - {before.remote, *before.former_remotes}
    return now.with_(
        merged_identities=tuple(one for one in now.merged_identities if one not in brought),
        former_remotes=tuple(one for one in now.former_remotes if one not in origins),
        not_same_as=before.not_same_as if now.not_same_as == merged.not_same_as else now.not_same_as,
        remote=before.remote if now.remote == merged.remote else now.remote,
        label=before.label if now.label == merged.label else now.label,
        config=before.config if now.config == merged.config else now.config,
        created_at=before.created_at if now.created_at == merged.created_at else now.created_at,
    )


def _rows(about: About) -> None:
    """Both rows, roots and indexes as they were."""
    source, target = store_rows.sync(about.source), store_rows.sync(about.target)

    def write() -> None:
        Store.objects.filter(name=about.source).update(project_root=about.source_root)
        if target.project_root in (about.source_root, *(root for root, _ in about.checkouts)):
            Store.objects.filter(name=about.target).update(project_root=about.target_root)
        for root, remote in about.checkouts:
            Checkout.objects.filter(root=root, remote=remote, store=about.target).update(store=about.source)

    store_rows.now_or_later(write)
    for store in (source, target):
        store_service.refresh(store)


def merges(target: str) -> Iterator[About]:
    """The merges into a store that can be taken back, the latest first."""
    for record in merge_record.retired(lambda about: about.target == target):
        yield record.about
