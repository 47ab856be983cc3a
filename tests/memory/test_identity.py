"""A project keeps its memory when its folder moves or its origin changes; forks, copies and strangers get their own."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from coffer import db, later, paths
from memory.files import git as git_files
from memory.files import store_file
from memory.models import Checkout, Store
from memory.services import aliases, checkouts, facts, identity, recall, store_files, stores
from tests.factories import write_files

Repos = Callable[..., Path]
Git = Callable[..., str]
OLD, NEW = "https://git.example.org/acme/widget.git", "https://git.example.org/newco/widget.git"


def project(repo: Path) -> stores.Project:
    found = stores.locate(str(repo)).project
    assert found is not None
    return found


def store_of(repo: Path) -> str:
    return project(repo).store


def remember(repo: Path, text: str = "The okapi.") -> str:
    """A fact's id; what was learnt of the checkout is written before this returns."""
    saved = facts.remember(stores.for_writing(stores.locate(str(repo)), "project"), text, actor="agent").id
    later.flush()
    return saved


def recalled(repo: Path, query: str = "okapi") -> list[str]:
    return [hit.id for hit in recall.recall(stores.for_reading(stores.locate(str(repo)), "project"), query, top_k=20)]


def on_disk() -> list[str]:
    return sorted(f"project-{path.name}" for path in paths.projects().iterdir())


def file_of(name: str) -> store_file.StoreFile:
    return store_file.read(paths.store(name), name, name.removeprefix("project-"))


def lose_the_database() -> None:
    later.flush()
    connections.close_all()
    paths.database().unlink()
    db.prepare()


# --- an origin that changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["kept", "lost"])
def test_bc_086_a_changed_origin_keeps_its_store_and_the_reply_says_why(
    database: str, make_repo: Repos, git: Git
) -> None:
    repo = make_repo("widget", remote=OLD)
    saved = remember(repo)
    old = store_of(repo)
    git(repo, "remote", "set-url", "origin", NEW)
    found = project(repo)
    assert found.store == old
    assert "git.example.org/acme/widget" in found.note
    assert "git.example.org/newco/widget" in found.note
    assert found.as_dict()["note"] == found.note
    assert recalled(repo) == [saved]
    file = file_of(old)
    assert (file.remote, file.former_remotes) == ("git.example.org/newco/widget", ("git.example.org/acme/widget",))
    if database == "lost":
        lose_the_database()
    assert store_of(repo) == store_of(make_repo("elsewhere", remote=NEW)) == old
    assert store_of(make_repo("old clone", remote=OLD)) == old
    assert on_disk() == [old]


def test_a_plain_project_has_no_note(make_repo: Repos) -> None:
    for repo in (make_repo("a", remote=OLD), make_repo("b")):
        remember(repo)
        assert "note" not in project(repo).as_dict()


def test_a_renamed_project_is_told_for_a_day(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    remember(repo)
    git(repo, "remote", "set-url", "origin", NEW)
    remember(repo, "Another.")
    assert project(repo).note
    Checkout.objects.update(since="2026-01-01T00:00:00Z")
    assert project(repo).note == ""


def test_an_origin_that_is_in_use_in_another_checkout_is_a_fork(make_repo: Repos, git: Git) -> None:
    here, there = make_repo("here", remote=OLD), make_repo("there", remote=OLD)
    saved = remember(here)
    assert recalled(there) == [saved]
    later.flush()
    old = store_of(here)
    before = (paths.store(old) / "store.yaml").read_bytes()
    git(here, "remote", "set-url", "origin", NEW)
    found = project(here)
    assert found.store != old
    assert str(there) in found.note
    assert f"coffer project move {old}" in found.note
    assert on_disk() == [old]  # looking makes no store
    assert (paths.store(old) / "store.yaml").read_bytes() == before
    own = remember(here, "The okapi of the fork.")
    assert recalled(here) == [own]
    assert recalled(there) == [saved]
    assert project(here).note == ""  # it has a memory of its own now; the scan goes on proposing


def test_when_the_last_checkout_follows_the_rename_is_complete(make_repo: Repos, git: Git) -> None:
    here, there = make_repo("here", remote=OLD), make_repo("there", remote=OLD)
    saved = remember(here)
    stores.locate(str(there))
    later.flush()
    git(here, "remote", "set-url", "origin", NEW)
    assert recalled(here) == []
    git(there, "remote", "set-url", "origin", NEW)
    assert recalled(there) == [saved]
    assert recalled(here) == [saved]
    assert len(on_disk()) == 1


def test_two_projects_from_one_template_do_not_share_a_memory(make_repo: Repos, git: Git) -> None:
    template = "https://git.example.org/templates/base.git"
    first, second = make_repo("first", remote=template), make_repo("second", remote=template)
    saved = remember(first)
    later.flush()
    git(first, "remote", "set-url", "origin", "https://git.example.org/acme/first.git")
    assert recalled(first) == [saved]
    later.flush()
    git(second, "remote", "set-url", "origin", "https://git.example.org/acme/second.git")
    assert store_of(second) != store_of(first)
    assert recalled(second) == []
    assert file_of(store_of(first)).remote == "git.example.org/acme/first"


def test_an_origin_that_goes_and_another_that_comes(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    saved = remember(repo)
    old = store_of(repo)
    git(repo, "remote", "remove", "origin")
    assert (store_of(repo), recalled(repo)) == (old, [saved])
    later.flush()
    git(repo, "remote", "add", "origin", NEW)
    assert (store_of(repo), recalled(repo)) == (old, [saved])
    later.flush()
    git(repo, "remote", "set-url", "origin", OLD)
    assert (store_of(repo), recalled(repo)) == (old, [saved])
    assert on_disk() == [old]


def test_a_changed_origin_whose_store_is_there_already_goes_to_that(make_repo: Repos, git: Git) -> None:
    other = make_repo("other", remote=NEW)
    theirs = remember(other, "The okapi of the new one.")
    repo = make_repo("widget", remote=OLD)
    remember(repo)
    git(repo, "remote", "set-url", "origin", NEW)
    assert recalled(repo) == [theirs]
    assert len(on_disk()) == 2


def test_while_store_yaml_cannot_be_written_the_store_is_found_all_the_same(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget", remote=OLD)
    saved = remember(repo)
    old = store_of(repo)
    (paths.store(old) / "store.yaml").write_text("label: [\n")
    git(repo, "remote", "set-url", "origin", NEW)
    assert recalled(repo) == [saved]


# --- a folder that moves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["kept", "lost"])
def test_a_moved_folder_without_an_origin_keeps_its_store(database: str, make_repo: Repos) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    old = store_of(repo)
    moved = repo.rename(repo.with_name("gadget"))
    found = project(moved)
    assert (found.store, found.root) == (old, str(moved))
    assert str(repo) in found.note
    assert recalled(moved) == [saved]
    again = moved.rename(moved.with_name("third"))
    assert recalled(again) == [saved]
    if database == "lost":
        lose_the_database()
    assert recalled(again) == [saved]
    assert on_disk() == [old]


def test_a_folder_that_was_copied_with_its_times_and_then_removed_keeps_its_store(make_repo: Repos) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    copy = Path(shutil.copytree(repo, repo.with_name("copy")))
    found = project(copy)
    assert found.store != store_of(repo)
    assert f"copy of {repo}" in found.note
    assert recalled(copy) == []
    shutil.rmtree(repo)
    assert recalled(copy) == [saved]
    assert project(copy).note


def test_a_copy_that_has_a_memory_of_its_own_keeps_that(make_repo: Repos) -> None:
    repo = make_repo("widget")
    remember(repo)
    copy = Path(shutil.copytree(repo, repo.with_name("copy")))
    own = remember(copy, "The okapi of the copy.")
    shutil.rmtree(repo)
    assert recalled(copy) == [own]


def test_a_later_state_of_the_history_proves_a_move_without_its_git_folder(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    saved = remember(repo)
    clone = repo.with_name("clone")
    git(repo.parent, "clone", "-q", "--no-hardlinks", str(repo), str(clone))
    git(clone, "remote", "remove", "origin")
    assert recalled(clone) == []
    shutil.rmtree(repo)
    assert recalled(clone) == [saved]


@pytest.mark.parametrize("how", ["one commit", "another history", "shallow", "no commit"])
def test_a_common_beginning_alone_proves_nothing(how: str, make_repo: Repos, git: Git, tmp_path: Path) -> None:
    template = make_repo("template")
    git(template, "commit", "-q", "--allow-empty", "-m", "base")
    first, second = tmp_path / "work" / "first", tmp_path / "work" / "second"
    for path in (first, second):
        git(
            tmp_path,
            "clone",
            "-q",
            "--no-hardlinks",
            template.as_uri(),
            str(path),
            *(["--depth=1"] * (how == "shallow")),
        )
        git(path, "remote", "remove", "origin")
        git(path, "commit", "-q", "--allow-empty", "-m", f"of {path.name}")
    if how in ("one commit", "no commit"):
        shutil.rmtree(first / ".git")
        git(first, "init", "-q")
        if how == "one commit":
            git(first, "commit", "-q", "--allow-empty", "-m", "alone")
    remember(first)
    shutil.rmtree(first)
    assert recalled(second) == []
    assert store_of(second) == identity.name_of(repository(second))


def test_a_repository_without_a_commit_moves_too(git: Git, tmp_path: Path) -> None:
    repo = tmp_path / "unborn"
    git(tmp_path, "init", "-q", str(repo))
    saved = remember(repo)
    assert recalled(repo.rename(tmp_path / "moved")) == [saved]


def test_a_submodule_moves_with_its_parent_and_work_trees_with_their_main_one(
    make_repo: Repos, git: Git, tmp_path: Path
) -> None:
    core, outer = make_repo("core"), make_repo("outer")
    git(outer, "submodule", "add", "-q", str(core), "libs/core")
    git(outer / "libs" / "core", "remote", "remove", "origin")
    inner, whole = remember(outer / "libs" / "core", "The inner okapi."), remember(outer, "The outer okapi.")
    moved = outer.rename(outer.with_name("moved"))
    assert recalled(moved / "libs" / "core") == [inner]
    git(moved, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert recalled(tmp_path / "tree") == recalled(moved) == [whole]
    assert len(on_disk()) == 2


def test_a_folder_that_moves_and_gets_an_origin_at_once_is_adopted(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    moved = repo.rename(repo.with_name("gadget"))
    git(moved, "remote", "add", "origin", OLD)
    assert recalled(moved) == [saved]
    assert on_disk() == [store_of(make_repo("clone", remote=OLD))]


def test_a_folder_renamed_in_case_alone_is_the_same_on_every_disk(make_repo: Repos) -> None:
    repo = make_repo("Widget")
    saved = remember(repo)
    renamed = repo.rename(repo.with_name("widget"))
    assert recalled(renamed) == [saved]
    repo.symlink_to(renamed)  # a disk that ignores case finds the folder under both names
    Checkout.objects.filter(root=str(renamed)).delete()
    checkouts.forget()
    row = Checkout.objects.get(root=str(repo))
    assert checkouts.is_gone(row, repository(renamed))


# --- another repository in the same place -----------------------------------------------------------------------------


@pytest.mark.parametrize("remote", [None, OLD])
@pytest.mark.parametrize("now", [None, NEW])
def test_another_repository_in_the_same_folder_inherits_nothing(
    remote: str | None, now: str | None, make_repo: Repos, git: Git, api: Any
) -> None:
    repo = make_repo("widget", remote=remote)
    saved = remember(repo)
    old = store_of(repo)
    shutil.rmtree(repo)
    make_repo("widget", remote=now)
    assert recalled(repo) == []
    own = remember(repo, "The okapi of the other one.")
    assert recalled(repo) == [own]
    kept = [name for name in on_disk() if name != store_of(repo)]
    assert [facts.get(stores.get(name), saved).id for name in kept] == [saved]
    assert remote is None or kept == [old]
    if remote is None:
        assert stores.get(kept[0]).label.startswith("widget before ")
    lose_the_database()
    assert recalled(repo) == [own]


def test_what_made_way_is_named_and_can_be_taken_over(make_repo: Repos) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    shutil.rmtree(repo / ".git")
    make_repo("other").rename(repo.parent / "x")
    shutil.move(repo.parent / "x" / ".git", repo / ".git")
    found = project(repo)
    (kept,) = on_disk()
    assert kept in found.note
    assert found.store != kept
    assert aliases.assign(repository(repo), stores.get(kept)).how == "alias"
    assert recalled(repo) == [saved]
    lose_the_database()
    assert recalled(repo) == [saved]


def test_repositories_that_take_turns_in_one_folder_keep_their_memories(make_repo: Repos) -> None:
    """As projects do that are mounted in one place of a container."""
    work = make_repo("work")
    away = [work.with_name(name) for name in ("first", "second")]
    work.rename(away[0])
    make_repo("work").rename(away[1])
    saved: list[str] = []
    for turn in range(6):
        here = away[turn % 2].rename(work)
        if turn < 2:
            saved.append(remember(here, f"The okapi of {turn}."))
        assert "is no origin" not in project(here).note
        assert recalled(here) == [saved[turn % 2]], turn
        later.flush()
        here.rename(away[turn % 2])
    assert len(on_disk()) == 2


def test_a_new_repository_where_one_moved_away_from_begins_anew(make_repo: Repos) -> None:
    repo = make_repo("widget")
    saved = remember(repo)
    moved = repo.rename(repo.with_name("moved"))
    assert recalled(moved) == [saved]
    later.flush()
    make_repo("widget")
    assert recalled(repo) == []
    own = remember(repo, "The okapi of the new one.")
    assert (recalled(repo), recalled(moved)) == ([own], [saved])
    lose_the_database()
    assert (recalled(repo), recalled(moved)) == ([own], [saved])


def test_a_git_folder_made_anew_over_the_same_history_is_the_same_project(make_repo: Repos, git: Git) -> None:
    repo = make_repo("widget")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    saved = remember(repo)
    clone = repo.with_name("clone")
    git(repo.parent, "clone", "-q", str(repo), str(clone))
    git(clone, "remote", "remove", "origin")
    shutil.rmtree(repo)
    clone.rename(repo)
    assert recalled(repo) == [saved]


# --- aliases ----------------------------------------------------------------------------------------------------------


def test_an_older_store_is_adopted_by_whoever_answers_to_its_remote(make_repo: Repos, git: Git) -> None:
    survivor = remember(make_repo("survivor", remote=NEW), "The okapi of the survivor.")
    name = on_disk()[0]
    repo = make_repo("widget")
    saved = remember(repo)
    git(repo, "remote", "add", "origin", OLD)
    merged = identity.name_of(repository(repo)).removeprefix("project-")
    identity.answer_to(name, merged)
    assert sorted(recalled(repo)) == sorted([saved, survivor])
    assert on_disk() == [name]  # the merged identity is not provisioned again
    assert merged in file_of(name).merged_identities


def test_start_up_adopts_what_it_can_see_and_honours_aliases(make_repo: Repos, git: Git) -> None:
    remember(make_repo("survivor", remote=NEW))
    name = on_disk()[0]
    repo = make_repo("widget")
    remember(repo)
    git(repo, "remote", "add", "origin", OLD)
    identity.answer_to(name, identity.name_of(repository(repo)).removeprefix("project-"))
    stores.rebuild()
    assert on_disk() == [name]


def test_one_store_answers_to_an_identity_and_cycles_lead_nowhere(make_repo: Repos) -> None:
    first, second = make_repo("first", remote=OLD), make_repo("second", remote=NEW)
    remember(first), remember(second)
    one, two = store_of(first), store_of(second)
    identity.answer_to(one, "0" * 25 + "9")
    identity.answer_to(two, "0" * 25 + "9")
    assert file_of(one).merged_identities == ()
    assert file_of(two).merged_identities == ("0" * 25 + "9",)
    for name, other in ((one, two), (two, one)):  # written by hand: each claims the other
        file = file_of(name).with_(merged_identities=(other.removeprefix("project-"),))
        (paths.store(name) / "store.yaml").write_bytes(store_file.dump(file))
    assert (store_of(first), store_of(second)) == (one, two)


def test_a_former_origin_written_by_hand_leads_to_its_store(make_repo: Repos) -> None:
    repo = make_repo("widget", remote=NEW)
    saved = remember(repo)
    name = store_of(repo)
    store_files.change(name, lambda file: file.with_(former_remotes=("git.example.org/acme/widget",)))
    assert recalled(make_repo("old", remote=OLD)) == [saved]


def test_a_folder_of_a_merged_identity_that_is_there_again_is_its_own(make_repo: Repos) -> None:
    repo, other = make_repo("widget", remote=OLD), make_repo("other", remote=NEW)
    remember(repo), remember(other)
    identity_of_it = store_of(repo).removeprefix("project-")
    store_files.change(store_of(other), lambda file: file.with_alias(identity_of_it))
    assert store_of(repo) == f"project-{identity_of_it}"


@pytest.mark.parametrize("gone", ["before it is looked up", "between looking up and writing"])
def test_a_writer_follows_the_store_that_was_merged_meanwhile(gone: str, make_repo: Repos) -> None:
    repo, other = make_repo("widget", remote=OLD), make_repo("other", remote=NEW)
    remember(repo), remember(other)
    place = stores.locate(str(repo))
    store = stores.for_writing(place, "project")
    survivor, mine = store_of(other), store.name
    store_files.change(survivor, lambda file: file.with_alias(store.project_id))
    shutil.move(paths.store(mine), paths.home() / "away")
    if gone == "before it is looked up":
        store = stores.for_writing(place, "project")
    saved = facts.remember(store, "Said in the middle.", actor="agent")
    assert saved.path.is_relative_to(paths.store(survivor))
    assert saved.indexed
    assert store.name == survivor
    assert on_disk() == [survivor]
    assert recalled(repo, "middle") == [saved.id]


def test_a_name_that_was_merged_is_no_store_and_the_error_names_its_survivor(make_repo: Repos, api: Any) -> None:
    repo, other = make_repo("widget", remote=OLD), make_repo("other", remote=NEW)
    remember(repo), remember(other)
    mine, survivor = store_of(repo), store_of(other)
    store_files.change(survivor, lambda file: file.with_alias(mine.removeprefix("project-")))
    shutil.move(paths.store(mine), paths.home() / "away")
    answer = api.get(f"/memory_stores/{mine}")
    assert (answer.status_code, answer.json()["error"]["details"]["survivor"]) == (404, survivor)
    posted = api.post(f"/memory_stores/{mine}/facts", {"text": "Posted."}).json()
    assert Path(posted["path"]).is_relative_to(paths.store(survivor))
    assert on_disk() == [survivor]


# --- cost -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the git processes from now on."""
    real, log = shutil.which("git"), tmp_path / "git-calls"
    write_files(tmp_path / "bin", {"git": f'#!/bin/sh\necho x >> {log}\nexec {real} "$@"\n'})
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return lambda: len(log.read_text().split()) if log.exists() else 0


@pytest.mark.parametrize("kind", ["origin", "path", "work tree", "renamed", "moved"])
def test_a_known_folder_costs_one_process_and_then_none(
    kind: str, make_repo: Repos, git: Git, processes: Callable[[], int]
) -> None:
    repo = make_repo("widget", remote=None if kind in ("path", "moved") else OLD)
    remember(repo)
    if kind == "renamed":
        git(repo, "remote", "set-url", "origin", NEW)
    if kind == "moved":
        repo = repo.rename(repo.with_name("gadget"))
    if kind == "work tree":
        git(repo, "worktree", "add", "-q", str(repo.with_name("tree")))
        repo = repo.with_name("tree")
    stores.locate(str(repo))
    later.flush()
    git_files._cache.clear()  # as in a process that was just started
    checkouts.forget()
    before = processes()
    stores.locate(str(repo))
    later.flush()
    assert processes() - before == 1
    for _ in range(3):
        stores.locate(str(repo))
        remember(repo, "Another.")
    assert processes() - before == 1


def test_a_lost_database_learns_the_places_again(make_repo: Repos) -> None:
    repo = make_repo("widget")
    remember(repo)
    lose_the_database()
    assert Checkout.objects.count() == 0
    stores.locate(str(repo))
    later.flush()
    assert Checkout.objects.get().root == str(repo)
    assert Store.objects.get().project_root == str(repo)
    moved = repo.rename(repo.with_name("gadget"))
    assert len(recalled(moved)) == 1


def repository(path: Path) -> git_files.Repository:
    found = checkouts.find(str(path))
    assert found is not None
    return found
