"""Stores: what is listed, counted and named; store.yaml; identities, roots and removal."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connections

from coffer import db, later, paths
from coffer.errors import ConfigInvalid, Invalid, StoreNotFound
from coffer.models import AuditEntry
from memory.models import Checkout, Document, Store
from memory.services import counts, facts, recall, stores
from tests.factories import StoreFactory, write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"
REMOTE = "https://git.example.org/acme/widget.git"


def names() -> list[str]:
    return [store.name for store in stores.all_stores()]


def test_global_is_always_listed_and_looking_makes_nothing() -> None:
    assert names() == ["global"]
    store = stores.get("global")
    assert (store.pk, counts.fact_count(store), counts.metrics(store).disk_bytes) == (None, 0, 0)
    assert facts.newest([store]) == ([], 0)
    assert facts.page(store) == ([], 0)
    assert facts.clear(store) == 0
    assert recall.recall(stores.with_scope(store, "both"), "x") == []
    assert not paths.memory().exists()


def test_a_folder_put_there_by_hand_is_a_store() -> None:
    write_files(paths.store(PROJECT), {"knowledge/inbox/a.md": "okapi\n", "store.yaml": "label: Copied\n"})
    (paths.projects() / "not-an-id").mkdir()
    (paths.projects() / ("x" * 26)).mkdir()
    (paths.projects() / "01ARZ3NDEKTSV4RRFFQ69G5FAW").write_text("a file")
    assert names() == ["global", PROJECT]
    assert stores.display_name(stores.get(PROJECT)) == "Copied"


def test_counts_are_true_before_anything_was_recalled() -> None:
    files = {f"knowledge/inbox/f{number}.md": "x\n" for number in range(3)}
    store: Store = StoreFactory(
        name=PROJECT,
        files={
            **files, "knowledge/t.md": "x\n", "knowledge/deep/u.md": "x\n", "knowledge/INDEX.md": "x\n",
            "journal/2026-10-01.md": "# d\n", "journal/notes.md": "x\n",
        },
    )  # fmt: skip
    assert counts.fact_count(store) == 5
    found = counts.metrics(store)
    assert (found.fact_count, found.topic_count, found.inbox_count, found.journal_days) == (5, 2, 3, 1)
    assert found.disk_bytes == sum(path.stat().st_size for path in paths.store(PROJECT).rglob("*") if path.is_file())
    assert found.last_write_at is not None
    (paths.store(PROJECT) / "knowledge" / "inbox" / "f0.md").unlink()
    assert counts.fact_count(store) == 4
    assert Document.objects.count() == 0


@pytest.mark.parametrize(
    "label", ["x" * 201, "x" * 10_000, "a\u202eb", "a\x1b[31mb", "a\u2066b", "a\x00b", "a\u200bb", "global", PROJECT]
)
def test_a_label_that_would_mislead_is_refused(label: str) -> None:
    store = stores.provision(OTHER)
    with pytest.raises(Invalid):
        stores.set_label(store, label)
    assert stores.get(OTHER).label == ""
    assert "label: ''" in (paths.store(OTHER) / "store.yaml").read_text()


def test_a_label_written_by_hand_is_shown_without_what_would_mislead() -> None:
    stores.provision(PROJECT)
    (paths.store(PROJECT) / "store.yaml").write_text('label: "a\\u202eb\\x1b[31m' + "x" * 500 + '"\n')
    label = stores.get(PROJECT).label
    assert label.startswith("ab[31mxxx")
    assert len(label) == stores.MAX_LABEL


def test_what_a_person_changes_in_store_yaml_holds_at_once() -> None:
    store = stores.set_label(stores.provision(PROJECT), "Before")
    path = paths.store(PROJECT) / "store.yaml"
    path.write_text(
        path.read_text().replace("Before", "After").replace("config: {}", "config: {max_fact_chars: 5}")
        + "mine: kept\n"
    )
    store = stores.get(PROJECT)
    assert (store.label, stores.max_fact_chars(store)) == ("After", 5)
    stores.set_label(store, "Again")
    assert "mine: kept" in path.read_text()
    assert Store.objects.count() == 1


@pytest.mark.parametrize("content", [b"{", b"- a\n- b\n", b"label: [\n", b"\x00\xff\xfe", b"label: a: b\n"])
def test_a_store_yaml_that_cannot_be_read_costs_nothing_and_is_not_overwritten(content: bytes) -> None:
    store = stores.set_label(stores.provision(PROJECT), "Known")
    saved = facts.remember(store, "The okapi.", actor="agent")
    path = paths.store(PROJECT) / "store.yaml"
    path.write_bytes(content)
    assert stores.display_name(stores.get(PROJECT)) == "Known"
    assert recall.recall([stores.get(PROJECT)], "okapi")[0].id == saved.id
    facts.remember(stores.provision(PROJECT), "Another.", actor="agent")
    with pytest.raises(ConfigInvalid, match=r"store\.yaml"):
        stores.set_label(stores.get(PROJECT), "New")
    with pytest.raises(ConfigInvalid):
        stores.configure(stores.get(PROJECT), {"max_fact_chars": 10})
    assert path.read_bytes() == content
    stores.rebuild()
    assert PROJECT in names()


def test_a_folder_whose_maker_was_killed_is_completed_by_the_next_write(repo: Path) -> None:
    place = stores.locate(str(repo))
    assert place.project is not None
    write_files(paths.store(place.project.store), {"knowledge/inbox/a.md": "okapi\n"})
    store = stores.for_writing(stores.locate(str(repo)), "project")
    assert store.remote == "git.example.org/acme/widget"
    assert (stores.folder(store) / "store.yaml").exists()
    assert counts.fact_count(store) == 1


def test_a_store_made_over_rest_learns_its_remote_from_the_first_agent(repo: Path) -> None:
    name = stores.locate(str(repo)).project.store  # type: ignore[union-attr]
    facts.remember(stores.provision(name), "Posted first.", actor="user")
    assert stores.get(name).remote == ""
    assert stores.for_writing(stores.locate(str(repo)), "project").remote == "git.example.org/acme/widget"
    assert "remote: git.example.org/acme/widget" in (paths.store(name) / "store.yaml").read_text()


def test_settings_are_checked_and_taken_back() -> None:
    store = stores.provision(PROJECT)
    for changes in ({"max_fact_chars": 0}, {"max_fact_chars": 1_000_001}, {"retrieval": "magic"}):
        with pytest.raises(Invalid):
            stores.configure(store, changes)
    store = stores.configure(store, {"max_fact_chars": 10, "retrieval": "hybrid"})
    assert stores.config(store) == {"max_fact_chars": 10, "retrieval": "hybrid", "embedding": None}
    store = stores.configure(store, {"max_fact_chars": None})
    assert stores.config(store)["max_fact_chars"] == 8192
    assert stores.config(stores.get(PROJECT))["retrieval"] == "hybrid"


@pytest.mark.parametrize("database", ["kept", "lost"])
def test_a_merged_identity_resolves_to_its_survivor(database: str, repo: Path, home: Path) -> None:
    identity = stores.locate(str(repo)).project.store.removeprefix("project-")  # type: ignore[union-attr]
    survivor = stores.provision(OTHER)
    path = stores.folder(survivor) / "store.yaml"
    path.write_text(path.read_text().replace("merged_identities: []", f"merged_identities: [{identity}]"))
    fact = facts.add(stores.get(OTHER), "The okapi.")
    if database == "lost":
        later.flush()
        connections.close_all()
        paths.database().unlink()
        db.prepare()
    place = stores.locate(str(repo))
    assert place.project is not None
    assert place.project.store == OTHER
    assert recall.recall(stores.for_reading(place, "project"), "okapi")[0].id == fact.id
    stores.for_writing(place, "project")
    assert [path.name for path in paths.projects().iterdir()] == [OTHER.removeprefix("project-")]


def test_roots_are_learnt_and_former_ones_kept(make_repo: Callable[..., Path]) -> None:
    here, there = make_repo("here", remote=REMOTE), make_repo("there", remote=REMOTE)
    store = stores.for_writing(stores.locate(str(here)), "project")
    for repo in (there, here, there):
        stores.locate(str(repo))
        later.flush()
    row = Store.objects.get(name=store.name)
    assert row.project_root == str(here)
    assert {place.root for place in Checkout.objects.filter(store=store.name)} == {str(here), str(there)}
    assert stores.display_name(row) == "here"
    here.rename(here.with_name("gone"))
    stores.locate(str(there))
    later.flush()
    assert stores.display_name(Store.objects.get(name=store.name)) == "there"


def test_a_project_is_named_by_its_label_else_by_its_folder(
    make_repo: Callable[..., Path], tmp_path: Path, git: Callable[..., str]
) -> None:
    repo = make_repo("my.widget")
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "bare" / ".git"))
    git(tmp_path / "bare" / ".git", "worktree", "add", "-q", str(tmp_path / "tree"))
    assert stores.locate(str(repo)).project.name == "my.widget"  # type: ignore[union-attr]
    assert stores.locate(str(tmp_path / "tree")).project.name == "bare"  # type: ignore[union-attr]
    store = stores.provision(PROJECT)
    assert stores.display_name(store) == PROJECT
    store.remote = "git.example.org/acme/widget"
    assert stores.display_name(store) == "widget"


def test_a_removed_store_lies_in_retired_and_can_be_put_back() -> None:
    store = stores.set_label(stores.provision(PROJECT), "Zoo")
    fact = facts.add(store, "The okapi.")
    target = stores.retire(store)
    assert target.is_relative_to(paths.retired())
    assert names() == ["global"]
    assert (Store.objects.count(), Document.objects.count()) == (0, 0)
    with pytest.raises(StoreNotFound):
        stores.retire(store)
    with pytest.raises(StoreNotFound):
        stores.get(PROJECT)
    target.rename(paths.store(PROJECT))
    assert stores.display_name(stores.get(PROJECT)) == "Zoo"
    assert recall.recall([stores.get(PROJECT)], "okapi")[0].id == fact.id
    assert AuditEntry.objects.filter(event="store_retired").count() == 1


def test_a_store_begun_again_knows_nothing_of_the_one_before() -> None:
    stores.set_label(stores.provision(PROJECT), "Zoo")
    facts.add(stores.get(PROJECT), "The okapi.")
    stores.retire(stores.get(PROJECT))
    store = stores.provision(PROJECT)
    assert (store.label, counts.fact_count(store), recall.recall([store], "okapi")) == ("", 0, [])


def test_global_cannot_be_removed() -> None:
    with pytest.raises(Invalid, match="clear it instead"):
        stores.retire(stores.provision("global"))


def test_what_scope_means_from_a_store() -> None:
    stores.provision("global")
    project = stores.provision(PROJECT)
    found = {scope: [store.name for store in stores.with_scope(project, scope)] for scope in stores.SCOPES}
    assert found == {"project": [PROJECT], "global": ["global"], "both": [PROJECT, "global"]}
    assert {scope: len(stores.with_scope(stores.get("global"), scope)) for scope in stores.SCOPES} == {
        "project": 1, "global": 1, "both": 1,
    }  # fmt: skip


def test_a_reindex_reads_every_file_of_every_store_and_names_the_odd_ones() -> None:
    StoreFactory(name="global", files={"knowledge/inbox/a.md": "a\n"})
    StoreFactory(
        name=PROJECT, files={"knowledge/inbox/bad.md": "---\ntitle: a: b\n---\nx\n", "journal/2026-10-01.md": "# d\n"}
    )
    seen: list[str] = []
    read, problems = stores.reindex(progress=seen.append)
    assert (read, seen) == (3, ["global", PROJECT])
    assert [Path(path).name for path, _ in problems] == ["bad.md"]
