"""The archive: everything that left a lane comes back by one action, and that action can be undone too."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coffer import fs
from coffer.errors import Conflict, Invalid, MemoryNotFound, StorageFailed
from coffer.models import AuditEntry
from memory.models import Store
from memory.services import archive, facts, handoff, journal, recall, rules, stores, superseded
from tests.factories import StoreFactory, write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def store() -> Store:
    made: Store = StoreFactory(name=PROJECT)
    return made


def newest(store: Store) -> str:
    return superseded.listing(store)[0].file


def test_nothing_archived_is_an_empty_list() -> None:
    assert superseded.listing(stores.get("global")) == []


def test_a_deleted_fact_comes_back_under_its_id(store: Store) -> None:
    fact = facts.add(store, "The staging key rotates weekly.")
    facts.delete(store, fact.id)
    file = newest(store)
    assert "rotates weekly" in superseded.read(store, file)
    assert superseded.restore(store, file) == fact.path
    assert facts.get(store, fact.id).text == fact.text
    assert [hit.id for hit in recall.recall([store], "staging key")] == [fact.id]
    assert superseded.listing(store) == []
    entry = AuditEntry.objects.get(event="superseded_restored")
    assert (entry.ref, entry.actor) == (fact.id, "user")


def test_restoring_over_a_newer_version_keeps_that_one_and_can_be_undone(store: Store) -> None:
    fact = facts.add(store, "The port is 8000.")
    facts.edit(store, fact.id, text="The port is 9443.")
    first = newest(store)
    superseded.restore(store, first)
    assert facts.get(store, fact.id).text == "The port is 8000."
    (kept,) = superseded.listing(store)
    assert kept.path == fact.path.relative_to(stores.folder(store)).as_posix()
    superseded.restore(store, kept.file)
    assert facts.get(store, fact.id).text == "The port is 9443."
    assert [hit.text for hit in recall.recall([store], "port")] == ["The port is 9443."]
    assert len(superseded.listing(store)) == 1
    assert archive.open_lines(stores.folder(store)) == []


def make_scene(store: Store) -> tuple[str, Callable[[], object]]:
    write_files(stores.folder(store), {"handoff/main.md": "---\nbranch: main\n---\n\nHalfway.\n"})
    return "handoff/main.md", lambda: handoff.remove(store, "main")


def make_day(store: Store) -> tuple[str, Callable[[], object]]:
    journal.append(store, "Something.", agent="codex", at=datetime(2026, 11, 30, tzinfo=UTC))
    return "journal/2026-11-30.md", lambda: journal.remove(store, "2026-11-30")


def make_rule(store: Store) -> tuple[str, Callable[[], object]]:
    rules.append(store, "Always.")
    return "rules/rules.md", lambda: rules.remove(store, rules.listing(store)[0].id)


def make_topic(store: Store) -> tuple[str, Callable[[], object]]:
    write_files(stores.folder(store), {"knowledge/deploys.md": "# Deploys\n\nBy hand.\n"})
    return "knowledge/deploys.md", lambda: facts.clear(store)


@pytest.mark.parametrize("make", [make_scene, make_day, make_rule, make_topic])
def test_every_lane_gives_back_what_was_deleted_byte_for_byte(
    store: Store, make: Callable[[Store], tuple[str, Callable[[], object]]]
) -> None:
    relative, delete = make(store)
    path = stores.folder(store) / relative
    before = path.read_bytes()
    delete()
    assert not path.exists()
    (kept,) = superseded.listing(store)
    assert (kept.path, kept.lane) == (relative, relative.split("/")[0])
    assert superseded.restore(store, kept.file) == path
    assert path.read_bytes() == before


@pytest.mark.parametrize("file", ["nothing.md", "index.jsonl", "../store.yaml", "", ".", "x" * 5000, "a\0b"])
def test_an_unknown_version_is_not_found(store: Store, file: str) -> None:
    fact = facts.add(store, "Something.")
    facts.delete(store, fact.id)
    for verb in (superseded.read, superseded.restore):
        with pytest.raises(MemoryNotFound):
            verb(store, file)
    assert len(superseded.listing(store)) == 1


def test_a_version_without_a_known_place_is_shown_but_not_put_anywhere(store: Store) -> None:
    write_files(stores.folder(store), {"superseded/loose.md": "Loose.\n"})
    assert superseded.read(store, "loose.md") == "Loose."
    with pytest.raises(Invalid, match=r"loose\.md"):
        superseded.restore(store, "loose.md")


@pytest.mark.parametrize(
    "path",
    ["../../escape.md", "/etc/cron.d/x.md", "store.yaml", "knowledge/../../x.md", "knowledge", "knowledge/x.sh", ""],
)
def test_an_index_line_of_a_stranger_leads_nowhere_else(store: Store, path: str, tmp_path: Path) -> None:
    line = f'{{"file": "a.md", "lane": "knowledge", "path": "{path}", "why": "", "when": "", "state": "done"}}\n'
    write_files(stores.folder(store), {"superseded/a.md": "evil", "superseded/index.jsonl": line})
    before = (stores.folder(store) / "store.yaml").read_bytes()
    with pytest.raises(Invalid):
        superseded.restore(store, "a.md")
    assert (stores.folder(store) / "store.yaml").read_bytes() == before
    assert (stores.folder(store) / "superseded" / "a.md").read_text() == "evil"
    assert list(tmp_path.rglob("escape.md")) == []


def test_links_into_and_out_of_the_archive_are_not_followed(store: Store, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("secret")
    fact = facts.add(store, "Something.")
    facts.delete(store, fact.id)
    folder = stores.folder(store)
    (folder / "superseded" / "link.md").symlink_to(secret)
    assert [line.file for line in superseded.listing(store)] == [newest(store)]
    file = newest(store)
    (folder / "knowledge" / "inbox").rmdir()
    (folder / "knowledge" / "inbox").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="link"):
        superseded.restore(store, file)
    assert sorted(path.name for path in tmp_path.glob("*.md")) == ["secret.md"]
    (folder / "superseded").rename(folder / "aside")
    (folder / "superseded").symlink_to(folder / "aside")
    assert superseded.listing(store) == []


def test_a_file_that_appears_in_the_place_meanwhile_is_never_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = facts.add(store, "The old one.")
    facts.delete(store, fact.id)
    file, real = newest(store), fs.move

    def move(source: Path, target: Path) -> None:
        if source.name == file:
            target.write_text("by an editor")
        real(source, target)

    monkeypatch.setattr(fs, "move", move)
    with pytest.raises(Conflict):
        superseded.restore(store, file)
    assert fact.path.read_text() == "by an editor"
    assert "The old one." in superseded.read(store, file)


def test_a_disk_that_fails_half_way_leaves_both_versions_where_they_were(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = facts.add(store, "The port is 8000.")
    facts.edit(store, fact.id, text="The port is 9443.")
    file, real = newest(store), fs.move

    def move(source: Path, target: Path) -> None:
        if source.name == file:
            raise StorageFailed("No space left.")
        real(source, target)

    monkeypatch.setattr(fs, "move", move)
    with pytest.raises(StorageFailed):
        superseded.restore(store, file)
    assert "9443" in fact.path.read_text()
    assert "8000" in superseded.read(store, file)
    assert [line.file for line in superseded.listing(store)] == [file]


def test_a_restore_that_was_killed_half_way_is_put_right_by_the_next_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = facts.add(store, "The port is 8000.")
    facts.edit(store, fact.id, text="The port is 9443.")
    archive._set_aside(stores.folder(store), fact.path.relative_to(stores.folder(store)).as_posix(), "killed here")
    assert not fact.path.exists()
    assert [hit.text for hit in recall.recall([store], "port")] == ["The port is 9443."]
    assert fact.path.exists()
    assert len(superseded.listing(store)) == 1
