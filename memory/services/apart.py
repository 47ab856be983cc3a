"""Stores that a person told apart: neither proposed nor adopted as one project any more, until that is taken back.

The file of each names the other's id. One of the two is enough, so what was cut off in between holds as well.
"""

from collections.abc import Iterable
from functools import partial

from coffer import paths
from coffer.errors import Invalid
from memory.files import store_file
from memory.files.store_file import StoreFile
from memory.models import Store
from memory.services import store_files, store_rows, trail

Pair = tuple[str, str]  # names, sorted
_KEY = b"not_same_as"


def tell(one: Store, other: Store, *, undo: bool = False, actor: str = "user") -> bool:
    """Note that two stores are not one project, or take that back; returns whether that changed anything.

    Raises Invalid (MERGE_INVALID) for a store with itself or with global, StoreNotFound, ConfigInvalid, Busy.
    """
    if one.name == other.name or store_rows.GLOBAL in (one.name, other.name):
        raise Invalid("Name two different projects; only they can be taken for one.", code="MERGE_INVALID")
    if are(one.name, other.name) != undo:
        return False
    for store, its in ((one, other), (other, one)):
        store_files.change(store.name, partial(_without if undo else _with, its))
    event = "stores_told_apart_undone" if undo else "stores_told_apart"
    trail.record(event, store=one.name, ref=other.name, actor=actor)
    return True


def are(one: str, other: str) -> bool:
    """Whether two stores were told apart."""
    return bool(pairs((one, other)))


def pairs(names: Iterable[str]) -> set[Pair]:
    """Which of these stores were told apart from one another; an identity that was merged stands for its survivor."""
    names = set(names)
    if not any(_KEY in _data(name) for name in names):
        return set()  # nearly always, and for less than reading the files
    files = [_file(name) for name in names]
    holders = {identity: file.name for file in files for identity in file.merged_identities}
    holders |= {file.project_id: file.name for file in files}
    told = ((file.name, holders.get(identity, file.name)) for file in files for identity in file.not_same_as)
    return {(min(pair), max(pair)) for pair in told if pair[0] != pair[1]}


def _with(other: Store, file: StoreFile) -> StoreFile:
    return file.with_(not_same_as=(*file.not_same_as, other.project_id))


def _without(other: Store, file: StoreFile) -> StoreFile:
    gone = {other.project_id, *other.merged_identities}
    return file.with_(not_same_as=tuple(one for one in file.not_same_as if one not in gone))


def _data(name: str) -> bytes:
    try:
        return (paths.store(name) / store_file.NAME).read_bytes()
    except OSError:
        return b""


def _file(name: str) -> StoreFile:
    """A store's file; one that cannot be read tells nothing apart."""
    identity = store_rows.project_id(name)
    try:
        return store_file.load(_data(name), name, identity)
    except store_file.Unreadable:
        return StoreFile(name, identity)
