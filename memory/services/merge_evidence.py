"""What says that two stores are one project without asking an engine: origins, aliases, and folders of this machine.

Every root is asked for its origin once; the rest stands in the stores' files and in what was seen of checkouts.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from coffer.errors import ScopeUnresolved
from memory.files.store_file import identity_of
from memory.models import Checkout, Store
from memory.services import checkouts, store_rows

Confidence = Literal["certain", "likely", "possible"]
JudgedBy = Literal["remote", "checkout"]


@dataclass(frozen=True)
class Side:
    """One store as the scan sees it: its row, a folder of it that is there now, that folder's origin, and the first
    commits that were seen of it."""

    store: Store
    root: str = ""
    origin: str = ""
    commits: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.store.name

    @property
    def origins(self) -> set[str]:
        """Its origins of today."""
        return {one for one in (self.origin, self.store.remote) if one}


@dataclass(frozen=True)
class Link:
    """Two stores that may be one project, and why."""

    one: Side
    other: Side
    confidence: Confidence
    judged_by: JudgedBy
    reason: str

    @property
    def key(self) -> tuple[str, str]:
        return key_of(self.one, self.other)


def sides() -> list[Side]:
    """Every project store, with a folder of it that is there and the origin it has now."""
    seen: dict[str, list[Checkout]] = {}
    owners: dict[tuple[str, str], str] = {}
    for place in Checkout.objects.order_by("since"):
        seen.setdefault(place.store, []).insert(0, place)
        owners[place.root, place.remote] = place.store
    rows = [row for row in store_rows.current() if row.name != store_rows.GLOBAL]
    return [_side(row, seen.get(row.name, []), owners) for row in rows]


def links(found: list[Side]) -> list[Link]:
    """Each pair that something speaks for, once, with the strongest of it."""
    strongest: dict[tuple[str, str], Link] = {}
    by_name = {side.name: side for side in found}
    for link in (*_by_origin(found), *_by_alias(found), *_by_former_origin(found), *_by_host(found), *_seen(by_name)):
        strongest.setdefault(link.key, link)
    return list(strongest.values())


def seen() -> list[Link]:
    """Pairs that folders of this machine speak for; asks neither git nor the disk for more than that they exist."""
    return list(_seen({row.name: Side(row, row.project_root) for row in store_rows.current()}))


def key_of(one: Side, other: Side) -> tuple[str, str]:
    first, second = sorted((one.name, other.name))
    return first, second


def _side(row: Store, places: list[Checkout], owners: dict[tuple[str, str], str]) -> Side:
    """A store with the first of its folders that is there and, with the origin it has now, no other store's."""
    commits = frozenset(commit for place in places for commit in place.roots)
    for root in dict.fromkeys([row.project_root, *(place.root for place in places)]):
        if not root or not os.path.isdir(root):
            continue
        try:
            repository = checkouts.find(root)
        except ScopeUnresolved:
            continue
        if repository is None or checkouts.root_of(repository) != root:
            continue
        if owners.get((root, repository.remote or ""), row.name) == row.name:
            return Side(row, root, repository.remote or "", commits)
    return Side(row, commits=commits)


def _by_origin(found: list[Side]) -> Iterator[Link]:
    for origin, group in _users(found).items():
        for one, other in combinations(group, 2):
            yield Link(one, other, "certain", "remote", f"Both have the origin {origin}.")
    by_id = {side.store.project_id: side for side in found}
    for side in found:
        for origin in sorted(side.origins):
            other = by_id.get(identity_of(origin), side)
            if other is not side:
                yield Link(side, other, "certain", "remote", f"{other.name} is the store of the origin {origin}.")


def _by_alias(found: list[Side]) -> Iterator[Link]:
    """Stores that came back, from a backup or another machine, after they were merged."""
    by_id = {side.store.project_id: side for side in found}
    for side in found:
        for identity in side.store.merged_identities:
            back = by_id.get(identity, side)
            if back is not side:
                reason = f"{side.name} answers to the identity of {back.name}, which is there again."
                yield Link(side, back, "certain", "remote", reason)


def _by_former_origin(found: list[Side]) -> Iterator[Link]:
    users = _users(found)
    for side in found:
        for former in side.store.former_remotes:
            for other in users.get(former, []):
                if other is not side:
                    reason = f"The origin of {other.name}, {former}, was the one of {side.name} before."
                    yield Link(side, other, "likely", "remote", reason)


def _by_host(found: list[Side]) -> Iterator[Link]:
    """Origins that differ only in the host, one of which looks like an alias of the other (BC-084)."""
    by_path: dict[str, list[tuple[str, Side]]] = {}
    for side in found:
        for origin in sorted(side.origins):
            host, _, path = origin.partition("/")
            by_path.setdefault(path, []).append((host, side))
    for path, users in by_path.items():
        for (host, one), (alias, other) in combinations(sorted(users, key=lambda user: len(user[0])), 2):
            if one is not other and alias.startswith((f"{host}-", f"{host}_")):
                reason = f"{alias}/{path} looks like {host}/{path} under an alias of ssh."
                yield Link(one, other, "possible", "remote", reason)


def _seen(by_name: dict[str, Side]) -> Iterator[Link]:
    """Stores of one git folder whose origin changed, or that was copied."""
    for first, second in checkouts.shared():
        one, other = by_name.get(first.store), by_name.get(second.store)
        if one is None or other is None:
            continue
        if first.root == second.root:
            was, now = first.remote or "none", second.remote or "none"
            reason = f"The origin of {second.root} was {was} ({one.name}) and became {now} ({other.name})."
            yield Link(one, other, "likely", "checkout", reason)
        else:
            reason = f"{second.root} ({other.name}) is a copy of {first.root} ({one.name})."
            yield Link(one, other, "possible", "checkout", reason)


def _users(found: list[Side]) -> dict[str, list[Side]]:
    users: dict[str, list[Side]] = {}
    for side in found:
        for origin in sorted(side.origins):
            users.setdefault(origin, []).append(side)
    return users
