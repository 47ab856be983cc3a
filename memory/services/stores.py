"""Stores: from a working directory to the memory that belongs to it, and everything about a store as a whole.

The folder and its ``store.yaml`` are the truth; rows are a copy that start-up and resolution refill.
"""

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from django.db import DatabaseError, IntegrityError
from django.utils import timezone

from coffer import audit, db, env, fs, later, paths
from coffer.errors import ConfigInvalid, Invalid, ScopeUnresolved, StoreNotFound
from memory import retrieval
from memory.files import git, lanes, store_file
from memory.files.git import Repository
from memory.files.store_file import StoreFile
from memory.models import Document, Store, Use
from memory.services import adoption, archive

log = logging.getLogger("memory.stores")
GLOBAL = "global"
GLOBAL_ID = "0" * 26
MAX_LABEL = 200
SCOPES = ("project", "global", "both")
_looked_after: set[str] = set()  # store folders whose archive this process has checked for cut-off replacements
_NAME = re.compile(r"global|project-[0-7][0-9A-HJKMNP-TV-Z]{25}")


@dataclass(frozen=True)
class Project:
    """The project a caller stands in, named in every reply so that a wrong one is noticed at once."""

    store: str
    name: str
    root: str

    def as_dict(self) -> dict[str, str]:
        return {"store": self.store, "name": self.name, "root": self.root}


@dataclass(frozen=True)
class Place:
    """Where a caller stands: inside a repository with its project, or outside with the reason."""

    cwd: str | None
    repository: Repository | None = None
    project: Project | None = None
    reason: str = ""


@dataclass(frozen=True)
class Metrics:
    fact_count: int
    topic_count: int
    inbox_count: int
    journal_days: int
    disk_bytes: int
    last_write_at: datetime | None


def locate(cwd: str | None) -> Place:
    """The project of a working directory, or why there is none; makes nothing on disk (FR-004, FR-004a)."""
    if not cwd:
        return Place(cwd, reason="The working directory of this session is not known.")
    try:
        repository = git.find(cwd, Path.home(), paths.home())
    except ScopeUnresolved as error:
        return Place(cwd, reason=error.message)
    if repository is None:
        return Place(cwd, reason=f"{cwd} is not inside a git work tree that can be a project.")
    name = _name_of(repository)
    store = _row(name)
    label = ""
    if store is not None:
        label = store.label
        _learn_root(store, repository)
    return Place(cwd, repository, Project(name, label or _root_name(repository.root), str(repository.root)))


def for_reading(place: Place, scope: str) -> list[Store]:
    """The stores that a scope names and that exist; none is made. Raises Invalid, ScopeUnresolved (FR-009)."""
    if scope not in SCOPES:
        raise Invalid(f"scope is {scope!r}; use project, global or both.", allowed=list(SCOPES))
    names = []
    if scope != "global":
        if place.project is not None:
            names.append(place.project.store)
        elif scope == "project":
            raise ScopeUnresolved(_unresolved(place))
    if scope != "project":
        names.append(GLOBAL)
    return [store for name in names if (store := _row(name)) is not None]


def for_writing(place: Place, scope: str) -> Store:
    """The one store a write goes to, made by this first write. Raises Invalid, ScopeUnresolved (FR-003, FR-004)."""
    if scope == "global":
        return provision(GLOBAL)
    if scope != "project":
        raise Invalid(f"scope is {scope!r}; use project or global.", allowed=["project", "global"])
    if place.project is None or place.repository is None:
        raise ScopeUnresolved(_unresolved(place))
    store = provision(place.project.store, place.repository)
    _learn_root(store, place.repository)
    return store


def get(name: str) -> Store:
    """A store by name; ``global`` is always there. Raises StoreNotFound, without making anything."""
    check_name(name)
    store = _row(name)
    if store is None:
        if name != GLOBAL:
            raise StoreNotFound(f"There is no store {name}; `coffer memory list` shows those there are.", store=name)
        store = Store(name=GLOBAL, project_id=GLOBAL_ID, created_at=timezone.now(), updated_at=timezone.now())
    return store


def check_name(name: str) -> str:
    """Refuse what is no store name before it comes near a path (BC-150)."""
    if not _NAME.fullmatch(name):
        raise StoreNotFound("A store is named global or project-<26-character id>.", store=name[:60])
    return name


def provision(name: str, repository: Repository | None = None) -> Store:
    """The store of that name, its folder made if this is its first write."""
    check_name(name)
    folder = paths.store(name)
    if not folder.exists():
        with fs.locked(f"{name}.write.lock"):
            if not folder.exists():
                _make_folder(folder, name, repository)
    store = _row(name)
    assert store is not None  # noqa: S101 - the folder is there now, and _row answers for every folder
    return store


def all_stores() -> list[Store]:
    """Every store on disk, global first, then by last write; rows are made for folders that have none."""
    known = {store.name: store for store in Store.objects.all()}
    found = [known.get(name) or _row(name) for name in names_on_disk()]
    stores = [store for store in found if store is not None]
    if not any(store.name == GLOBAL for store in stores):
        stores.append(get(GLOBAL))
    return sorted(stores, key=lambda store: (store.name != GLOBAL, -store.updated_at.timestamp()))


def names_on_disk() -> list[str]:
    """The names of all store folders, in order."""
    names = [GLOBAL] if paths.store(GLOBAL).is_dir() else []
    try:
        found = sorted(entry.name for entry in paths.projects().iterdir() if entry.is_dir())
    except FileNotFoundError:
        return names
    return names + [f"project-{name}" for name in found if _NAME.fullmatch(f"project-{name}")]


def rebuild() -> None:
    """Refill the rows from the folders: labels, aliases and settings come from ``store.yaml``."""
    retrieval.mend()
    for name in names_on_disk():
        _sync(name)


def display_name(store: Store) -> str:
    """A name a person knows: the label, else the folder's name, else the remote's, else the store's (FR-017a, c)."""
    if store.label:
        return store.label
    if store.project_root:
        return _root_name(Path(store.project_root))
    if store.remote:
        return store.remote.rsplit("/", 1)[-1]
    return store.name


def set_label(store: Store, label: str) -> Store:
    """Give a store a readable name; a blank one clears it (FR-017c). Raises Invalid when it is too long."""
    label = " ".join(label.split())
    if len(label) > MAX_LABEL:
        raise Invalid(f"The label has {len(label)} characters; at most {MAX_LABEL} are shown anywhere.")
    if any(not character.isprintable() for character in label):
        raise Invalid("The label holds control or direction characters; use printable text only.")
    store = _change_file(store, label=label)
    audit.record("store_labelled", store=store.name, actor="user", characters=len(label))
    return store


def configure(store: Store, changes: dict[str, Any]) -> Store:
    """Change settings of one store; a null takes a setting back to its default. Raises Invalid."""
    config = {**store.config, **changes}
    _check_config(config)
    store = _change_file(store, config={key: value for key, value in config.items() if value is not None})
    audit.record("store_configured", store=store.name, actor="user", settings=len(changes))
    return store


def with_scope(store: Store, scope: str) -> list[Store]:
    """What a scope means from one store's point of view; on ``global`` it has no meaning."""
    stores = [store] if scope != "global" or store.name == GLOBAL else []
    if scope != "project" and store.name != GLOBAL:
        stores.append(get(GLOBAL))
    return [one for one in stores if folder(one).is_dir()]


def scope_of(store: Store) -> Literal["global", "project"]:
    return "global" if store.name == GLOBAL else "project"


def folder(store: Store) -> Path:
    return paths.store(store.name)


def config(store: Store) -> dict[str, Any]:
    """The settings in force: the store's own, else the defaults."""
    return {
        "max_fact_chars": max_fact_chars(store),
        "retrieval": store.config.get("retrieval", "keyword"),
        "embedding": store.config.get("embedding"),
    }


def max_fact_chars(store: Store) -> int:
    """The longest text a fact of this store may have, in characters (FR-005)."""
    return int(store.config.get("max_fact_chars") or env.number("COFFER_MAX_FACT_CHARS", least=1))


def metrics(store: Store) -> Metrics:
    """Counts and sizes as they are on disk now."""
    refresh(store)
    folder = paths.store(store.name)
    kinds = list(store.documents.values_list("kind", flat=True)) if store.pk else []
    inbox = kinds.count("fact")
    sizes = [file.lstat() for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    last = max((size.st_mtime for size in sizes), default=None)
    return Metrics(
        fact_count=len(kinds) - kinds.count("journal"),
        topic_count=kinds.count("topic"),
        inbox_count=inbox,
        journal_days=kinds.count("journal"),
        disk_bytes=sum(size.st_size for size in sizes),
        last_write_at=datetime.fromtimestamp(last, UTC) if last else None,
    )


def fact_count(store: Store) -> int:
    """Facts and topics in the index; journal days do not count (FR-043)."""
    return store.documents.exclude(kind="journal").count() if store.pk else 0


def refresh(store: Store, files: Sequence[str] | None = None) -> retrieval.Changes:
    """Bring a store's index in line with its files, putting back first what a killed replacement left aside."""
    if store.pk is None:
        saved = _row(store.name)
        if saved is None or saved.pk is None:
            names = tuple(lanes.walk(paths.store(store.name)).files) if paths.store(store.name).is_dir() else ()
            return retrieval.Changes(added=names, behind=names)
        store.pk = saved.pk
    changes = retrieval.refresh(store, files)
    if files is None and (changes.removed or str(paths.store(store.name)) not in _looked_after):
        _looked_after.add(str(paths.store(store.name)))
        if archive.open_lines(paths.store(store.name)):
            with write_lock(store) as folder:
                archive.recover(folder)
            changes = retrieval.refresh(store)
    return changes


def reindex(progress: Callable[[str], None] | None = None) -> tuple[int, list[tuple[str, str]]]:
    """Build the whole index anew; returns how many files were read, and (path, problem) of those that need a look."""
    retrieval.rebuild()
    for store in all_stores():
        if progress is not None:
            progress(store.name)
        if folder(store).is_dir():
            refresh(store)
    problems = Document.objects.exclude(problem="").select_related("store")
    found = [(f"{paths.store(row.store.name) / row.path}", row.problem) for row in problems.order_by("store", "path")]
    return Document.objects.count(), found


def retire(store: Store) -> Path:
    """Move a project's store to retired/, from where a person can bring it back. Raises Invalid for global."""
    if store.name == GLOBAL:
        raise Invalid("The global store cannot be removed; clear it instead.")
    with fs.locked(f"{store.name}.write.lock"):
        target = _retired_name(store.name)
        fs.ensure_dir(target.parent)
        shutil.move(paths.store(store.name), target)
    if store.pk is not None:
        retrieval.forget(store)
        Store.objects.filter(pk=store.pk).delete()
    Use.objects.filter(store=store.name).delete()
    audit.record("store_retired", store=store.name, actor="user")
    return target


@contextmanager
def write_lock(store: Store) -> Iterator[Path]:
    """Hold the store's write lock around one file change; yields its folder. Raises Busy, StoreNotFound."""
    with fs.locked(f"{store.name}.write.lock"):
        folder = paths.store(store.name)
        if not folder.is_dir():
            raise StoreNotFound(f"{store.name} was removed meanwhile; try again to start a new one.", store=store.name)
        yield folder


def _learn_root(store: Store, repository: Repository) -> None:
    """Remember where this project was last seen; the old place joins the former ones."""
    root = str(repository.root)
    if store.pk is None or store.project_root == root:
        return
    former = [place for place in [*store.former_roots, store.project_root] if place and place != root]
    store.project_root, store.former_roots = root, former[-20:]
    changes = {"project_root": root, "former_roots": store.former_roots}
    later.write(lambda: Store.objects.filter(pk=store.pk).update(**changes))


def _name_of(repository: Repository) -> str:
    """The store's name: its own id, else the survivor that lists it as merged, after adopting an older store."""
    name = f"project-{repository.project_id}"
    if repository.remote is not None:
        older = f"project-{git.project_id(str(repository.root))}"
        if paths.store(older).is_dir():
            adoption.adopt(older, name, repository.remote)
            _carry_row(older, name)
    return name if paths.store(name).is_dir() else _survivor(repository.project_id) or name


def _survivor(project_id: str) -> str | None:
    """The store that a merged identity lives on in (FR-058)."""
    rows = Store.objects.exclude(merged_identities=[]).values_list("name", "merged_identities")
    return next((name for name, aliases in rows if project_id in aliases), None)


def _carry_row(older: str, name: str) -> None:
    """Let index, roots and use counts follow the files; a target that has a row of its own keeps it."""
    old = Store.objects.filter(name=older).first()
    if old is not None and Store.objects.filter(name=name).exists():
        retrieval.forget(old)
        old.delete()
    elif old is not None:
        Store.objects.filter(pk=old.pk).update(name=name)
        Use.objects.filter(store=older).update(store=name)
    _sync(name)


def _row(name: str) -> Store | None:
    """The row of an existing folder, made when missing; unsaved when the database is locked; None without folder."""
    if not paths.store(name).is_dir():
        return None
    store = Store.objects.filter(name=name).first()
    return store if store is not None else _sync(name)


def _sync(name: str) -> Store:
    """Bring a row in line with ``store.yaml``."""
    project_id = GLOBAL_ID if name == GLOBAL else name.removeprefix("project-")
    try:
        file = store_file.read(paths.store(name), name, project_id)
    except (store_file.Unreadable, OSError) as error:
        log.warning("store.yaml cannot be read store=%s reason=%s", name, type(error).__name__)
        file = StoreFile(name=name, project_id=project_id)
    values = {
        "project_id": project_id,
        "remote": file.remote,
        "former_remotes": list(file.former_remotes),
        "label": file.label[:MAX_LABEL],
        "config": file.config,
        "merged_identities": list(file.merged_identities),
    }
    born = file.created_at or timezone.now()
    try:
        with db.patience(1.0):
            store, _ = Store.objects.update_or_create(
                name=name, defaults=values, create_defaults={**values, "created_at": born, "updated_at": born}
            )
        return store
    except (DatabaseError, IntegrityError) as error:
        if not db.locked(error):
            raise
        return Store(name=name, created_at=born, updated_at=born, **values)


def _make_folder(folder: Path, name: str, repository: Repository | None) -> None:
    fs.ensure_dir(folder)
    file = StoreFile(
        name=name,
        project_id=GLOBAL_ID if name == GLOBAL else name.removeprefix("project-"),
        remote=(repository.remote or "") if repository else "",
        created_at=timezone.now(),
    )
    fs.write(folder / store_file.NAME, store_file.dump(file))


def _change_file(store: Store, **changes: Any) -> Store:
    provision(store.name)
    with write_lock(store) as folder:
        try:
            file = store_file.read(folder, store.name, store.project_id)
        except store_file.Unreadable as error:
            raise ConfigInvalid(f"{folder / store_file.NAME} cannot be read ({error}); correct it by hand.") from error
        fs.write(folder / store_file.NAME, store_file.dump(file.with_(**changes)))
    return _sync(store.name)


def _check_config(config: dict[str, Any]) -> None:
    limit = config.get("max_fact_chars")
    if limit is not None and not 1 <= limit <= 1_000_000:
        raise Invalid(f"max_fact_chars is {limit}; it must be between 1 and 1000000.")
    if config.get("retrieval") not in (None, "keyword", "hybrid"):
        raise Invalid("retrieval must be keyword or hybrid.")


def _root_name(root: Path) -> str:
    """The folder's name; of a bare hub the name without its ending, or its parent's when it is only an ending."""
    return root.name.removesuffix(".git").lstrip(".") or root.parent.name or str(root)


def _retired_name(name: str) -> Path:
    stamp = timezone.now().strftime("%Y%m%dT%H%M%S%fZ")
    return paths.retired() / f"{name}-{stamp}"


def _unresolved(place: Place) -> str:
    return f"{place.reason} Start the agent inside a git repository, or use scope=global."
