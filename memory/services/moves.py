"""Moving a fact or topic into another store: durable there before it is archived here, its id kept."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coffer import fs
from coffer.errors import Conflict, Invalid, MemoryNotFound, StorageFailed
from memory.files import lanes
from memory.models import Document, Store
from memory.services import archive, facts, writes
from memory.services import stores as store_service
from memory.services.facts import Actor, Fact


def move(store: Store, identity: str, target: Store, *, actor: Actor = "user") -> Fact:
    """Take a fact or topic over into another store, byte for byte; gives it back as it stands there.

    Cut off in between, both stores hold it, and the same move again finishes the work. Raises MemoryNotFound, Invalid
    for the store it is in already, Conflict when the target has another one of that id or name.
    """
    if target.name == store.name:
        raise Invalid(f"{identity} is in {store_service.display_name(store)} already; choose another store.")
    fact = facts.get(store, identity)
    relative = fact.path.relative_to(store_service.folder(store)).as_posix()
    claimed = _claimed(store, relative, identity)
    names = _arrived(target, claimed, fact) or _free_names(fact, relative, claimed)
    target = store_service.provision(target.name)
    try:
        with _both_locks(store, target) as (source, destination):
            arrived = _carry(source, destination, relative, names, target.name)
    except FileNotFoundError:
        raise MemoryNotFound(f"{store.name} holds no fact or topic {identity[:80]!r} any more.") from None
    except PermissionError as error:
        raise StorageFailed(f"{fact.path} cannot be read ({error.strerror}); check its permissions.") from error
    writes.settle(target, [arrived], "fact_moved_in", claimed, actor)
    writes.settle(store, [relative], "fact_moved_out", identity, actor)
    return facts.get(target, claimed)


def _claimed(store: Store, relative: str, identity: str) -> str:
    """The id that the file itself claims: what it will be known by where no other file claims it."""
    known = Document.objects.filter(store__name=store.name, path=relative).values_list("claimed", flat=True).first()
    return known or identity


def _arrived(target: Store, claimed: str, fact: Fact) -> list[str]:
    """Where the target has the same bytes under this id already, from a move that was cut off."""
    try:
        there = facts.get(target, claimed)
    except MemoryNotFound:
        return []
    if there.sha256 != fact.sha256:
        name = store_service.display_name(target)
        raise Conflict(f"{name} has another {there.kind} {claimed[:80]!r}; delete or rename one of them first.")
    return [there.path.relative_to(store_service.folder(target)).as_posix()]


def _free_names(fact: Fact, relative: str, claimed: str) -> list[str]:
    """Names for the new file, best first; only a fact whose id is written in it may get another one."""
    if fact.kind == "topic" or claimed == Path(relative).stem:
        return [relative]
    return [relative, *(f"{lanes.INBOX}/{name}" for name in lanes.fact_names(fact.title, claimed))]


@contextmanager
def _both_locks(store: Store, target: Store) -> Iterator[tuple[Path, Path]]:
    """Hold both write locks, always in the order of the names, so that two moves never wait for each other."""
    first, second = sorted((store, target), key=lambda one: one.name)
    with store_service.write_lock(first), store_service.write_lock(second):
        yield store_service.folder(store), store_service.folder(target)


def _carry(source: Path, destination: Path, relative: str, names: list[str], target: str) -> str:
    """Write the file there, archive it here; what an editor saved here in between goes over too."""
    place = archive.inside(source, relative)
    data, times = fs.read(place), place.stat()
    arrived = _written(destination, names, data, (times.st_atime_ns, times.st_mtime_ns))
    aside = archive.remove(source, relative, f"{archive.MOVED}{target}")
    last = aside.read_bytes()
    if last != data:
        archive.replace(destination, arrived, expected_sha256=archive.sha256(data), data=last, why="moved")
    return arrived


def _written(destination: Path, names: list[str], data: bytes, times: tuple[int, int]) -> str:
    for name in names:
        place = archive.inside(destination, name)
        fs.ensure_dir(place.parent)
        if os.path.lexists(place) and fs.read(place) == data:
            return name
        with suppress(FileExistsError):
            fs.create(place, data)
            os.utime(place, ns=times)  # for a file without stamps they are its age
            return name
    raise Conflict(f"The other store has a file {names[0]} of its own; rename or delete one of them first.")
