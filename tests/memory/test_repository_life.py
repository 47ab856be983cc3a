"""The life of one repository, from its first note to the end of a merge: nothing that was remembered is ever lost."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import connections

from coffer import db, later, paths
from memory.services import facts, handoff, journal, merge, merge_scan, merge_undo, recall, stores

Repos = Callable[..., Path]
Git = Callable[..., str]
FIRST, RENAMED = "https://git.example.org/acme/widget.git", "git@git.example.org:newco/gadget.git"


class Life:
    """What was remembered so far, from wherever."""

    def __init__(self) -> None:
        self.facts: list[str] = []

    def remember(self, place: Path) -> str:
        """Remember one more fact in a folder; the name of its store."""
        text = f"The okapi number {len(self.facts)} is remembered in {place.name}."
        store = stores.for_writing(stores.locate(str(place)), "project")
        self.facts.append(facts.remember(store, text, actor="agent").id)
        later.flush()
        return store.name

    def is_whole(self, *places: Path) -> None:
        """Every fact is recalled and listed from each of the folders, once."""
        for place in places:
            found = stores.for_reading(stores.locate(str(place)), "project")
            hits = [hit.id for hit in recall.recall(found, "okapi", top_k=20)]
            assert sorted(hits) == sorted(self.facts), place
            assert sorted(fact.id for fact in facts.newest(found)[0]) == sorted(self.facts), place
        later.flush()


def on_disk() -> list[str]:
    return sorted(f"project-{path.name}" for path in paths.projects().iterdir())


@contextmanager
def second_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another machine, as far as Coffer can tell."""
    first = os.environ["COFFER_HOME"]
    later.flush()
    connections.close_all()
    monkeypatch.setenv("COFFER_HOME", str(tmp_path / "second"))
    monkeypatch.setitem(connections.settings["default"], "NAME", str(tmp_path / "second" / "coffer.sqlite3"))
    db.prepare()
    try:
        yield
    finally:
        later.flush()
        connections.close_all()
        monkeypatch.setenv("COFFER_HOME", first)
        monkeypatch.setitem(connections.settings["default"], "NAME", f"{first}/coffer.sqlite3")


def test_a_repository_keeps_its_memory_through_all_its_life(
    make_repo: Repos, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life()

    # It begins with a path alone, then gets a remote.
    repo = make_repo("widget")
    begun = life.remember(repo)
    handoff.save(stores.locate(str(repo)), "The scene of the beginning.")
    git(repo, "remote", "add", "origin", FIRST)
    first = life.remember(repo)
    assert (first != begun, on_disk()) == (True, [first])
    life.is_whole(repo)

    # The remote is renamed, the folder moved, a work tree added.
    git(repo, "remote", "set-url", "origin", RENAMED)
    assert life.remember(repo) == first
    repo = repo.rename(repo.with_name("gadget"))
    assert life.remember(repo) == first
    tree = tmp_path / "tree"
    git(repo, "worktree", "add", "-q", str(tree), "-b", "feature")
    assert life.remember(tree) == first
    life.is_whole(repo, tree)
    assert handoff.resume(stores.locate(str(repo))).body == "The scene of the beginning."

    # On another machine a clone of the new address begins with the memory folder as it was brought there.
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repo), str(clone))
    git(clone, "remote", "set-url", "origin", RENAMED)
    brought = {
        path.relative_to(paths.memory()): path.read_bytes() for path in paths.memory().rglob("*") if path.is_file()
    }
    with second_home(tmp_path, monkeypatch):
        for relative, data in brought.items():
            place = paths.memory() / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        life.is_whole(clone)
        assert stores.locate(str(clone)).project.store == first  # type: ignore[union-attr]

    # A duplicate: somebody worked for a while in a copy of the old address that nobody knew.
    old = tmp_path / "old"
    git(tmp_path, "clone", "-q", str(repo), str(old))
    git(old, "remote", "remove", "origin")
    duplicate = life.remember(old)
    journal.append(stores.get(duplicate), "Worked in the copy.", agent="codex")
    assert duplicate != first
    assert set(on_disk()) == {first, duplicate}

    # Both folders say the same origin in the end: the scan finds the pair before the copy is adopted.
    git(old, "remote", "add", "origin", RENAMED)
    (proposal,) = merge_scan.scan().proposals
    assert {proposal.source, proposal.target} == {first, duplicate}
    assert (proposal.confidence, proposal.target) == ("certain", first)

    # Merged, taken back, merged again.
    merge.merge(proposal.source, proposal.target)
    life.is_whole(repo, tree, old)
    merge_undo.undo(proposal.source)
    assert set(on_disk()) == {first, duplicate}
    assert [one.text for one in journal.recent(stores.get(duplicate), 5)] == ["Worked in the copy."]
    merge.merge(proposal.source, proposal.target)
    life.remember(old)
    life.is_whole(repo, tree, old)
    assert on_disk() == [first]

    # And nothing of it hangs on the database.
    connections.close_all()
    paths.database().unlink()
    db.prepare()
    life.is_whole(repo, tree, old, clone)
    assert on_disk() == [first]
    assert [one.text for one in journal.recent(stores.get(first), 5)] == ["Worked in the copy."]
