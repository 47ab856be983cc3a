"""Two stores of one project become one: additive, recorded, reversible, and the same when it was killed (FR-057..059).

The source stays whole until everything of it is in the target; writers wait only for a handful of files at a time, and
what they write meanwhile is carried over in the last moment, under both locks, before the source is retired.
"""

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from coffer import audit, fs, paths
from coffer.errors import Busy, CofferError, Conflict, Invalid
from memory import schedule
from memory.files import markdown, store_file
from memory.models import Checkout, Store
from memory.services import adoption, archive, carry, merge_record, reorg, store_files, store_rows, trail
from memory.services import stores as store_service
from memory.services.carry import Did, Step
from memory.services.merge_record import About, Entry, Record

log = logging.getLogger("memory.merge")
EVENT = "memory_stores_merged"
_BATCH = 32  # files carried while writers of the target wait


@dataclass(frozen=True)
class Merged:
    """What a merge did: how many files were added, already the same, kept under another name, joined; what stayed."""

    source: str
    target: str
    counts: dict[Did, int]
    reorg_status: str
    retired: Path


@dataclass(frozen=True)
class Plan:
    """What a merge would do with each file."""

    steps: list[Step]

    @property
    def counts(self) -> dict[Did, int]:
        return _by_kind(Counter(step.did for step in self.steps))


def preview(source: str, target: str) -> Plan:
    """What a merge would do; nothing is written. Raises as ``merge`` does."""
    _check(source, target)
    if not paths.store(source).is_dir():
        raise store_service.missing(source)
    steps = carry.plan(paths.store(source), paths.store(target))
    return Plan([replace(step, data=None) for step in steps])


def merge(source: str, target: str, *, organize: bool = True, actor: str = "user") -> Merged:
    """Make ``source`` part of ``target``, whose name, label and origin stay; ``organize`` reorganizes it afterwards.

    Raises Invalid (MERGE_INVALID) for a store with itself or with global, StoreNotFound for one that is not there, and
    Conflict while a pass or another merge is at work on one of them; then nothing was changed. Cut off by anything
    else, the same merge again finishes it.
    """
    _check(source, target)
    with _alone(source, target):
        record = _cut_off_after_retiring(source, target) or _carried(source, target)
        _finish(record, actor)
    status = _reorganized(store_service.get(target)) if organize else "skipped"
    log.info("stores merged from=%s to=%s files=%d", source, target, len(record.entries))
    return Merged(source, target, counted(record), status, record.store)


def reorganize(store: Store) -> str:
    """The pass that a merge ends with: its status, or what kept it from doing anything."""
    done = reorg.reorganize(store)
    idle = done.status == "reorganized" and not (done.written or done.superseded or done.promoted or done.rules_moved)
    return f"error: {done.stopped}" if done.stopped and idle else done.status


def counted(record: Record) -> dict[Did, int]:
    """What became of how many files."""
    did = Counter(entry.did for entry in record.entries.values())
    did["left"] += sum(1 for _ in carry.passed_over(record.store))
    return _by_kind(did)


def cut_off() -> list[About]:
    """Merges, and undone ones, that did not come to their end."""
    here = [merge_record.open_in(paths.store(name)) for name in store_service.names_on_disk()]
    gone = merge_record.retired(lambda about: about.state != "done")
    return [record.about for record in [*here, *gone] if record is not None]


def _by_kind(did: Counter[Did]) -> dict[Did, int]:
    kinds: tuple[Did, ...] = ("added", "same", "renamed", "joined", "left")
    return {kind: did[kind] for kind in kinds}


def _check(source: str, target: str) -> None:
    for name in (source, target):
        store_service.check_name(name)
        if name == store_rows.GLOBAL:
            raise _invalid("The global store is never merged; move single facts with `coffer memory move` instead.")
    if source == target:
        raise _invalid(f"{source} cannot be merged with itself.")
    if not paths.store(target).is_dir():
        raise store_service.missing(target)


@contextmanager
def _alone(source: str, target: str) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(adoption.alone(source, target))
        except Busy:
            raise Conflict(
                f"{source} or {target} is being organized or merged right now; try again when that is done."
            ) from None
        yield


def _cut_off_after_retiring(source: str, target: str) -> Record | None:
    """The record of a merge whose source is retired and whose end is missing."""
    if paths.store(source).is_dir():
        return None
    found = merge_record.retired(lambda about: (about.source, about.target) == (source, target))
    if not found or found[0].about.state == "done":
        raise store_service.missing(source)
    return found[0]


def _carried(source: str, target: str) -> Record:
    """Everything of the source in the target, and the source in retired/."""
    here, there = paths.store(source), paths.store(target)
    record = _begun(source, target)
    with fs.locked(f"{source}.write.lock"):
        archive.recover(here)
    seen = {}
    batch: list[str] = []
    for relative in carry.walk(here):
        seen[relative] = _signature(here / relative)
        batch.append(relative)
        if len(batch) == _BATCH:
            _carry_batch(record, there, target, batch)
            batch = []
    _carry_batch(record, there, target, batch)
    with adoption.both(source, target) as (here, there):
        if not here.is_dir() or not there.is_dir():
            raise store_service.missing(target if here.is_dir() else source)
        late = [relative for relative in carry.walk(here) if seen.get(relative) != _signature(here / relative)]
        _Carrier(record, there).carry(late)
        _follow_deletions(record, there)
        _mark(record, there, target)
        retired = adoption.retire(here, source)
    return Record(retired)


def _begun(source: str, target: str) -> Record:
    """The record of this merge, made now or going on."""
    record = merge_record.open_in(paths.store(source))
    if record is None:
        record = Record(paths.store(source))
        record.begin(About(source, target, timezone.now().isoformat()))
    about = record.about
    if about.target != target or about.state == "undoing":
        undone = "undone" if about.state == "undoing" else "merged"
        raise Conflict(
            f"{source} was being {undone} ({about.target}) when that was cut off; `coffer merge {source} "
            f"{about.target}` finishes the merge, with --undo it is taken back."
        )
    return record


def _carry_batch(record: Record, there: Path, target: str, batch: list[str]) -> None:
    with fs.locked(f"{target}.write.lock"):
        if not there.is_dir():
            raise store_service.missing(target)
        _Carrier(record, there).carry(batch)


class _Carrier:
    """Carries files under the target's lock: what is announced together is durable with one write."""

    def __init__(self, record: Record, target: Path) -> None:
        self._record, self._source, self._target = record, record.store, target
        self._waiting: list[tuple[Step, Entry]] = []

    def carry(self, relatives: list[str]) -> None:
        for relative in relatives:
            try:
                found = self._next(relative)
            except FileNotFoundError:
                continue  # gone since the walk
            if found is not None:
                self._waiting.append(found)
            if found is not None and found[0].data is not None:
                self._flush()
        self._flush()

    def _next(self, relative: str) -> tuple[Step, Entry] | None:
        found = self._decided(relative)
        if found is not None and any(found[0].to == step.to for step, _ in self._waiting):
            self._flush()
            found = self._decided(relative)
        return found

    def _decided(self, relative: str) -> tuple[Step, Entry] | None:
        """What is to be done with a file now, in the light of what an earlier attempt did with it; None for nothing."""
        known = self._record.entries.get(relative)
        if known is not None and known.is_ours and not carry.is_joined(relative):
            place = self._target / known.to
            mine = fs.read(self._source / relative)
            sha = archive.sha256(mine)
            if not os.path.lexists(place):
                return Step(relative, known.to, known.did), Entry(relative, known.to, known.did, sha)
            if archive.sha256(fs.read(place)) == known.sha256:
                changed = Step(relative, known.to, "joined", data=mine), Entry(relative, known.to, known.did, sha)
                return changed if sha != known.sha256 else None
        step = carry.decide(self._source, self._target, relative)
        if step.did == "same" and known is not None:
            return None
        did = known.did if known is not None and known.is_ours and step.did == "joined" else step.did
        return step, self._entry(step, did)

    def _entry(self, step: Step, did: Did) -> Entry:
        data = step.data if step.data is not None else fs.read(self._source / step.path)
        before = ""
        if did == "joined":
            before = self._record.keep(step.path, fs.read(self._target / step.to))
        return Entry(step.path, step.to, did, archive.sha256(data), before)

    def _flush(self) -> None:
        self._record.add([entry for _, entry in self._waiting])
        for step, _ in self._waiting:
            carry.do(self._source, self._target, step)
        self._waiting = []


def _follow_deletions(record: Record, target: Path) -> None:
    """Take out of the target what was deleted in the source since it was carried over, unless somebody changed it."""
    for entry in [one for one in record.entries.values() if one.is_ours]:
        place = target / entry.to
        if os.path.lexists(record.store / entry.path):
            continue
        if place.is_file() and archive.sha256(fs.read(place)) == entry.sha256:
            place.unlink()
        record.add([Entry(entry.path, "", "left")])


def _mark(record: Record, there: Path, target: str) -> None:
    """Let the target answer to the source's identities; what it was before is noted first, and once."""
    about = record.about
    old = store_files.read_or_keep(record.store, about.source)
    data = store_file.dump(adoption.marked(store_files.read_or_keep(there, target), old))
    if about.state == "begun":
        rows = {row.name: row.project_root for row in Store.objects.filter(name__in=(about.source, target))}
        places = Checkout.objects.filter(store=about.source).values_list("root", "remote")
        record.change(
            state="retiring",
            target_file=_text(there / store_file.NAME),
            source_root=rows.get(about.source, ""),
            target_root=rows.get(target, ""),
            checkouts=list(places),
        )
    record.change(merged_file=data.decode())
    fs.write(there / store_file.NAME, data)


def _finish(record: Record, actor: str) -> None:
    """Rows, index, aliases of others and the audit row; each may be done again."""
    about = record.about
    target = store_rows.sync(about.target)
    store_files.claim(about.target, {store_rows.project_id(about.source), *target.merged_identities})
    store_rows.carry(about.source, about.target)
    rootless = Store.objects.filter(name=about.target, project_root="")
    store_rows.now_or_later(lambda: rootless.update(project_root=about.source_root))
    store_service.refresh(store_service.get(about.target))
    since = markdown.timestamp(about.started_at)
    told, _ = audit.page(since=since, limit=100, offset=0, event=EVENT, store=about.target)
    if not any(row.ref == about.source for row in told):
        trail.record(EVENT, store=about.target, ref=about.source, actor=actor, **counted(record))
    record.change(state="done")
    schedule.touch(about.target)


def _reorganized(store: Store) -> str:
    """What became of the reorganization after a merge; it never fails the merge itself (FR-059)."""
    try:
        return reorganize(store)
    except (CofferError, OSError, DatabaseError) as error:
        log.warning("not reorganized after a merge store=%s error=%s", store.name, type(error).__name__)
        return f"error: {error}"


def _signature(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _text(path: Path) -> str:
    try:
        return fs.read(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""


def _invalid(message: str) -> Invalid:
    return Invalid(message, code="MERGE_INVALID")
