"""The identities that a store answers to, as a person sees and changes them: origins, merged ids, folders."""

import os
from dataclasses import dataclass
from typing import Literal

from coffer.errors import Conflict, Invalid, NotFound
from memory.files import ulid
from memory.files.git import Repository
from memory.files.remotes import normalise_remote
from memory.files.store_file import identity_of
from memory.models import Store
from memory.services import (
    adoption,
    checkouts,
    identity,
    merge,
    merge_record,
    merge_undo,
    store_files,
    store_rows,
    trail,
)
from memory.services import stores as store_service

Kind = Literal["own", "origin", "former origin", "merged", "folder"]


@dataclass(frozen=True)
class Alias:
    """One way by which a store is found."""

    kind: Kind
    value: str


@dataclass(frozen=True)
class Assigned:
    """How a folder came to a store: it was there, by one more identity, or its own store was merged; and from where."""

    store: str
    how: Literal["nothing", "alias", "merge"]
    before: str


def listing(store: Store) -> list[Alias]:
    """Every identity of a store and every folder where it was seen."""
    found = [Alias("own", store.project_id)]
    found += [Alias("origin", store.remote)] if store.remote else []
    found += [Alias("former origin", remote) for remote in store.former_remotes]
    found += [Alias("merged", one) for one in store.merged_identities]
    roots = dict.fromkeys([store.project_root, *(row.root for row in checkouts.of(store.name))])
    return [*found, *(Alias("folder", root) for root in roots if root)]


def add(store: Store, what: str, *, actor: str = "user", dry_run: bool = False) -> str:
    """Let a store answer to an id, an origin's URL or a folder; returns the id. Another store stops answering to it.

    Raises Invalid, and Conflict for an identity that has a store of its own.
    """
    _check(store)
    one = identity_in(what)
    if one == store.project_id:
        raise Invalid(f"{store.name} has this identity itself.")
    if one == store_rows.GLOBAL_ID:
        raise Invalid("The global store belongs to no project, and no project answers for it.")
    own = f"project-{one}"
    if store_rows.find(own) is not None:
        raise Conflict(f"{own} has memory of its own; `coffer merge {own} {store.name}` joins both.", store=own)
    if not dry_run:
        identity.answer_to(store.name, one)
        trail.record("alias_added", store=store.name, ref=one, actor=actor)
    return one


def remove(store: Store, what: str, *, actor: str = "user", dry_run: bool = False) -> str:
    """Let a store answer to an identity no longer; returns the id. A store whose origin changed may give up the one
    that it is named after, and is then named after the new one. Raises Invalid, NotFound, Conflict."""
    _check(store)
    one = identity_in(what)
    if one == store.project_id and store.remote and identity_of(store.remote) != one:
        return one if dry_run else _renamed(store, one, actor)
    if one == store.project_id:
        raise Invalid(f"{store.name} is named after {one}; `coffer project move` gives a folder another store.")
    if one not in store_rows.answers(store):
        raise NotFound(f"{store.name} does not answer to {one}; `coffer project alias list {store.name}` shows them.")
    if not dry_run:
        store_files.change(store.name, lambda file: file.without({one}))
        checkouts.unlearn(store, one)
        trail.record("alias_removed", store=store.name, ref=one, actor=actor)
    return one


def assign(repository: Repository, target: Store, *, actor: str = "user", dry_run: bool = False) -> Assigned:
    """Make a folder's memory part of a store: merged when it has one of its own, else by one more identity."""
    _check(target)
    own, before = identity.name_of(repository), identity.resolve(repository).store
    if before == target.name:
        return Assigned(target.name, "nothing", before)
    if store_rows.find(own) is not None:
        if not dry_run:
            merge.merge(own, target.name, organize=False, actor=actor)
        return Assigned(target.name, "merge", own)
    if not dry_run:
        identity.answer_to(target.name, repository.project_id)
        checkouts.learn(target, repository)
        trail.record("alias_added", store=target.name, ref=repository.project_id, actor=actor)
    return Assigned(target.name, "alias", before)


def release(repository: Repository, *, actor: str = "user", dry_run: bool = False) -> Assigned:
    """Take an assignment back: a merge of the folder's own store is undone, else its identity is its own again."""
    own = identity.name_of(repository)
    holder = store_rows.holder(repository.project_id)
    if holder is None:
        raise NotFound("This folder was not assigned to another store; there is nothing to take back.")
    if any(merge_record.retired(lambda about: (about.source, about.target) == (own, holder.name))):
        if not dry_run:
            merge_undo.undo(own, actor=actor)
        return Assigned(own, "merge", holder.name)
    remove(holder, repository.project_id, actor=actor, dry_run=dry_run)
    return Assigned(own, "alias", holder.name)


def identity_in(what: str) -> str:
    """The id that an id, a store's name, an origin's URL or a folder stands for. Raises Invalid."""
    if ulid.is_ulid(what.removeprefix("project-")):
        return what.removeprefix("project-")
    if os.path.isdir(what):
        repository = store_service.repository_at(what)
        return repository.project_id
    remote = normalise_remote(what) or (normalise_remote(f"https://{what}") if "://" not in what else None)
    if remote is None:
        raise Invalid("Say a 26-character id, the URL of an origin, or a folder inside a git work tree.")
    return identity_of(remote)


def _renamed(store: Store, one: str, actor: str) -> str:
    name = f"project-{identity_of(store.remote)}"
    if store_rows.find(name) is not None:
        raise Conflict(f"{name} is there already; `coffer merge {store.name} {name}` joins both.", store=name)
    adoption.set_aside(store.name, f"remote:{store.remote}", "")
    store_rows.carry(store.name, name)
    store_files.change(name, lambda file: file.without({one}))
    trail.record("alias_removed", store=name, ref=one, actor=actor)
    return one


def _check(store: Store) -> None:
    if store.name == store_rows.GLOBAL:
        raise Invalid("The global store belongs to no project.")
