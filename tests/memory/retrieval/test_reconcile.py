"""The index follows the files: a pure diff, young files, other processes, ids, batches, a busy database."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connection

from coffer import paths
from memory import retrieval
from memory.files.lanes import Stat
from memory.models import Chunk, Document, Store
from memory.retrieval import reconcile
from memory.services import stores
from tests.cases.steps import foreign_lock
from tests.factories import StoreFactory, write_files

ROOT = Path(__file__).parents[3]
PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
ONE, TWO = Stat(1, 1, 1, 1), Stat(2, 2, 2, 2)


@pytest.mark.parametrize(
    ("listing", "indexed", "racy", "changes"),
    [
        ({}, {}, (), reconcile.Changes()),
        ({"a": ONE}, {}, (), reconcile.Changes(added=("a",))),
        ({}, {"a": ONE}, (), reconcile.Changes(removed=("a",))),
        ({"a": ONE}, {"a": ONE}, (), reconcile.Changes()),
        ({"a": TWO}, {"a": ONE}, (), reconcile.Changes(changed=("a",))),
        ({"a": ONE}, {"a": ONE}, {"a"}, reconcile.Changes(changed=("a",))),
        ({"b": ONE, "a": TWO, "c": ONE}, {"d": ONE, "c": TWO, "a": TWO}, (), reconcile.Changes(("b",), ("c",), ("d",))),
        ({"b": ONE, "a": ONE}, {}, (), reconcile.Changes(added=("a", "b"))),
    ],
)
def test_two_listings_are_compared_without_a_look_at_the_disk(
    listing: dict[str, Stat], indexed: dict[str, Stat], racy: set[str], changes: reconcile.Changes
) -> None:
    assert reconcile.diff(listing, indexed, racy) == changes
    assert bool(changes) == bool(changes.added or changes.changed or changes.removed)


@pytest.mark.parametrize("field", Stat._fields)
def test_any_part_of_a_signature_tells_a_change(field: str) -> None:
    assert reconcile.diff({"a": ONE._replace(**{field: 9})}, {"a": ONE}).changed == ("a",)


def settle(*files: Path) -> None:
    for file in files:
        os.utime(file, ns=(time.time_ns() - 60_000_000_000,) * 2)


def store_with(*names: str, name: str = "global") -> tuple[Store, list[Path]]:
    store: Store = StoreFactory(name=name, files={f"knowledge/{one}.md": f"okapi {one}\n" for one in names})
    return store, [paths.store(name) / "knowledge" / f"{one}.md" for one in names]


def elsewhere(call: str) -> None:
    """Make a call in a process of its own."""
    script = f"import django; django.setup(); from memory import retrieval; from memory.services import stores; {call}"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True)


def generation(store: Store) -> int:
    return Store.objects.get(name=store.name).generation


def texts(store: Store) -> set[str]:
    return set(Chunk.objects.filter(document__store__name=store.name).values_list("text", flat=True))


def test_what_is_as_it_was_is_not_written_again() -> None:
    store, files = store_with("a", "b")
    settle(*files)
    retrieval.refresh(store)
    before = generation(store)
    assert not retrieval.refresh(store)
    assert generation(store) == before


def test_a_young_file_that_changes_within_one_time_stamp_is_noticed() -> None:
    store, (file,) = store_with("a")
    retrieval.refresh(store)
    stamp = file.stat()
    file.write_text("zebra a\n")  # the same size, and then the same times as far as a program can set them
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    retrieval.refresh(store)
    assert texts(store) == {"zebra a"}


def test_a_young_file_whose_signature_is_the_very_same_is_hashed_again() -> None:
    store, (file,) = store_with("a")
    retrieval.refresh(store)
    file.write_text("zebra a\n")
    now = file.stat()
    with connection.cursor() as cursor:  # as if the first look had seen the same times
        cursor.execute(
            "UPDATE memory_document SET size=%s, mtime_ns=%s, ctime_ns=%s, inode=%s, hashed_ns=%s",
            [now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_mtime_ns + 1],
        )
        cursor.execute("UPDATE memory_store SET generation = generation + 1")
    retrieval.refresh(store)
    assert texts(store) == {"zebra a"}


def test_a_young_file_that_stays_is_not_written_each_time() -> None:
    store, _ = store_with("a")
    retrieval.refresh(store)
    before = generation(store)
    for _ in range(3):
        retrieval.refresh(store)
    assert generation(store) == before


def test_a_file_whose_time_alone_changed_keeps_its_rows() -> None:
    store, (file,) = store_with("a")
    settle(file)
    retrieval.refresh(store)
    rows = list(Chunk.objects.values_list("id", flat=True))
    os.utime(file, ns=(1_700_000_000_000_000_000,) * 2)
    retrieval.refresh(store)
    assert list(Chunk.objects.values_list("id", flat=True)) == rows
    assert Document.objects.get().mtime_ns == 1_700_000_000_000_000_000


def test_named_files_are_indexed_alone() -> None:
    store, files = store_with("a", "b")
    retrieval.refresh(store, ["knowledge/a.md"])
    assert texts(store) == {"okapi a"}
    files[0].unlink()
    changes = retrieval.refresh(store, ["knowledge/a.md", "knowledge/never.md"])
    assert changes.removed == ("knowledge/a.md", "knowledge/never.md")
    assert texts(store) == set()
    retrieval.refresh(store)
    assert texts(store) == {"okapi b"}


def test_what_another_process_indexed_is_not_indexed_again_and_what_it_forgot_is() -> None:
    store, files = store_with("a", "b")
    settle(*files)
    retrieval.refresh(store)
    write_files(paths.store("global"), {"knowledge/c.md": "okapi c\n"})
    settle(paths.store("global") / "knowledge" / "c.md")
    elsewhere("stores.refresh(stores.get('global'))")
    rows = list(Document.objects.values_list("id", flat=True))
    retrieval.refresh(store)
    assert list(Document.objects.values_list("id", flat=True)) == rows
    elsewhere("retrieval.forget(stores.get('global'))")
    assert len(retrieval.refresh(store).added) == 3
    assert len(texts(store)) == 3


def test_ids_are_settled_by_path_whatever_comes_and_goes() -> None:
    def refs() -> dict[str, str]:
        retrieval.refresh(store)
        return {Path(path).stem: ref for path, ref in Document.objects.values_list("path", "ref")}

    store = stores.provision("global")
    claim = "---\nid: same\n---\n\ntext {}\n"
    write_files(paths.store("global"), {"knowledge/inbox/m.md": claim.format("m")})
    assert refs() == {"m": "same"}
    write_files(paths.store("global"), {f"knowledge/inbox/{name}.md": claim.format(name) for name in "az"})
    before = refs()
    assert before["a"] == "same"
    assert before["m"].startswith("same~")
    assert before["z"].startswith("same~")
    (paths.store("global") / "knowledge" / "inbox" / "a.md").unlink()
    assert refs() == {"m": "same", "z": before["z"]}
    write_files(paths.store("global"), {"knowledge/inbox/m.md": claim.format("m").replace("same", "other")})
    assert refs() == {"m": "other", "z": "same"}


def test_more_files_than_one_batch_are_all_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "BATCH", 7)
    store, _ = store_with(*(f"n{number}" for number in range(30)))
    before = generation(store)
    assert len(retrieval.refresh(store).added) == 30
    assert len(texts(store)) == 30
    assert generation(store) == before + 5
    assert retrieval.check()


def test_while_the_database_is_held_it_says_what_it_is_behind_with() -> None:
    store, files = store_with("a", "b", "c")
    settle(*files)
    retrieval.refresh(store)
    files[0].unlink()
    files[1].write_text("zebra\n")
    write_files(paths.store("global"), {"knowledge/d.md": "okapi d\n"})
    with foreign_lock():
        started = time.monotonic()
        changes = retrieval.refresh(store)
        assert time.monotonic() - started < 1.0
        assert set(changes.behind) == {"knowledge/a.md", "knowledge/b.md", "knowledge/d.md"}
    assert retrieval.refresh(store).behind == ()
    assert texts(store) == {"zebra", "okapi c", "okapi d"}


def test_a_store_without_a_row_is_told_so() -> None:
    store, _ = store_with("a", name=PROJECT)
    Store.objects.all().delete()
    with pytest.raises(Store.DoesNotExist):
        retrieval.refresh(store)
    stores.refresh(store)
    assert len(texts(store)) == 1


def test_two_stores_share_the_table_and_never_their_hits() -> None:
    first, _ = store_with("a")
    second, _ = store_with("a", name=PROJECT)
    for store in (first, second):
        retrieval.refresh(store)
    assert [hit.store for hit in retrieval.search([first], "okapi", 5)] == ["global"]
    assert [hit.store for hit in retrieval.search([second], "okapi", 5)] == [PROJECT]
    retrieval.forget(first)
    assert retrieval.check()
    assert [hit.store for hit in retrieval.search([second], "okapi", 5)] == [PROJECT]


def test_a_file_that_vanishes_while_it_is_read_is_left_for_the_next_look() -> None:
    store, files = store_with("a")
    assert retrieval.peek(store, "knowledge/a.md") is not None
    files[0].unlink()
    assert retrieval.peek(store, "knowledge/a.md") is None
    assert retrieval.late(store, ["knowledge/a.md"]) == []
    assert retrieval.refresh(store).added == ()


def test_a_rebuild_is_noticed_without_a_new_process() -> None:
    store, files = store_with("a")
    settle(*files)
    retrieval.refresh(store)
    retrieval.rebuild()
    assert texts(store) == set()
    assert retrieval.refresh(store).added == ("knowledge/a.md",)
    assert retrieval.check()
