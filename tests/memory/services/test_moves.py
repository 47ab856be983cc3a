"""Moving between stores: durable there before it goes here, one id, nothing lost whatever comes in between."""

from pathlib import Path

import pytest

from coffer import fs, paths
from coffer.errors import Conflict, Invalid, MemoryNotFound, StoreNotFound
from coffer.models import AuditEntry
from memory.models import Store
from memory.services import archive, facts, moves, recall, stores
from tests.factories import write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def source(home: Path) -> Store:
    return stores.provision("global")


@pytest.fixture
def target(home: Path) -> Store:
    return stores.provision(PROJECT)


def files(store: Store) -> dict[str, bytes]:
    folder = paths.store(store.name)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("knowledge/**/*.md")}


def test_a_moved_fact_keeps_its_id_and_its_bytes_and_is_recalled_from_its_new_store(
    source: Store, target: Store
) -> None:
    saved = facts.remember(source, "Two approvals.", actor="agent", session="s1")
    before = saved.path.read_bytes()
    moved = moves.move(source, saved.id, target)
    assert (moved.id, moved.path.read_bytes()) == (saved.id, before)
    assert not saved.path.exists()
    assert [hit.id for hit in recall.recall([target], "approvals")] == [saved.id]
    assert recall.recall([source], "approvals") == []
    assert [(row.event, row.store) for row in AuditEntry.objects.filter(ref=saved.id).order_by("id")][1:] == [
        ("fact_moved_in", PROJECT),
        ("fact_moved_out", "global"),
    ]
    (kept,) = archive.listing(paths.store("global"))
    assert (kept.why, kept.state) == (f"moved to {PROJECT}", "done")
    assert (paths.store("global") / "superseded" / kept.file).read_bytes() == before


def test_a_store_that_does_not_exist_yet_begins_with_what_is_moved_to_it(target: Store) -> None:
    saved = facts.remember(target, "Two approvals.", actor="agent")
    assert not paths.store("global").exists()
    moves.move(target, saved.id, stores.get("global"))
    assert facts.get(stores.get("global"), saved.id).text == "Two approvals."


def test_a_topic_and_a_file_made_by_hand_keep_their_names_because_these_are_their_ids(
    source: Store, target: Store
) -> None:
    write_files(
        paths.store("global"), {"knowledge/deploys.md": "A topic.\n", "knowledge/inbox/deep/by-hand.md": "Mine.\n"}
    )
    assert moves.move(source, "deploys", target).kind == "topic"
    assert moves.move(source, "by-hand", target).id == "by-hand"
    assert files(target) == {"knowledge/deploys.md": b"A topic.\n", "knowledge/inbox/deep/by-hand.md": b"Mine.\n"}


def test_a_fact_whose_file_name_is_taken_gets_another_one_and_keeps_its_id(source: Store, target: Store) -> None:
    saved = facts.remember(source, "Two approvals.", actor="agent")
    taken = f"knowledge/inbox/{saved.path.name}"
    write_files(paths.store(PROJECT), {taken: "---\nid: other\n---\n\nSomebody else's.\n"})
    moved = moves.move(source, saved.id, target)
    assert (moved.id, moved.text) == (saved.id, "Two approvals.")
    assert facts.get(target, "other").text == "Somebody else's."


@pytest.mark.parametrize("name", ["knowledge/deploys.md", "knowledge/inbox/deploys.md"])
def test_what_would_meet_another_of_its_id_stays_where_it_is(source: Store, target: Store, name: str) -> None:
    write_files(paths.store("global"), {name: "Ours.\n"})
    write_files(paths.store(PROJECT), {name: "Theirs.\n"})
    with pytest.raises(Conflict, match="another"):
        moves.move(source, "deploys", target)
    assert (files(source), files(target)) == ({name: b"Ours.\n"}, {name: b"Theirs.\n"})


def test_a_move_cut_off_between_its_two_steps_is_finished_by_the_same_move(source: Store, target: Store) -> None:
    saved = facts.remember(source, "Two approvals.", actor="agent")
    name = saved.path.relative_to(paths.store("global")).as_posix()
    write_files(paths.store(PROJECT), {name: saved.path.read_bytes()})
    moves.move(source, saved.id, target)
    assert (list(files(source)), list(files(target))) == ([], [name])


def test_what_an_editor_saves_while_its_file_moves_goes_over_too(
    source: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = facts.remember(source, "Two approvals.", actor="agent")
    create = fs.create

    def create_while_somebody_types(path: Path, data: bytes) -> None:
        create(path, data)
        if PROJECT.removeprefix("project-") in str(path) and saved.path.exists():
            saved.path.write_bytes(saved.path.read_bytes().replace(b"Two", b"Three"))

    monkeypatch.setattr(fs, "create", create_while_somebody_types)
    assert moves.move(source, saved.id, target).text == "Three approvals."
    archived = (paths.store(PROJECT) / "superseded").glob("*.md")
    assert any(b"Two approvals." in path.read_bytes() for path in archived)


def test_of_two_files_of_one_id_only_the_one_that_was_named_moves(source: Store, target: Store) -> None:
    """BC-121."""
    first = facts.remember(source, "Two approvals.", actor="agent")
    copy = first.path.with_name("zz copy.md")
    copy.write_bytes(first.path.read_bytes().replace(b"Two", b"Three"))
    named = next(fact.id for fact in facts.page(source)[0] if "~" in fact.id)
    assert moves.move(source, named, target).text == "Three approvals."
    assert [fact.text for fact in facts.page(source)[0]] == ["Two approvals."]


def test_a_move_to_the_same_store_to_none_or_of_nothing_is_refused(source: Store, target: Store) -> None:
    saved = facts.remember(source, "Two approvals.", actor="agent")
    with pytest.raises(Invalid, match="already"):
        moves.move(source, saved.id, source)
    with pytest.raises(MemoryNotFound):
        moves.move(source, "nothing", target)
    with pytest.raises(StoreNotFound):
        moves.move(source, saved.id, Store(name="nowhere"))
    assert saved.path.exists()


def test_a_link_in_the_target_is_not_followed(source: Store, target: Store, tmp_path: Path) -> None:
    """BC-067."""
    saved = facts.remember(source, "Two approvals.", actor="agent")
    outside = tmp_path / "outside"
    outside.mkdir()
    (paths.store(PROJECT) / "knowledge").symlink_to(outside)
    with pytest.raises(Invalid, match="link"):
        moves.move(source, saved.id, target)
    assert list(outside.iterdir()) == []
    assert saved.path.exists()


def test_deleting_a_moved_fact_forever_leaves_no_copy_in_the_store_it_came_from(home: Path) -> None:
    first, second = stores.provision("global"), stores.provision("project-01ARZ3NDEKTSV4RRFFQ69G5FAV")
    saved = facts.remember(first, "The FAKE-hunter2 word must go.", actor="user")
    facts.edit(first, saved.id, text="The FAKE-hunter2 word must go soon.")
    moves.move(first, saved.id, second)
    kept = facts.remember(first, "Another fact stays.", actor="user")
    facts.delete(second, saved.id, forever=True)
    left = [path for path in paths.memory().rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert left == []
    assert facts.get(first, kept.id).text == "Another fact stays."
