"""Factories build files first, as a person or another program would leave them; rows come from indexing them."""

import os
from pathlib import Path
from typing import Any

import factory

from coffer import paths
from memory.models import Store
from memory.services import stores


class StoreFactory(factory.Factory):
    """A store on disk; ``files`` maps relative paths to text or bytes."""

    class Meta:
        model = Store

    name = "global"
    files: dict[str, str | bytes] = {}

    @classmethod
    def _create(cls, model_class: type[Store], *_: Any, **values: Any) -> Store:
        store = stores.provision(values["name"])
        write_files(paths.store(store.name), values["files"])
        return store


def write_files(folder: Path, files: dict[str, str | bytes], *, settled: bool = False) -> None:
    """Write files; ``settled`` makes all of the folder old enough that the index trusts its times at once."""
    for relative, content in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for path in folder.rglob("*.md") if settled else ():
        os.utime(path, (1_700_000_000, 1_700_000_000))
