"""Store rows: a copy of each folder's ``store.yaml`` that the index hangs on.

The files are the truth. A row that cannot be written now, because the database is busy, full or read-only, is handed
out unsaved: what was asked then comes from the files alone.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from coffer import db, later, paths
from memory import retrieval
from memory.files import markdown, store_file
from memory.files.git import Repository
from memory.files.store_file import StoreFile
from memory.models import Store, Use

log = logging.getLogger("memory.stores")
GLOBAL = "global"
GLOBAL_ID = "0" * 26
MAX_LABEL = 200
PATIENCE = 0.1  # seconds; a reader asks for several rows and never waits long for a writer
_compared: dict[str, tuple[int, ...] | None] = {}  # the store.yaml, by folder, that a row was last compared with


def find(name: str) -> Store | None:
    """The store of a folder that exists, in line with its ``store.yaml``; None without a folder."""
    folder = paths.store(name)
    if not folder.is_dir():
        return None
    signature = _signature(folder / store_file.NAME)
    store = Store.objects.filter(name=name).first()
    if store is not None and _compared.get(str(folder), ()) == signature:
        return store
    store = sync(name, store)
    if store.pk is not None:
        _compared[str(folder)] = signature
    return store


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


def survivor(identity: str) -> str | None:
    """The store that a merged identity lives on in (FR-058)."""
    rows = Store.objects.exclude(merged_identities=[]).values_list("name", "merged_identities")
    return next((name for name, aliases in rows if identity in aliases), None)


def learn_root(store: Store, repository: Repository) -> None:
    """Remember where this project was last seen, without waiting; the old place joins the former ones."""
    root = markdown.clean(str(repository.root))  # a folder's name may hold bytes that no text column takes
    if store.pk is None or store.project_root == root:
        return
    former = [place for place in [*store.former_roots, store.project_root] if place and place != root]
    store.project_root, store.former_roots = root, former[-20:]
    changes = {"project_root": root, "former_roots": store.former_roots}
    _now_or_later(lambda: Store.objects.filter(pk=store.pk, name=store.name).update(**changes), seconds=0.0)


def carry(older: str, name: str) -> None:
    """Let index, roots and use counts follow the files of an adopted store, now or when the database is free."""
    _now_or_later(lambda: _carry(older, name))


def drop(name: str) -> None:
    """Forget a store whose folder has gone, now or when the database is free."""
    _now_or_later(lambda: _drop(name))


def project_id(name: str) -> str:
    """The identity that a store's name carries."""
    return GLOBAL_ID if name == GLOBAL else name.removeprefix("project-")


def _now_or_later(job: Callable[[], object], seconds: float = PATIENCE) -> None:
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


def _drop(name: str) -> None:
    row = Store.objects.filter(name=name).first()
    if row is None or paths.store(name).is_dir():
        return  # begun again meanwhile: the next recall brings its row in line
    retrieval.forget(row)
    row.delete()
    Use.objects.filter(store=name).delete()


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
