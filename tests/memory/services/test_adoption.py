"""A store from before the remote becomes part of the store that the remote names."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connections

from coffer import fs, later, paths
from memory.files import markdown, store_file
from memory.models import Document, Store, Use
from memory.services import archive, facts, handoff, recall, stores
from tests.cases.steps import fingerprint, foreign_lock
from tests.factories import write_files

Git = Callable[..., str]
REMOTE = "https://git.example.org/acme/widget.git"


@pytest.fixture
def repo(make_repo: Callable[..., Path]) -> Path:
    return make_repo("later")


def store_at(repo: Path) -> Store:
    return stores.for_writing(stores.locate(str(repo)), "project")


def ids(repo: Path) -> set[str]:
    found, total = facts.newest(stores.for_reading(stores.locate(str(repo)), "project"), limit=100_000)
    assert total == len(found)
    return {fact.id for fact in found}


def file_of(name: str) -> store_file.StoreFile:
    return store_file.read(paths.store(name), name, name.removeprefix("project-"))


def names() -> list[str]:
    return sorted(f"project-{path.name}" for path in paths.projects().iterdir())


def test_a_store_alone_is_renamed_with_everything_it_has(repo: Path, git: Git) -> None:
    older = stores.set_label(store_at(repo), "My label")
    stores.configure(older, {"max_fact_chars": 99})
    fact = facts.remember(older, "The okapi.", actor="agent")
    handoff.save(stores.locate(str(repo)), "The scene.")
    write_files(stores.folder(older), {"notes.txt": "mine", "rules/rules.md": "- a rule\n"})
    recall.recall([older], "okapi")
    later.flush()
    before = fingerprint(stores.folder(older))
    git(repo, "remote", "add", "origin", REMOTE)
    store = store_at(repo)
    assert names() == [store.name]
    assert ids(repo) == {fact.id}
    assert handoff.resume(stores.locate(str(repo))).body == "The scene."
    file = file_of(store.name)
    assert (file.label, file.config, file.remote) == ("My label", {"max_fact_chars": 99}, "git.example.org/acme/widget")
    assert file.merged_identities == (older.project_id,)
    after = fingerprint(stores.folder(store))
    assert {name: sha for name, sha in after.items() if name != "store.yaml"} == {
        name: sha for name, sha in before.items() if name != "store.yaml"
    }
    later.flush()
    assert Use.objects.get(ref=fact.id).store == store.name
    assert Store.objects.get().project_root == str(repo)
    assert Document.objects.count() == 1


def test_two_stores_are_joined_and_no_byte_is_lost(repo: Path, make_repo: Callable[..., Path], git: Git) -> None:
    older = stores.set_label(store_at(repo), "Older label")
    theirs = store_at(make_repo("clone", remote=REMOTE))
    first = facts.remember(older, "The okapi of the path.", actor="agent")
    second = facts.remember(theirs, "The okapi of the remote.", actor="agent")
    both = {"knowledge/same.md": "equal\n", "rules/deep/x.md": "equal\n"}
    ours = {"knowledge/t.md": "older\n", "knowledge/INDEX.md": "i\n", "handoff/main.md": "older\n"}
    more = {"consolidation-log.md": "- a\n- b\n", "journal/2026-10-01.md": "# 2026-10-01\n"}
    write_files(stores.folder(older), {**both, **ours, **more})
    taken = {"knowledge/t.md": "theirs\n", "knowledge/t-2.md": "taken\n", "handoff/main.md": "theirs\n"}
    write_files(stores.folder(theirs), {**both, **taken, "consolidation-log.md": "- b\n- c\n"})
    os.utime(stores.folder(older) / "knowledge" / "t.md", (1_000_000_000, 1_000_000_000))
    before = fingerprint(stores.folder(older))
    git(repo, "remote", "add", "origin", REMOTE)
    assert ids(repo) == {first.id, second.id, "same", "t", "t-2", "t-3"}
    folder = stores.folder(theirs)
    assert (folder / "knowledge" / "t.md").read_text() == "theirs\n"
    assert (folder / "knowledge" / "t-3.md").read_text() == "older\n"
    assert (folder / "knowledge" / "t-3.md").stat().st_mtime == 1_000_000_000
    assert (folder / "handoff" / "main-2.md").read_text() == "older\n"
    assert (folder / "consolidation-log.md").read_text() == "- b\n- c\n- a\n"
    assert names() == [theirs.name]
    (retired,) = paths.retired().iterdir()
    assert fingerprint(retired) == before
    file = file_of(theirs.name)
    assert (file.label, file.merged_identities) == ("Older label", (older.project_id,))
    assert Store.objects.get().name == theirs.name
    assert len(recall.recall([stores.get(theirs.name)], "okapi", top_k=20)) == 2


def test_a_label_of_the_target_stays(repo: Path, make_repo: Callable[..., Path], git: Git) -> None:
    stores.set_label(store_at(repo), "Older")
    theirs = stores.set_label(store_at(make_repo("clone", remote=REMOTE)), "Theirs")
    git(repo, "remote", "add", "origin", REMOTE)
    assert store_at(repo).label == "Theirs"
    assert theirs.name in names()


def test_cut_off_half_way_the_next_call_finishes(repo: Path, make_repo: Callable[..., Path], git: Git) -> None:
    older = store_at(repo)
    theirs = store_at(make_repo("clone", remote=REMOTE))
    saved = {facts.remember(older, f"Okapi {number}.", actor="agent").id for number in range(4)}
    first = sorted((stores.folder(older) / "knowledge" / "inbox").iterdir())[0]
    write_files(stores.folder(theirs), {f"knowledge/inbox/{first.name}": first.read_bytes()})
    git(repo, "remote", "add", "origin", REMOTE)
    assert ids(repo) == saved
    assert len(list((stores.folder(theirs) / "knowledge" / "inbox").iterdir())) == 4


def test_what_a_killed_edit_set_aside_comes_back_before_it_moves(
    repo: Path, make_repo: Callable[..., Path], git: Git
) -> None:
    older = store_at(repo)
    store_at(make_repo("clone", remote=REMOTE))
    fact = facts.add(older, "The okapi.")
    relative = fact.path.relative_to(stores.folder(older)).as_posix()
    archive.keep_copy(stores.folder(older), "handoff/x.md", b"x", "replaced")
    line = f'{{"file": "aside.md", "lane": "knowledge", "path": "{relative}", "why": "edited", "state": "pending"}}\n'
    with (stores.folder(older) / "superseded" / "index.jsonl").open("a") as index:
        index.write(line)
    fact.path.rename(stores.folder(older) / "superseded" / "aside.md")
    git(repo, "remote", "add", "origin", REMOTE)
    assert ids(repo) == {fact.id}


@pytest.mark.parametrize("which", ["older", "theirs", "both"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_store_yaml_that_cannot_be_read_stops_nothing_and_is_kept(
    which: str, alone: bool, repo: Path, make_repo: Callable[..., Path], git: Git
) -> None:
    older = store_at(repo)
    fact = facts.remember(older, "The okapi.", actor="agent")
    broken = [older] if which != "theirs" or alone else []
    if not alone:
        theirs = store_at(make_repo("clone", remote=REMOTE))
        broken += [theirs] if which != "older" else []
    for store in broken:
        (stores.folder(store) / "store.yaml").write_text(f"label: [of {store.name}\n")
    git(repo, "remote", "add", "origin", REMOTE)
    assert ids(repo) == {fact.id}
    assert len(names()) == 1
    kept = "".join(path.read_text() for path in paths.memory().rglob("*") if path.is_file())
    assert all(f"label: [of {store.name}" in kept for store in broken)


def test_while_a_store_is_being_written_reading_goes_on_with_what_there_is(repo: Path, git: Git) -> None:
    older = store_at(repo)
    fact = facts.remember(older, "The okapi.", actor="agent")
    git(repo, "remote", "add", "origin", REMOTE)
    with ThreadPoolExecutor(1) as pool, fs.locked(f"{older.name}.write.lock"):
        assert pool.submit(_ids_and_close, repo).result(timeout=20) == {fact.id}
        assert names() == [older.name]
    assert ids(repo) == {fact.id}
    assert names() != [older.name]


def _ids_and_close(repo: Path) -> set[str]:
    try:
        return ids(repo)
    finally:
        connections.close_all()


def test_a_held_database_delays_no_adoption(repo: Path, git: Git) -> None:
    fact = facts.remember(store_at(repo), "The okapi.", actor="agent")
    later.flush()
    git(repo, "remote", "add", "origin", REMOTE)
    with foreign_lock():
        assert ids(repo) == {fact.id}
        hits = recall.recall(stores.for_reading(stores.locate(str(repo)), "both"), "okapi")
        assert [hit.id for hit in hits] == [fact.id]
    while not later.flush(1):
        pass
    assert ids(repo) == {fact.id}
    assert Store.objects.get().name == names()[0]


def test_links_stay_where_they_are(repo: Path, make_repo: Callable[..., Path], git: Git, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("outside\n")
    older = store_at(repo)
    fact = facts.remember(older, "The okapi.", actor="agent")
    (stores.folder(older) / "knowledge" / "link.md").symlink_to(tmp_path / "outside.md")
    store_at(make_repo("clone", remote=REMOTE))
    git(repo, "remote", "add", "origin", REMOTE)
    assert ids(repo) == {fact.id}
    assert "outside" not in "".join(path.read_text() for path in paths.projects().rglob("*.md"))


def test_facts_remembered_during_an_adoption_all_arrive(repo: Path, make_repo: Callable[..., Path], git: Git) -> None:
    store_at(make_repo("clone", remote=REMOTE))
    stop = threading.Event()

    def write() -> list[str]:
        saved = []
        while not stop.is_set() or len(saved) < 20:
            place = stores.locate(str(repo))
            saved.append(facts.remember(stores.for_writing(place, "project"), f"Okapi {len(saved)}.", actor="agent").id)
        connections.close_all()
        return saved

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write) for _ in range(2)]
        try:
            for _ in range(3):
                git(repo, "remote", "add", "origin", REMOTE)
                recall.recall(stores.for_reading(stores.locate(str(repo)), "project"), "okapi")
                git(repo, "remote", "remove", "origin")
                recall.recall(stores.for_reading(stores.locate(str(repo)), "project"), "okapi")
            git(repo, "remote", "add", "origin", REMOTE)
        finally:
            stop.set()
        saved = {identity for writer in writers for identity in writer.result(timeout=60)}
    stores.locate(str(repo))
    assert names() == [store_at(repo).name]
    inbox = stores.folder(store_at(repo)) / "knowledge" / "inbox"
    assert {markdown.parse(path.read_bytes()).meta["id"] for path in inbox.iterdir()} == saved
