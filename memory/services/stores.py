"""Stores: from a working directory to the memory that belongs to it, and everything about a store as a whole.

The folder and its ``store.yaml`` are the truth; rows are a copy that start-up and resolution refill.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.utils import timezone

from coffer import env, fs, paths
from coffer.errors import CofferError, ConfigInvalid, Invalid, ScopeUnresolved, StoreNotFound
from coffer.llm import PROVIDERS
from memory import retrieval, schedule
from memory.files import git, lanes, store_file
from memory.files.git import Repository
from memory.files.store_file import StoreFile
from memory.models import Document, Store
from memory.services import adoption, archive, checkouts, identity, store_files, store_rows, trail
from memory.services.identity import Resolved
from memory.services.store_rows import GLOBAL, MAX_LABEL

log = logging.getLogger("memory.stores")
SCOPES = ("project", "global", "both")
_looked_after: set[str] = set()  # store folders whose archive this process has checked for cut-off replacements


@dataclass(frozen=True)
class Project:
    """The project a caller stands in, named in every reply so that a wrong one is noticed at once.

    ``note`` tells how the store was found when that is news: its folder moved, its origin changed, it was merged.
    """

    store: str
    name: str
    root: str
    note: str = ""

    def as_dict(self) -> dict[str, str]:
        told = {"store": self.store, "name": self.name, "root": self.root}
        return {**told, "note": self.note} if self.note else told


@dataclass(frozen=True)
class Place:
    """Where a caller stands: inside a repository with its project, or outside with the reason."""

    cwd: str | None
    repository: Repository | None = None
    project: Project | None = None
    reason: str = ""
    resolved: Resolved | None = None


def locate(cwd: str | None) -> Place:
    """The project of a working directory, or why there is none; makes nothing on disk (FR-004, FR-004a)."""
    if not cwd:
        return Place(cwd, reason="The working directory of this session is not known.")
    try:
        repository = git.find(cwd, Path.home(), paths.home())
    except ScopeUnresolved as error:
        return Place(cwd, reason=error.message)
    if repository is None:
        return Place(cwd, reason=_no_project(cwd))
    resolved = identity.resolve(repository)
    store = resolved.row or store_rows.find(resolved.store)
    label = ""
    if store is not None:
        label = store.label
        checkouts.learn(store, repository)
    name = label or _root_name(repository.root)
    project = Project(resolved.store, name, str(repository.root), resolved.news)
    return Place(cwd, repository, project, resolved=resolved)


def repository_at(cwd: str) -> Repository:
    """The repository around a folder. Raises ScopeUnresolved where there is none that can be a project."""
    cwd = os.path.abspath(cwd)
    repository = git.find(cwd, Path.home(), paths.home())
    if repository is None:
        raise ScopeUnresolved(_no_project(cwd))
    return repository


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
    return [store for name in names if (store := store_rows.find(name)) is not None]


def for_writing(place: Place, scope: str) -> Store:
    """The one store a write goes to, made by this first write. Raises Invalid, ScopeUnresolved (FR-003, FR-004)."""
    if scope == "global":
        return provision(GLOBAL)
    if scope != "project":
        raise Invalid(f"scope is {scope!r}; use project or global.", allowed=["project", "global"])
    if place.project is None or place.repository is None:
        raise ScopeUnresolved(_unresolved(place))
    if place.resolved is not None and place.resolved.reclaims:
        identity.reclaim(place.repository)
    store = provision(place.project.store, place.repository)
    checkouts.learn(store, place.repository)
    return store


def get(name: str) -> Store:
    """A store by name; ``global`` is always there. Raises StoreNotFound, without making anything."""
    store = found(name)
    if store is None:
        if name != GLOBAL:
            raise missing(name)
        store = _unsaved(name)
    return store


def found(name: str) -> Store | None:
    """A store by name, if it is there. Raises StoreNotFound for what is no name."""
    return store_rows.find(check_name(name))


def is_name(name: str) -> bool:
    """Whether a text is a store's name, there or not."""
    return store_rows.is_name(name)


def check_name(name: str) -> str:
    """Refuse what is no store name before it comes near a path (BC-150)."""
    if not is_name(name):
        raise StoreNotFound("A store is named global or project-<26-character id>.", store=name[:60])
    return name


def provision(name: str, repository: Repository | None = None) -> Store:
    """The store of that name, its folder and ``store.yaml`` made if this is its first write; of one that was merged
    away the store that holds its memory now (FR-058)."""
    check_name(name)
    if not paths.store(name).is_dir() and (survivor := store_rows.holder(store_rows.project_id(name))) is not None:
        name = survivor.name
    folder = paths.store(name)
    if not (folder / store_file.NAME).exists():
        with fs.locked(f"{name}.write.lock"):
            if not (folder / store_file.NAME).exists():
                _make_folder(folder, name, repository)
    store = store_rows.find(name) or _unsaved(name)  # removed at this moment: the write begins it anew
    if repository and repository.remote and not store.remote and store.project_id == repository.project_id:
        # Made by a program that knows no repository (REST), or before the repository had a remote.
        with suppress(ConfigInvalid):
            store = _change_file(store, remote=repository.remote)
    return store


def all_stores() -> list[Store]:
    """Every store on disk, global first, then by last write; rows are made for folders that have none."""
    stores = store_rows.current()
    if not any(store.name == GLOBAL for store in stores):
        stores.append(get(GLOBAL))
    return sorted(stores, key=lambda store: (store.name != GLOBAL, -store.updated_at.timestamp()))


def names_on_disk() -> list[str]:
    """The names of all store folders, in order."""
    return store_rows.names_on_disk()


def places() -> list[Path]:
    """Where memory lies: its folder, and each store, whose folder may be a link to elsewhere."""
    return [paths.memory(), *map(paths.store, names_on_disk())]


def rebuild() -> None:
    """Refill the rows from the folders: labels, aliases and settings come from ``store.yaml``."""
    retrieval.mend()
    checkouts.forget()
    for name in names_on_disk():
        store_rows.sync(name)
    identity.consolidate()


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
    label = check_label(label)
    store = _change_file(store, label=label)
    trail.record("store_labelled", store=store.name, actor="user", characters=len(label))
    return store


def check_label(label: str) -> str:
    """A label as it would be kept. Raises Invalid."""
    label = " ".join(label.split())
    if len(label) > MAX_LABEL:
        raise Invalid(f"The label has {len(label)} characters; at most {MAX_LABEL} are shown anywhere.")
    if any(not character.isprintable() for character in label):
        raise Invalid("The label holds control or direction characters; use printable text only.")
    if label in (".", ".."):
        raise Invalid(f"The label {label!r} is how a folder is named; use another one, or nobody knows which is meant.")
    if is_name(label):
        raise Invalid("The label has the form of a store's name; use another one, or nobody knows which is meant.")
    return label


def configure(store: Store, changes: dict[str, Any]) -> Store:
    """Change settings of one store; a null takes a setting back to its default. Raises Invalid."""
    config = {**store.config, **changes}
    _check_config(config)
    store = _change_file(store, config={key: value for key, value in config.items() if value is not None})
    trail.record("store_configured", store=store.name, actor="user", settings=len(changes))
    if searched_by_vectors(store):
        schedule.embed(store.name)
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
        "retrieval": "hybrid" if searched_by_vectors(store) else "keyword",
        "embedding": store.config.get("embedding"),
    }


def max_fact_chars(store: Store) -> int:
    """The longest text a fact of this store may have, in characters (FR-005)."""
    return int(store.config.get("max_fact_chars") or env.number("COFFER_MAX_FACT_CHARS", least=1))


def searched_by_vectors(store: Store) -> bool:
    """Whether its own settings or the global one ask for hybrid search; what cannot be read asks for nothing."""
    try:
        return retrieval.hybrid(store)
    except ConfigInvalid:
        return False


def refresh(store: Store, files: Sequence[str] | None = None) -> retrieval.Changes:
    """Bring a store's index in line with its files, putting back first what a killed replacement left aside."""
    changes = _reconciled(store, files)
    folder = paths.store(store.name)
    first = str(folder) not in _looked_after
    if files is None and (changes.removed or first):
        _looked_after.add(str(folder))
        if first:  # whoever holds the lock is writing, and may still need what lies there
            with suppress(CofferError), write_lock(store, seconds=0.0):
                archive.sweep(folder)
        if archive.open_lines(folder):
            # Either its writer was killed, or it closes the line itself in a moment: not worth a long wait.
            with suppress(CofferError), write_lock(store, seconds=1.0):
                archive.recover(folder)
            changes = _reconciled(store, None)
        elif any(lanes.stat(folder, path) for path in changes.removed):
            changes = _reconciled(store, None)  # it was being replaced when we looked
    if changes and searched_by_vectors(store):
        schedule.embed(store.name)
    return changes


def refresh_undisturbed(store: Store) -> retrieval.Changes:
    """The same while nobody replaces a file: one that is missing then is gone. Raises Busy."""
    if not folder(store).is_dir():
        return refresh(store)
    with write_lock(store) as place:
        archive.recover(place)
        return _reconciled(store, None)


def reindex(progress: Callable[[str], None] | None = None) -> tuple[int, list[tuple[str, str]]]:
    """Build the whole index anew; returns how many files were read, and (path, problem) of those that need a look."""
    retrieval.rebuild()
    left_out = []
    for store in all_stores():
        if progress is not None:
            progress(store.name)
        if folder(store).is_dir():
            refresh(store)
            left_out += [
                (str(folder(store) / path), f"not served: {reason}") for path, reason in retrieval.skipped(store)
            ]
    problems = Document.objects.exclude(problem="").select_related("store")
    found = [(f"{paths.store(row.store.name) / row.path}", row.problem) for row in problems.order_by("store", "path")]
    return Document.objects.count(), found + left_out


def retire(store: Store) -> Path:
    """Move a project's store to retired/, from where a person can bring it back. Raises Invalid, StoreNotFound."""
    if store.name == GLOBAL:
        raise Invalid("The global store cannot be removed; clear it instead.")
    with write_lock(store) as folder:
        target = adoption.retire(folder, store.name)
    store_rows.drop(store.name)
    trail.record("store_retired", store=store.name, actor="user")
    return target


def missing(name: str) -> StoreNotFound:
    """The error for a store that is not there; it names the one that has its memory, if there is one."""
    survivor = store_rows.holder(store_rows.project_id(name))
    if survivor is not None:
        return _removed(name, survivor)
    return StoreNotFound(f"There is no store {name}; `coffer memory list` shows those there are.", store=name)


@contextmanager
def write_lock(store: Store, *, seconds: float = 10.0, begin: bool = False) -> Iterator[Path]:
    """Hold the store's write lock around one file change; yields its folder. Raises Busy, StoreNotFound.

    ``begin`` is for what is new in any store: when this one was merged or adopted since it was looked up, ``store``
    becomes the one that holds its memory now; when it was retired, its folder is made anew.
    """
    while True:
        with fs.locked(f"{store.name}.write.lock", seconds=seconds):
            folder = paths.store(store.name)
            survivor = None
            if not folder.is_dir():
                survivor = store_rows.holder(store.project_id)
                if not begin:
                    raise _removed(store.name, survivor)
                if survivor is None:
                    _make_folder(folder, store.name, None)
            if survivor is None:
                yield folder
                return
        store_rows.become(store, survivor)


def _no_project(cwd: str) -> str:
    inside = "is not inside a git work tree that can be a project"
    return f"{cwd} {inside}." if os.path.isdir(cwd) else f"There is no folder {cwd}."


def _reconciled(store: Store, files: Sequence[str] | None) -> retrieval.Changes:
    if store.pk is not None or store_rows.saved(store):
        try:
            return retrieval.refresh(store, files)
        except Store.DoesNotExist:  # retired, adopted or rebuilt since this object was read
            if store_rows.saved(store):
                return retrieval.refresh(store, files)
    names = tuple(lanes.walk(paths.store(store.name)).files)
    return retrieval.Changes(added=names, behind=names)


def _unsaved(name: str) -> Store:
    now = timezone.now()
    return Store(name=name, project_id=store_rows.project_id(name), created_at=now, updated_at=now)


def _removed(name: str, survivor: Store | None) -> StoreNotFound:
    if survivor is not None:
        message = f"{name} was merged; {survivor.name} has its memory now."
        return StoreNotFound(message, store=name, survivor=survivor.name)
    return StoreNotFound(f"{name} was removed meanwhile; try again to start a new one.", store=name)


def _make_folder(folder: Path, name: str, repository: Repository | None) -> None:
    fs.ensure_dir(folder)
    # A folder that somebody made by hand, or whose maker was killed, may hold memory already.
    file = StoreFile(
        name=name,
        project_id=store_rows.project_id(name),
        remote=(repository.remote or "") if repository else "",
        created_at=timezone.now(),
    )
    fs.write(folder / store_file.NAME, store_file.dump(file))


def _change_file(store: Store, **changes: Any) -> Store:
    return store_files.change(provision(store.name).name, lambda file: file.with_(**changes))


def _check_config(config: dict[str, Any]) -> None:
    limit = config.get("max_fact_chars")
    if limit is not None and not 1 <= limit <= 1_000_000:
        raise Invalid(f"max_fact_chars is {limit}; it must be between 1 and 1000000.")
    if config.get("retrieval") not in (None, "keyword", "hybrid"):
        raise Invalid("retrieval must be keyword or hybrid.")
    embedding = config.get("embedding")
    if embedding is not None and (set(embedding) != {"provider"} or embedding["provider"] not in PROVIDERS):
        raise Invalid(
            'embedding must be null, {"provider": "endpoint"} or {"provider": "local"}; the endpoint itself is set by '
            "COFFER_EMBEDDING_BASE_URL and COFFER_EMBEDDING_MODEL."
        )


def _root_name(root: Path) -> str:
    """The folder's name; of a bare hub the name without its ending, or its parent's when it is only an ending."""
    return root.name.removesuffix(".git").lstrip(".") or root.parent.name or str(root)


def _unresolved(place: Place) -> str:
    return f"{place.reason} Start the agent inside a git repository, or use scope=global."
