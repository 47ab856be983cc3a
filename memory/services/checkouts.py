"""Where on this machine projects were seen, so that a moved folder and a changed origin are recognised.

A row says that a root with this origin belonged to that store. The rows are evidence, never the truth: a lost database
learns them again, and what must hold on every machine stands in ``store.yaml``.
"""

import os
import threading
from collections.abc import Iterable
from datetime import timedelta
from itertools import combinations
from pathlib import Path

from django.db import DatabaseError, transaction
from django.utils import timezone

from coffer import db, later, paths
from coffer.errors import ScopeUnresolved
from memory.files import git, lineage, markdown
from memory.files.git import Repository
from memory.files.lineage import History, Mark
from memory.models import Checkout, Store
from memory.services import store_rows

NEWS = timedelta(days=1)  # how long a reply tells that a folder's store was found by another way than its identity
_KEPT = 20  # places of one store that are gone
_learnt: set[tuple[str, ...]] = set()  # what this process knows to stand in the database
_unlike: set[tuple[str, ...]] = set()  # a repository and an earlier one that git has told apart
_lock = threading.Lock()


def learn(store: Store, repository: Repository) -> None:
    """Remember where this project was seen, without waiting; git tells its history later, in another thread."""
    root, mark = root_of(repository), str(lineage.mark(repository))
    _note_root(store, root)
    key = _key(store.name, repository)
    if store.pk is None or key in _learnt:
        return

    def write() -> None:
        if _write(store.name, root, repository.remote or "", mark):
            transaction.on_commit(lambda: later.write(lambda: _write_history(repository, root, mark)))
        with _lock:
            _learnt.add(key)

    store_rows.now_or_later(write, seconds=0.0)


def unlearn(store: Store, identity: str) -> None:
    """Forget the places that led to a store by an identity which it answers to no longer."""
    places = of(store.name)
    gone = [row for row in places if _identity(row) == identity]
    rest = [row.root for row in places if row not in gone]
    last = rest[0] if rest else ""

    def write() -> None:
        Checkout.objects.filter(pk__in=[row.pk for row in gone]).delete()
        left = [row.root for row in gone if row.root not in rest]
        Store.objects.filter(name=store.name, project_root__in=left).update(project_root=last)

    store_rows.now_or_later(write)
    with _lock:
        _learnt.clear()


def at(repository: Repository) -> list[Checkout]:
    """What was seen at a repository's root, whatever its origin was, the latest first."""
    return _live(Checkout.objects.filter(root=root_of(repository)).order_by("-since"))


def moved(repository: Repository) -> list[Checkout]:
    """What was seen at other places of a repository's own git folder, the latest first."""
    second = lineage.mark(repository).born // lineage.SECOND * lineage.SECOND
    rows = (
        Checkout.objects.filter(born__range=(second, second + lineage.SECOND - 1))
        if second
        else Checkout.objects.none()
    )
    elsewhere = _live(rows.exclude(root=root_of(repository)).order_by("-since"))
    return [row for row in elsewhere if is_same_folder(row, repository)]


def lost() -> list[Checkout]:
    """Places without an origin whose folder has gone and whose history is known, the latest first."""
    rows = Checkout.objects.filter(remote="").exclude(head="").order_by("-since")
    gone = [pk for pk, root in rows.values_list("pk", "root") if not os.path.isdir(root)]
    return _live(rows.filter(pk__in=gone)) if gone else []


def of(store: str) -> list[Checkout]:
    """The places of a store, the latest first."""
    return list(Checkout.objects.filter(store=store).order_by("-since"))


def is_known(store: str, repository: Repository) -> bool:
    """Whether this process has learnt this very repository as the store's; costs no query."""
    return _key(store, repository) in _learnt


def is_same_folder(row: Checkout, repository: Repository) -> bool:
    """Whether a repository has the git folder of a row, moved or copied."""
    return Mark.read(row.mark).is_same(lineage.mark(repository)) is True


def is_same(row: Checkout, repository: Repository) -> bool:
    """Whether a repository is the one of a row: the same git folder, moved or not, or a later state of its history."""
    if is_same_folder(row, repository):
        return True
    if not row.head:
        return False
    key = (row.head, str(repository.git_dir), str(lineage.mark(repository)))
    if key in _unlike:
        return False
    if lineage.continues(repository, History(tuple(row.roots), row.head)):
        return True
    with _lock:
        _unlike.add(key)
    return False


def is_gone(row: Checkout, repository: Repository) -> bool:
    """Whether nothing of a row's checkout is left where it was: the folder went, is the repository's own under another
    spelling, or holds another repository now."""
    if not os.path.isdir(row.root):
        return True
    try:
        if os.path.samefile(row.root, repository.root):
            return True
        there = find(row.root)
    except (OSError, ScopeUnresolved):
        return False
    return there is None or root_of(there) != row.root or not is_same(row, there)


def is_there(row: Checkout) -> bool:
    """Whether a row's checkout is still where it was seen."""
    if not os.path.isdir(row.root):
        return False
    try:
        there = find(row.root)
    except ScopeUnresolved:
        return False
    return there is not None and is_same(row, there)


def find(root: str) -> Repository | None:
    """The repository at a root now. Raises ScopeUnresolved."""
    return git.find(root, Path.home(), paths.home())


def users(store: str, *, besides: Repository) -> list[Checkout]:
    """Places of a store where its repository still is and has another origin than ``besides`` has now."""
    found = []
    for row in of(store):
        if row.root == root_of(besides) or is_gone(row, besides):
            continue
        there = find(row.root)
        if there is not None and there.remote not in (None, besides.remote):
            found.append(row)
    return found


def shared() -> list[tuple[Checkout, Checkout]]:
    """Pairs of places that belong to different stores and were one git folder: its origin changed, or it was copied."""
    by_folder: dict[int, list[Checkout]] = {}
    for row in _live(Checkout.objects.exclude(born=0).order_by("since")):
        by_folder.setdefault(row.born, []).append(row)
    pairs: dict[tuple[str, ...], tuple[Checkout, Checkout]] = {}
    for rows in by_folder.values():
        for first, second in combinations(rows, 2):
            if first.store != second.store:
                pairs.setdefault(tuple(sorted((first.store, second.store))), (first, second))
    return list(pairs.values())


def is_news(store: str, repository: Repository) -> bool:
    """Whether a folder has belonged to a store for less than a day, as far as is known."""
    rows = Checkout.objects.filter(store=store, root=root_of(repository), remote=repository.remote or "")
    since = rows.order_by("-since").values_list("since", flat=True).first()
    return since is None or timezone.now() - since < NEWS


def root_of(repository: Repository) -> str:
    """A root as a text column takes it: a folder's name may hold bytes that are no text."""
    return markdown.clean(str(repository.root))


def forget() -> None:
    """Trust nothing that this process has learnt: the database under it is another one."""
    with _lock:
        _learnt.clear()
        _unlike.clear()


def _identity(row: Checkout) -> str:
    """The identity of a place on its own (FR-004a)."""
    return git.project_id(f"remote:{row.remote}" if row.remote else row.root)


def _note_root(store: Store, root: str) -> None:
    """The place that a store is shown by: the first, for as long as it is there, so that its name stays."""
    stands = store.project_root == root or (store.project_root and os.path.isdir(store.project_root))
    if store.pk is not None and not stands:
        store.project_root = root
        rows = Store.objects.filter(pk=store.pk, name=store.name)
        store_rows.now_or_later(lambda: rows.update(project_root=root), seconds=0.0)


def _write(store: str, root: str, remote: str, mark: str) -> bool:
    """Bring one row up to date; whether git is to be asked for its history."""
    values = {"store": store, "born": Mark.read(mark).born}
    row, made = Checkout.objects.get_or_create(root=root, remote=remote, mark=mark, defaults=values)
    if not made and row.store != store:
        row.store, row.since = store, timezone.now()
        row.save()
    if made:
        old = Checkout.objects.filter(store=store).order_by("-since")[_KEPT:]
        Checkout.objects.filter(pk__in=[one.pk for one in old if not os.path.isdir(one.root)]).delete()
    return not row.head


def _write_history(repository: Repository, root: str, mark: str) -> None:
    known = lineage.history(repository)
    if known.head:
        rows = Checkout.objects.filter(root=root, remote=repository.remote or "", mark=mark)
        rows.update(roots=list(known.roots), head=known.head)


def _live(rows: Iterable[Checkout]) -> list[Checkout]:
    """Rows whose store is there."""
    try:
        return [row for row in rows if paths.store(row.store).is_dir()]
    except DatabaseError as error:
        if db.damaged(error):
            raise
        return []


def _key(store: str, repository: Repository) -> tuple[str, ...]:
    """What a row stands for here and now: its database and its store's folder may be others under the same names."""
    inodes = [_inode(paths.database()), _inode(paths.store(store))]
    mark = str(lineage.mark(repository))
    return *inodes, str(paths.store(store)), root_of(repository), repository.remote or "", mark


def _inode(path: Path) -> str:
    try:
        return str(path.stat().st_ino)
    except OSError:
        return ""
