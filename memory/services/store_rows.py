"""Store rows: a copy of each folder's ``store.yaml`` that the index hangs on.

The files are the truth. A row that cannot be written now, because the database is busy, full or read-only, is handed
out unsaved: what was asked then comes from the files alone.
"""

import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from coffer import db, later, paths
from memory import retrieval
from memory.files import store_file
from memory.files.store_file import StoreFile
from memory.models import Checkout, Failure, Pass, Store, Use

log = logging.getLogger("memory.stores")
GLOBAL = "global"
GLOBAL_ID = "0" * 26
MAX_LABEL = 200
PATIENCE = 0.1  # seconds; a reader asks for several rows and never waits long for a writer
_NAME = re.compile(r"global|project-[0-7][0-9A-HJKMNP-TV-Z]{25}")
_held: dict[str, str] = {}  # the store that an identity was last found in
_unheld: dict[str, tuple[tuple[int, ...] | None, ...]] = {}  # the files in which nobody answered to an identity
_compared: dict[str, tuple[int, ...] | None] = {}  # the store.yaml, by folder, that a row was last compared with


def find(name: str) -> Store | None:
    """The store of a folder that exists, in line with its ``store.yaml``; None without a folder."""
    if not paths.store(name).is_dir():
        return None
    return _in_line(name, Store.objects.filter(name=name).first())


def sync(name: str, store: Store | None = None) -> Store:
    """Bring a store's row in line with its ``store.yaml``; written only when they differ."""
    store = store or Store.objects.filter(name=name).first()
    file = _file(name)
    new = store is None
    if store is None:
        file = file or StoreFile(name=name, project_id=project_id(name))
        born = file.created_at or timezone.now()
        store = Store(name=name, created_at=born, updated_at=born)
    values = _fields(file) if file is not None else {}
    if not new and all(getattr(store, key) == value for key, value in values.items()):
        return store
    for key, value in values.items():
        setattr(store, key, value)
    try:
        with db.patience(PATIENCE):
            store.save(force_insert=new, update_fields=None if new else list(values))
    except IntegrityError:  # another process made the row at this moment
        return Store.objects.get(name=name)
    except DatabaseError as error:
        if db.damaged(error):
            raise
        if new:
            store.pk = None
    return store


def saved(store: Store) -> bool:
    """Give a store that was handed out unsaved, or whose row has gone since, the row that stands for it now."""
    found = find(store.name)
    store.pk = found.pk if found is not None else None
    return store.pk is not None


def current() -> list[Store]:
    """The row of every store on disk, in line with its ``store.yaml``, by name: one query and a look at each file."""
    rows = {row.name: row for row in Store.objects.all()}
    return [_in_line(name, rows.get(name)) for name in names_on_disk()]


def names_on_disk() -> list[str]:
    """The names of all store folders, in order."""
    names = [GLOBAL] if paths.store(GLOBAL).is_dir() else []
    try:
        found = sorted(entry.name for entry in os.scandir(paths.projects()) if entry.is_dir())
    except FileNotFoundError:
        return names
    return names + [f"project-{name}" for name in found if is_name(f"project-{name}")]


def is_name(name: str) -> bool:
    """Whether a text is a store's name, there or not."""
    return _NAME.fullmatch(name) is not None


def holder(identity: str) -> Store | None:
    """The store on disk that a merged or former identity lives on in; None when that has a folder itself (FR-058)."""
    if paths.store(GLOBAL if identity == GLOBAL_ID else f"project-{identity}").is_dir():
        return None
    known = find(_held[identity]) if identity in _held else None
    if known is not None and identity in answers(known):
        return known
    files = tuple(_signature(paths.store(name) / store_file.NAME) for name in names_on_disk())
    if _unheld.get(identity) == files:
        return None
    rows = current()
    first = next((row for row in rows if identity in row.merged_identities), None)
    found = first or next((row for row in rows if identity in answers(row)), None)
    if found is not None:
        _held[identity] = found.name
    else:
        _unheld[identity] = files
    return found


def answers(row: Store) -> set[str]:
    """The identities that a store answers to besides its own: merged ones, and those of its origins."""
    remotes = [row.remote, *row.former_remotes]
    return {*row.merged_identities, *(store_file.identity_of(one) for one in remotes if one)} - {row.project_id}


def become(store: Store, survivor: Store) -> None:
    """Let an object that stands for a store that was merged away stand for the one that holds its memory now."""
    store.__dict__.update(survivor.__dict__)


def carry(older: str, name: str) -> None:
    """Let index, roots and use counts follow the files of an adopted store, now or when the database is free."""
    now_or_later(lambda: _carry(older, name))


def drop(name: str) -> None:
    """Forget a store whose folder has gone, now or when the database is free."""
    now_or_later(lambda: _drop(name))


def project_id(name: str) -> str:
    """The identity that a store's name carries."""
    return GLOBAL_ID if name == GLOBAL else name.removeprefix("project-")


def now_or_later(job: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Write rows in one transaction, waiting so long for the database; else soon, in another thread."""

    def write() -> None:
        with transaction.atomic():  # what the job reads must not be taken away by another one like it
            job()

    try:
        with db.patience(seconds):
            write()
    except DatabaseError as error:
        log.info("rows of a store are behind error=%s", type(error).__name__)
        later.write(write)


def _carry(older: str, name: str) -> None:
    row = Store.objects.filter(name=older).first()
    if row is not None and Store.objects.filter(name=name).exists():
        retrieval.forget(row)
        row.delete()
    elif row is not None:
        Store.objects.filter(pk=row.pk).update(name=name)
    counted = Use.objects.filter(store=name).values("ref")
    Use.objects.filter(store=older).exclude(ref__in=counted).update(store=name)
    Checkout.objects.filter(store=older).update(store=name, since=timezone.now())
    Pass.objects.filter(store=older).update(store=name)
    Failure.objects.filter(store=older).delete()


def _in_line(name: str, row: Store | None) -> Store:
    folder = paths.store(name)
    signature = _signature(folder / store_file.NAME)
    if row is not None and _compared.get(str(folder), ()) == signature:
        return row
    row = sync(name, row)
    if row.pk is not None:
        _compared[str(folder)] = signature
    return row


def _drop(name: str) -> None:
    row = Store.objects.filter(name=name).first()
    if row is None or paths.store(name).is_dir():
        return  # begun again meanwhile: the next recall brings its row in line
    retrieval.forget(row)
    row.delete()
    for ledger in (Use, Checkout, Pass, Failure):
        ledger.objects.filter(store=name).delete()


def _file(name: str) -> StoreFile | None:
    """What ``store.yaml`` says; None when it cannot be read, so that what is known stays."""
    try:
        return store_file.read(paths.store(name), name, project_id(name))
    except (store_file.Unreadable, OSError) as error:
        log.warning("store.yaml cannot be read store=%s reason=%s", name, error)
        return None


def _fields(file: StoreFile) -> dict[str, Any]:
    """The fields of a row that the file decides."""
    return {
        "project_id": file.project_id,
        "remote": file.remote,
        "former_remotes": list(file.former_remotes),
        "label": _printable(file.label),
        "config": file.config,
        "merged_identities": list(file.merged_identities),
    }


def _printable(label: str) -> str:
    """A label as it may be shown; in a file made by hand it can hold anything."""
    return "".join(character for character in label if character.isprintable()).strip()[:MAX_LABEL]


def _signature(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino
    return None
