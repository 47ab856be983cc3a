"""Chosen facts, days and scenes of a store moved into a store of their own, and back again.

Each item is durable there before it is archived here, so cut off in between nothing is lost; a split of what is left
finishes it. What went where stands in the archive of the store it came from; that is what taking it back goes by.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coffer import fs, paths
from coffer.errors import CofferError, Invalid, MemoryNotFound
from memory.files import lanes, markdown, ulid
from memory.models import Store
from memory.services import adoption, archive, carry, facts, handoff, moves, store_files, store_rows, trail, writes
from memory.services import stores as store_service
from memory.services.facts import Actor


@dataclass(frozen=True)
class Chosen:
    """What is to be moved: facts and topics by id, days by date, scenes by branch or slug."""

    facts: Sequence[str] = ()
    days: Sequence[str] = ()
    scenes: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.facts or self.days or self.scenes)


@dataclass(frozen=True)
class Split:
    """What moved from a store into another, blank for one that would be made; ``gone`` is what an undo did not find any
    more, ``retired`` whether the emptied store was archived."""

    source: str
    target: str
    facts: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    retired: bool = False


def split(
    store: Store, chosen: Chosen, *, target: str = "", label: str = "", actor: Actor = "user", dry_run: bool = False
) -> Split:
    """Move what was chosen into ``target``, by default a new store. Raises Invalid, MemoryNotFound before any move."""
    if not chosen:
        raise Invalid("Say what to split off: facts, days or scenes.")
    if not target and not label.strip():
        raise Invalid("A store of no folder needs a label, or nobody finds it again.")
    label = store_service.check_label(label)
    files = _files(store, chosen)
    identities = list(dict.fromkeys(chosen.facts))
    for one in identities:
        facts.get(store, one)
    name = store_service.check_name(target or f"project-{ulid.new()}")
    if name == store.name:
        raise Invalid("What is split off needs another store.")
    if name == store_rows.GLOBAL and files:
        raise Invalid("The global store has neither days nor scenes; split them off into a project.")
    new = not paths.store(name).is_dir()
    if label and not new:
        raise Invalid("The store is there already and keeps its label; leave the new one out.")
    if dry_run:
        return Split(store.name, target, identities, files)
    done = Split(store.name, name, identities, files)
    if new:
        store_files.claim(name, {store_rows.project_id(name)})  # else it would be the store that answers to it
    there = store_service.provision(name)
    if label:
        there = store_service.set_label(there, label)
    _move(store, there, done.facts, files, actor)
    trail.record("store_split", store=store.name, ref=name, actor=actor, facts=len(done.facts), files=len(files))
    return done


def undo(store: Store, target: Store, *, actor: Actor = "user", dry_run: bool = False) -> Split:
    """Move back what was split off from ``store`` into ``target`` and is still there, as it is now; a store that is
    empty afterwards goes to retired/."""
    came = [
        line for line in archive.listing(store_service.folder(store)) if line.why == f"{archive.MOVED}{target.name}"
    ]
    if not came:
        raise MemoryNotFound(f"Nothing of {store.name} was moved to {target.name}.", store=store.name)
    back = Split(target.name, store.name)
    for line in came:
        if line.lane == lanes.KNOWLEDGE:
            one = _identity(store_service.folder(store) / archive.FOLDER / line.file, line.path)
            _sort(back.facts, back.gone, one, _has_fact(target, one))
        else:
            _sort(back.files, back.gone, line.path, (store_service.folder(target) / line.path).is_file())
    if dry_run:
        return back
    _move(target, store, back.facts, back.files, actor)
    trail.record("store_split_undone", store=store.name, ref=target.name, actor=actor, facts=len(back.facts))
    if any(carry.walk_lanes(store_service.folder(target))):
        return back
    store_service.retire(target)
    return Split(back.source, back.target, back.facts, back.files, back.gone, retired=True)


def _move(store: Store, target: Store, identities: Iterable[str], files: Sequence[str], actor: Actor) -> None:
    for one in identities:
        moves.move(store, one, target, actor=actor)
    with adoption.both(store.name, target.name) as (here, there):
        for relative in files:
            carry.do(here, there, carry.decide(here, there, relative))
            archive.remove(here, relative, f"{archive.MOVED}{target.name}")
    days = [relative for relative in files if lanes.recallable(relative)]
    for side in (target, store) if days else ():
        writes.index(side, days)


def _files(store: Store, chosen: Chosen) -> list[str]:
    """The files of the chosen days and scenes. Raises MemoryNotFound."""
    folder = store_service.folder(store)
    found = []
    for day in chosen.days:
        relative = f"{lanes.JOURNAL}/{day}.md"
        if lanes.stat(folder, relative) is None:
            raise MemoryNotFound(f"{store.name} holds no journal day {day[:40]!r}.", store=store.name)
        found.append(relative)
    scenes = handoff.scenes(store)
    for branch in chosen.scenes:
        scene = next((one for one in scenes if branch in (one.branch, one.slug)), None)
        if scene is None:
            raise MemoryNotFound(f"{store.name} holds no handoff {branch[:80]!r}.", store=store.name)
        found.append(f"{lanes.HANDOFF}/{scene.path.name}")
    return list(dict.fromkeys(found))


def _identity(archived: Path, path: str) -> str:
    try:
        return markdown.text_of(markdown.parse(fs.read(archived)), "id") or Path(path).stem
    except OSError:
        return Path(path).stem


def _has_fact(store: Store, identity: str) -> bool:
    try:
        facts.get(store, identity)
    except CofferError:
        return False
    return True


def _sort(there: list[str], gone: list[str], one: str, found: bool) -> None:
    if one not in (*there, *gone):
        (there if found else gone).append(one)
