"""One repository told from another by its git folder, and by its history."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memory.files import git as repositories
from memory.files import lineage
from memory.files.git import Repository
from memory.files.lineage import History, Mark

Repos = Callable[..., Path]
Git = Callable[..., str]


@pytest.fixture
def known(tmp_path: Path, home: Path) -> Callable[[Path], Repository]:
    def known(path: Path) -> Repository:
        repository = repositories.find(path, tmp_path / "person", home)
        assert repository is not None
        return repository

    return known


Known = Callable[[Path], Repository]


def test_a_mark_survives_a_move_and_its_own_text(make_repo: Repos, known: Known) -> None:
    repo = make_repo("one")
    before = lineage.mark(known(repo))
    after = lineage.mark(known(repo.rename(repo.with_name("two"))))
    assert before == after == Mark.read(str(before))
    assert Mark.read("no mark").is_same(before) is None


def test_a_copy_with_its_times_has_the_mark_of_its_original_and_a_new_repository_has_not(
    make_repo: Repos, known: Known
) -> None:
    repo = make_repo("one")
    mark = lineage.mark(known(repo))
    copy = lineage.mark(known(Path(shutil.copytree(repo, repo.with_name("copy")))))
    assert copy != mark
    assert copy.is_same(mark)
    assert lineage.mark(known(make_repo("other"))).is_same(mark) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Mark(1, 2, 5_123_456_789), Mark(3, 4, 5_123_456_789), True),
        (Mark(1, 2, 5_123_456_789), Mark(3, 4, 5_000_000_000), True),  # copied by a program that keeps whole seconds
        (Mark(1, 2, 5_123_456_789), Mark(1, 2, 5_223_456_789), None),  # an inode is soon used again
        (Mark(1, 2, 0), Mark(1, 2, 0), True),
        (Mark(1, 2, 0), Mark(1, 3, 0), None),
    ],
)
def test_what_marks_alone_can_tell(one: Mark, other: Mark, same: bool | None) -> None:
    assert one.is_same(other) is other.is_same(one) is same


def test_a_git_folder_without_a_description_is_known_by_its_inode(make_repo: Repos, known: Known) -> None:
    repo = make_repo("one")
    (repo / ".git" / "description").unlink()
    mark = lineage.mark(known(repo))
    assert (mark.born, mark.inode) == (0, os.stat(repo / ".git").st_ino)


def test_only_a_later_commit_proves_a_history(make_repo: Repos, known: Known, git: Git) -> None:
    repo = make_repo("one")
    first = lineage.history(known(repo))
    assert first.roots == (first.head,)
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    second = lineage.history(known(repo))
    assert (second.roots, second.head != first.head) == (first.roots, True)
    clone = repo.with_name("clone")
    git(repo.parent, "clone", "-q", str(repo), str(clone))
    assert lineage.continues(known(clone), second)
    assert not lineage.continues(known(clone), first)
    assert not lineage.continues(known(make_repo("other")), second)
    assert not lineage.continues(known(clone), History())


def test_where_git_cannot_say_there_is_no_history(make_repo: Repos, known: Known, git: Git, tmp_path: Path) -> None:
    repo = make_repo("one")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth=1", repo.as_uri(), str(tmp_path / "shallow"))
    git(tmp_path, "init", "-q", str(tmp_path / "unborn"))
    assert lineage.history(known(tmp_path / "shallow")) == History()
    assert lineage.history(known(tmp_path / "unborn")) == History()
