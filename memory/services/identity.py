"""Which store a repository belongs to, and why (FR-004a, FR-058).

Its own identity (origin, else path) comes first. Then whoever answers to that identity: the survivor of a merge, a
store with this origin as a former one. Then what was seen on this machine: a folder that moved, an origin that changed.
What is certain is acted upon and written down; what may as well be a fork or a copy is told, and a person decides.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from coffer import paths
from coffer.errors import CofferError
from memory.files import git
from memory.files.git import Repository
from memory.models import Checkout, Store
from memory.services import adoption, apart, checkouts, store_files, store_rows

log = logging.getLogger("memory.identity")
Why = Literal["remote", "path", "merged", "former remote", "former root", "told apart"]
PATIENCE = 0.5  # seconds; what is recognised and cannot be written down now is recognised again
_MOST_ASKED = 5  # earlier repositories that git compares with one nobody knows


@dataclass(frozen=True)
class Resolved:
    """The store of a repository, there or not; ``news`` is what a reply tells about how it was found, or blank.

    ``reclaims``: its identity is an alias of a store that was another repository's, and the first write takes it back.
    ``row``: the store's row, when it was looked at on the way.
    """

    store: str
    why: Why
    news: str = ""
    reclaims: bool = False
    row: Store | None = None


def resolve(repository: Repository) -> Resolved:
    """The store that a repository belongs to; makes none. Raises Busy when another one's store is in the way."""
    own, by_path, news = name_of(repository), path_name_of(repository), ""
    plain: Why = "path" if repository.remote is None else "remote"
    if paths.store(by_path).is_dir():
        if _is_anothers(by_path, repository):
            news = _made_way(by_path, repository)
        elif by_path != own and apart.are(by_path, _for_remote(repository, own)):
            return Resolved(by_path, "told apart")
        elif by_path != own and not _adopted(by_path, repository, own) and not paths.store(own).is_dir():
            return Resolved(by_path, "path")  # later: somebody is at work on it
    if paths.store(own).is_dir():
        return _own(own, plain, repository)
    holder = store_rows.holder(repository.project_id)
    if holder is not None and not _is_anothers(holder.name, repository):
        return _through(holder, repository)
    found = _seen_before(repository) or Resolved(own, plain, news)
    return replace(found, reclaims=holder is not None and found.store == own)


def sentence(resolved: Resolved, repository: Repository) -> str:
    """Why a repository belongs to that store, for a person."""
    origin = repository.remote
    told: dict[Why, str] = {
        "remote": f"Its origin is {origin}.",
        "path": f"It has no origin with a host, so its path is its identity: {repository.root}.",
        "merged": "Its own identity belongs to this store: it was merged into it, or assigned to it.",
        "former remote": f"This store has another name than the origin {origin or '(none)'} gives: the origin changed.",
        "told apart": f"Somebody told this folder's memory apart from that of its origin, {origin}.",
        "former root": "It has no origin, and this store has its memory: from another place, by a merge or assigned.",
    }
    tree = repository.work_tree
    return told[resolved.why] + (f" {tree} is a work tree of it." if tree != repository.root else "")


def name_of(repository: Repository) -> str:
    """The name that a store of this repository's own identity has."""
    return f"project-{repository.project_id}"


def path_name_of(repository: Repository) -> str:
    """The name of the store that a repository would have without a remote."""
    return f"project-{git.project_id(str(repository.root))}"


def answer_to(store: str, identity: str, *, seconds: float = 10.0) -> None:
    """Let a store answer to an identity from now on, on every machine that its file reaches, and no other store."""
    store_files.change(store, lambda file: file.with_alias(identity), seconds=seconds)
    store_files.claim(store, {identity})


def reclaim(repository: Repository) -> None:
    """Take a repository's own identity back from the store that answers to it."""
    store_files.claim(name_of(repository), {repository.project_id})


def consolidate() -> int:
    """Adopt stores from before their repository had a remote, as far as it is seen on this machine; how many."""
    before = store_rows.names_on_disk()
    for row in [row for store in store_rows.current() if not store.remote for row in checkouts.of(store.name)]:
        with suppress(CofferError, OSError):
            repository = checkouts.find(row.root)
            if repository is not None and repository.remote is not None:
                resolve(repository)
    return len(set(before) - set(store_rows.names_on_disk()))


def _adopted(older: str, repository: Repository, own: str) -> bool:
    """Whether a store without a remote is part of the remote's by now, or of whoever answers to the remote."""
    name = _for_remote(repository, own)
    if name == older:
        return True
    if apart.are(older, name):
        return False
    try:
        adoption.adopt(older, name, repository.remote or "")
    except (CofferError, OSError) as error:
        log.warning("a store could not be adopted from=%s to=%s error=%s", older, name, type(error).__name__)
        return False
    store_rows.carry(older, name)
    store_files.claim(name, {store_rows.project_id(older)})
    return True


def _for_remote(repository: Repository, own: str) -> str:
    """The store that a repository's memory from before its remote is to be part of."""
    holder = store_rows.holder(repository.project_id)
    return holder.name if holder is not None else own


def _is_anothers(store: str, repository: Repository) -> bool:
    """Whether a store belongs to another repository that stood at this path: without a remote the path alone is no
    proof. Nothing known of it counts as its own."""
    if checkouts.is_known(store, repository) or (repository.remote and store != path_name_of(repository)):
        return False
    rows = [row for row in checkouts.at(repository) if row.store == store]
    return bool(rows) and not any(checkouts.is_same(row, repository) for row in rows)


def _made_way(store: str, repository: Repository) -> str:
    """Give a store whose folder holds another repository now a name of its own, and say where it went."""
    row = next(row for row in checkouts.at(repository) if row.store == store)
    moved = next((one.root for one in checkouts.of(store) if checkouts.is_there(one) and one.root != row.root), "")
    label = "" if moved else f"{repository.root.name} before {date.today().isoformat()}"
    free = adoption.set_aside(store, moved or f"{row.root}\n{row.mark}", label)
    store_rows.carry(store, free)
    log.info("a store made way from=%s to=%s", store, free)
    return (
        f"Another repository stood in this folder before; its memory is kept in {free}. If this is the same project, "
        f"`coffer project move {free}` takes it over."
    )


def _own(own: str, plain: Why, repository: Repository) -> Resolved:
    """The store of its own identity; its origin may have changed since it got that name."""
    row = store_rows.find(own)
    if row is not None and repository.remote in row.former_remotes:
        return _through(row, repository)
    return Resolved(own, plain, row=row)


def _through(holder: Store, repository: Repository) -> Resolved:
    """A store that answers to a repository's identity without having its name."""
    shown = repository.remote
    if repository.project_id in holder.merged_identities:
        why: Why = "merged" if shown is not None else "former root"
        news = f"This folder's memory is part of {holder.name}: it was merged into it, or moved here."
    elif shown == holder.remote:
        why, news = "former remote", f"The origin became {shown}; {holder.name} goes on with its memory."
    else:
        why, news = "former remote", f"{shown} is a former origin of {holder.name}, which has its memory."
    return Resolved(holder.name, why, news if checkouts.is_news(holder.name, repository) else "", row=holder)


def _seen_before(repository: Repository) -> Resolved | None:
    """What this machine knows of the folder: that its origin changed, or that it moved here."""
    for row in checkouts.at(repository):
        if row.store != name_of(repository) and checkouts.is_same(row, repository):
            return _changed(row, repository)
    if rows := checkouts.moved(repository):
        there = next((row for row in rows if not checkouts.is_gone(row, repository)), None)
        return _changed(rows[0], repository) if there is None else _copied(there, repository)
    # Without its folder only a later state of its history is proof; what has an origin is found by that alone.
    for row in checkouts.lost()[:_MOST_ASKED] if repository.remote is None else ():
        if checkouts.is_same(row, repository):
            return _changed(row, repository)
    return None


def _changed(row: Checkout, repository: Repository) -> Resolved:
    """A known folder with another origin, or in another place: a rename, unless its store is in use as it was."""
    own = name_of(repository)
    store = store_rows.find(row.store)
    if store is None:
        return Resolved(own, "path" if repository.remote is None else "remote")
    if repository.remote is not None:
        if not store.remote and not row.remote:
            adopted = _adopted(store.name, repository, own)
            return Resolved(own if adopted else store.name, "remote" if adopted else "path")
        if others := checkouts.users(store.name, besides=repository):
            return Resolved(own, "remote", _fork(store, others[0], repository))
    try:
        _write_down(store.name, repository)
    except (CofferError, OSError) as error:
        log.warning("not written down store=%s error=%s", store.name, type(error).__name__)
    if row.root != checkouts.root_of(repository):
        return Resolved(store.name, "former root", f"This repository was at {row.root}; {store.name} has its memory.")
    if row.remote == (repository.remote or ""):
        return Resolved(store.name, "former root", f"This repository was here before; {store.name} has its memory.")
    was = row.remote or "no origin"
    now = repository.remote or "no origin"
    news = f"The origin of this folder was {was} and is {now}; {store.name} goes on with its memory."
    return Resolved(store.name, "former remote", news)


def _write_down(store: str, repository: Repository) -> None:
    """Let the store's file say what was recognised, so that it holds without the database, too."""
    if repository.remote is None:
        answer_to(store, repository.project_id, seconds=PATIENCE)
    else:
        remote = repository.remote
        store_files.change(store, lambda file: file.with_remote(remote), seconds=PATIENCE)
        store_files.claim(store, {repository.project_id})


def _fork(store: Store, other: Checkout, repository: Repository) -> str:
    return (
        f"This folder's memory was in {store.name}, which {other.root} still uses with another origin, so this looks "
        f"like a fork and begins a memory of its own. `coffer project move {store.name}` here joins them."
    )


def _copied(row: Checkout, repository: Repository) -> Resolved:
    news = (
        f"This looks like a copy of {row.root}, whose memory is in {row.store}; here begins one of its own. "
        f"`coffer project move {row.store}` here joins them."
    )
    return Resolved(name_of(repository), "path" if repository.remote is None else "remote", news)
