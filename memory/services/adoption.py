"""A store takes another name: its remote's (FR-004a), or one of its own when its folder is another's now.

Both pass locks come first, without a wait worth the name: nothing is renamed under a pass of the engine or a merge.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from django.utils import timezone

from coffer import fs, paths
from memory.files import store_file, ulid
from memory.files.store_file import StoreFile
from memory.services import archive, carry, store_files

log = logging.getLogger("memory.adoption")
_SOON = 0.05  # a process that is just being started holds a copy of every lock of its parent for a moment
PATIENCE = 2.0  # seconds; a session that only reads waits no longer to have an older store adopted


def adopt(older: str, name: str, remote: str) -> None:
    """Make ``older`` (without a remote) part of ``name``: renamed when that has no folder yet, else carried over
    additively and retired. Does nothing when ``older`` has gone meanwhile. Raises Busy."""
    with alone(older, name), both(older, name, seconds=PATIENCE) as (source, target):
        if not source.is_dir():
            return
        archive.recover(source)
        old = store_files.read_or_keep(source, older)
        if target.is_dir():
            done = carry.everything(source, target)
            mark(target, name, old, remote)
            retire(source, older)
            log.info("store joined from=%s to=%s files=%d", older, name, done["added"] + done["renamed"])
        else:
            # Marked first: killed before the rename, the next one begins again; after it, all is done.
            mark(source, name, old, remote)
            os.rename(source, target)
            log.info("store adopted from=%s to=%s", older, name)


def set_aside(name: str, key: str, label: str) -> str:
    """Give a store the identity of another key, and a label if it has none; returns its new name. Raises Busy."""
    keys = (key if number == 1 else f"{key}\n{number}" for number in count(1))
    free = next(other for one in keys if not paths.store(other := f"project-{ulid.project_id(one)}").is_dir())
    with alone(name, free), both(name, free, seconds=PATIENCE) as (source, target):
        if source.is_dir() and not target.is_dir():
            file = store_files.read_or_keep(source, name)
            new = file.with_(name=free, project_id=free.removeprefix("project-"), label=file.label or label)
            fs.write(source / store_file.NAME, store_file.dump(new))
            os.rename(source, target)
    return free


def mark(folder: Path, name: str, old: StoreFile, remote: str) -> None:
    """Write the survivor's store.yaml; expects the write lock of the folder's store to be held."""
    fs.write(folder / store_file.NAME, store_file.dump(marked(store_files.read_or_keep(folder, name), old, remote)))


def marked(file: StoreFile, old: StoreFile, remote: str = "") -> StoreFile:
    """A survivor's file: the other's identities are aliases of it; label, settings and origin if it has none.

    What told one of them apart from a third holds for both; the two themselves are one now.
    """
    origin = file.remote or remote or old.remote
    former = dict.fromkeys([*file.former_remotes, *([old.remote] if old.remote else []), *old.former_remotes])
    former.pop(origin, None)
    survivor = file.with_alias(*old.merged_identities, old.project_id)
    own = {survivor.project_id, *survivor.merged_identities}
    return survivor.with_(
        remote=origin,
        former_remotes=tuple(former),
        label=file.label or old.label,
        config=file.config or old.config,
        not_same_as=tuple(dict.fromkeys(one for one in (*file.not_same_as, *old.not_same_as) if one not in own)),
        created_at=min(filter(None, (file.created_at, old.created_at)), default=None),
    )


def retire(folder: Path, name: str) -> Path:
    """Move a store's folder to retired/; expects its write lock to be held."""
    stamp = timezone.now().strftime("%Y%m%dT%H%M%S%fZ")
    target = fs.ensure_dir(paths.retired()) / f"{name}-{stamp}"
    with fs.storage_errors(target):
        shutil.move(folder, target)
    return target


@contextmanager
def alone(*names: str) -> Iterator[None]:
    """Hold the pass locks of some stores. Raises Busy soon when a pass or a merge is at work on one of them."""
    with ExitStack() as held:
        for name in sorted(set(names)):
            held.enter_context(fs.locked(f"{name}.pass.lock", seconds=_SOON))
        yield


@contextmanager
def both(one: str, other: str, *, seconds: float = 10.0) -> Iterator[tuple[Path, Path]]:
    """Hold the write locks of two stores, in the order of their names; yields both folders. Raises Busy."""
    first, second = sorted((one, other))
    with fs.locked(f"{first}.write.lock", seconds=seconds), fs.locked(f"{second}.write.lock", seconds=seconds):
        yield paths.store(one), paths.store(other)
