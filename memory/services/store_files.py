"""``store.yaml`` changed under its store's write lock, and the row that follows it."""

from collections.abc import Callable
from pathlib import Path

from coffer import fs, paths
from coffer.errors import ConfigInvalid, StoreNotFound
from memory.files import store_file
from memory.files.store_file import StoreFile
from memory.models import Store
from memory.services import archive, store_rows

Edit = Callable[[StoreFile], StoreFile]


def change(name: str, edit: Edit, *, seconds: float = 10.0) -> Store:
    """Write what ``edit`` makes of a store's file, when it makes another of it; returns the row as it is then.

    Raises StoreNotFound without a folder, ConfigInvalid for a file that cannot be read, Busy.
    """
    with fs.locked(f"{name}.write.lock", seconds=seconds):
        folder = paths.store(name)
        if not folder.is_dir():
            raise StoreNotFound(f"{name} was removed meanwhile; try again to start a new one.", store=name)
        try:
            before = store_file.read(folder, name, store_rows.project_id(name))
        except store_file.Unreadable as error:
            raise ConfigInvalid(f"{folder / store_file.NAME} cannot be read ({error}); correct it by hand.") from error
        after = edit(before)
        if after != before:
            fs.write(folder / store_file.NAME, store_file.dump(after))
    return store_rows.sync(name)


def read_or_keep(folder: Path, name: str) -> StoreFile:
    """What a store's file says; one that cannot be read goes to the archive, for it is about to be written anew.

    Expects the store's write lock to be held.
    """
    project_id = store_rows.project_id(name)
    try:
        return store_file.read(folder, name, project_id)
    except store_file.Unreadable:
        archive.keep_copy(folder, store_file.NAME, fs.read(folder / store_file.NAME), "unreadable")
        return StoreFile(name=name, project_id=project_id)


def claim(name: str, identities: set[str]) -> None:
    """Take identities from every other store that answers to them: one live store answers to each (FR-058)."""
    for row in store_rows.current():
        if row.name != name and identities & store_rows.answers(row):
            change(row.name, lambda file: file.without(identities))
