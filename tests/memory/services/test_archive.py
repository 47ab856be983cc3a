"""The archive: nothing is replaced or removed without a copy and a line, whatever happens half-way."""

import json
from pathlib import Path

import pytest

from coffer.errors import Conflict, Invalid
from memory.services import archive, facts, recall, stores
from memory.services.archive import sha256
from tests.factories import write_files


@pytest.fixture
def folder() -> Path:
    store = stores.provision("global")
    write_files(stores.folder(store), {"knowledge/t.md": "old\n"})
    return stores.folder(store)


def lines(folder: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (folder / "superseded" / "index.jsonl").read_text().splitlines()]


def announce(folder: Path, file: str, path: str = "knowledge/t.md", state: str = "pending") -> None:
    """A line as a writer leaves it that was killed after it."""
    (folder / "superseded").mkdir(exist_ok=True)
    with (folder / "superseded" / "index.jsonl").open("a") as index:
        row = {"file": file, "lane": "knowledge", "path": path, "why": "edited", "when": "2026-10-01T00:00:00Z"}
        index.write(json.dumps({**row, "state": state}) + "\n")


def test_a_replaced_file_is_kept_byte_for_byte_with_its_reason(folder: Path) -> None:
    archive.replace(folder, "knowledge/t.md", expected_sha256=sha256(b"old\n"), data=b"new\n", why="edited")
    (kept,) = archive.listing(folder)
    assert (folder / "knowledge" / "t.md").read_bytes() == b"new\n"
    assert (folder / "superseded" / kept.file).read_bytes() == b"old\n"
    assert (kept.lane, kept.path, kept.why, kept.state) == ("knowledge", "knowledge/t.md", "edited", "done")
    assert [line["state"] for line in lines(folder)] == ["pending", "done"]


def test_another_version_than_the_one_read_is_put_back(folder: Path) -> None:
    with pytest.raises(Conflict):
        archive.replace(folder, "knowledge/t.md", expected_sha256=sha256(b"other"), data=b"new\n", why="edited")
    assert (folder / "knowledge" / "t.md").read_bytes() == b"old\n"
    assert archive.listing(folder) == []
    assert [line["state"] for line in lines(folder)] == ["pending", "undone"]


def test_versions_of_one_moment_get_names_of_their_own(folder: Path) -> None:
    for number in range(20):
        archive.keep_copy(folder, "handoff/main.md", str(number).encode(), "replaced")
    assert len({line.file for line in archive.listing(folder)}) == 20


def test_killed_after_the_announcement_nothing_changes(folder: Path) -> None:
    announce(folder, "t-1.md")
    assert archive.recover(folder) == 1
    assert (folder / "knowledge" / "t.md").read_bytes() == b"old\n"
    assert archive.open_lines(folder) == []


def test_killed_after_the_old_file_was_set_aside_it_comes_back(folder: Path) -> None:
    announce(folder, "t-1.md")
    (folder / "knowledge" / "t.md").rename(folder / "superseded" / "t-1.md")
    assert recall.recall([stores.get("global")], "old")[0].id == "t"
    assert (folder / "knowledge" / "t.md").read_bytes() == b"old\n"
    assert archive.open_lines(folder) == []
    assert archive.listing(folder) == []


def test_killed_between_the_two_names_of_a_move_one_goes(folder: Path) -> None:
    announce(folder, "t-1.md")
    (folder / "superseded" / "t-1.md").hardlink_to(folder / "knowledge" / "t.md")
    archive.recover(folder)
    assert (folder / "knowledge" / "t.md").read_bytes() == b"old\n"
    assert not (folder / "superseded" / "t-1.md").exists()


def test_killed_before_the_line_was_closed_the_new_file_stays(folder: Path) -> None:
    announce(folder, "t-1.md")
    (folder / "superseded" / "t-1.md").write_bytes(b"older\n")
    archive.recover(folder)
    assert (folder / "knowledge" / "t.md").read_bytes() == b"old\n"
    assert [line.state for line in archive.listing(folder)] == ["done"]


def test_a_line_that_a_crash_cut_off_harms_no_other(folder: Path) -> None:
    announce(folder, "kept.md", state="done")
    index = folder / "superseded" / "index.jsonl"
    index.write_bytes(index.read_bytes() + b'{"file": "cut')
    (folder / "superseded" / "kept.md").write_text("x")
    archive.remove(folder, "knowledge/t.md", "deleted")
    assert {line.file.split("-")[0] for line in archive.listing(folder)} == {"kept.md", "t"}
    assert archive.open_lines(folder) == []


def test_a_file_without_a_line_is_listed_all_the_same(folder: Path) -> None:
    write_files(
        folder, {"superseded/lost-20261001T000000000000Z.md": "x\n", "superseded/.hidden": "x", "superseded/n.txt": "x"}
    )
    (found,) = archive.listing(folder)
    assert (found.file, found.why) == ("lost-20261001T000000000000Z.md", "unknown")


def test_a_deleted_file_is_kept_and_nothing_is_taken_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("outside")
    (folder / "knowledge" / "link.md").symlink_to(tmp_path / "outside.md")
    for relative in ("knowledge/link.md", "../x.md", "knowledge/../t.md", "/etc/passwd"):
        with pytest.raises(Invalid):
            archive.remove(folder, relative, "deleted")
    assert (tmp_path / "outside.md").read_text() == "outside"
    assert not (folder / "superseded").exists()


def test_a_recovery_after_a_kill_is_seen_by_a_process_that_was_running(folder: Path) -> None:
    store = stores.get("global")
    assert facts.get(store, "t").text == "old"
    announce(folder, "t-1.md")
    (folder / "knowledge" / "t.md").rename(folder / "superseded" / "t-1.md")
    assert facts.newest([store])[1] == 1
    assert facts.get(store, "t").text == "old"
