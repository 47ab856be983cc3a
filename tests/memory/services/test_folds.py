"""A note into a topic: both files as one step, whatever dies in between."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from coffer import fs
from coffer.errors import Conflict, StorageFailed
from memory.services import archive, archive_lines, facts, stores
from memory.services.archive import sha256
from tests.factories import write_files

NOTE, TOPIC = "knowledge/inbox/n.md", "knowledge/t.md"
OLD, NEW, SAID = b"old\n", b"old\nsaid\n", b"said\n"


@pytest.fixture
def folder() -> Path:
    store = stores.provision("global")
    write_files(stores.folder(store), {NOTE: SAID, TOPIC: OLD})
    return stores.folder(store)


def fold(folder: Path, *, into: str = TOPIC, before: bytes | None = OLD, note: bytes = SAID) -> bool:
    return archive.fold(
        folder,
        NOTE,
        into,
        note_sha256=sha256(note),
        into_sha256=sha256(before) if before is not None else None,
        data=NEW,
        why="merged",
        run="RUN",
    )


def archived(folder: Path) -> dict[str, bytes]:
    return {line.path: (folder / "superseded" / line.file).read_bytes() for line in archive.listing(folder)}


class Killed(BaseException):
    """Stands for a process that ends here: nothing after it runs but what the system does itself."""


def killed_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the process die at one of the calls that reach the disk."""
    seen = 0

    def dying(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            nonlocal seen
            seen += 1
            if seen > step:
                raise Killed
            return real(*args, **options)

        return call

    for module, name in ((archive_lines, "append"), (archive.os, "rename"), (fs.os, "link"), (fs.os, "open")):
        monkeypatch.setattr(module, name, dying(getattr(module, name)))


def test_the_topic_holds_the_note_and_both_versions_are_archived(folder: Path) -> None:
    assert fold(folder) is True
    assert (folder / TOPIC).read_bytes() == NEW
    assert not (folder / NOTE).exists()
    assert archived(folder) == {NOTE: SAID, TOPIC: OLD}
    note = next(line for line in archive.listing(folder) if line.path == NOTE)
    topic = next(line for line in archive.listing(folder) if line.path == TOPIC)
    assert (note.into, note.result, note.run, note.state) == (TOPIC, sha256(NEW), "RUN", "done")
    assert (note.over, topic.run, topic.state) == (topic.file, "RUN", "done")
    assert archive.open_lines(folder) == []


def test_a_new_topic_is_made_without_ever_replacing_one(folder: Path) -> None:
    with pytest.raises(Conflict):
        fold(folder, before=None)
    assert ((folder / TOPIC).read_bytes(), (folder / NOTE).read_bytes()) == (OLD, SAID)
    assert fold(folder, into="knowledge/new.md", before=None) is True
    assert (folder / "knowledge" / "new.md").read_bytes() == NEW
    assert archived(folder) == {NOTE: SAID}


def test_another_version_of_either_file_stops_it(folder: Path) -> None:
    with pytest.raises(Conflict):
        fold(folder, before=b"other\n")
    with pytest.raises(Conflict):
        fold(folder, note=b"other\n")
    assert ((folder / TOPIC).read_bytes(), (folder / NOTE).read_bytes()) == (OLD, SAID)
    assert archive.listing(folder) == []
    assert archive.open_lines(folder) == []


def test_a_note_that_an_editor_saves_at_the_last_moment_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fs.create

    def create(path: Path, data: bytes) -> None:
        real(path, data)
        (folder / NOTE).write_bytes(b"said, and more\n")

    monkeypatch.setattr(fs, "create", create)
    assert fold(folder) is False
    assert (folder / TOPIC).read_bytes() == NEW
    assert (folder / NOTE).read_bytes() == b"said, and more\n"
    assert archive.open_lines(folder) == []


@pytest.mark.parametrize("step", range(30))
@pytest.mark.parametrize("into", [TOPIC, "knowledge/new.md"])
def test_killed_at_any_step_the_note_is_in_exactly_one_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: int, into: str
) -> None:
    with monkeypatch.context() as patch:
        killed_at(patch, step)
        with suppress(Killed):
            fold(folder, into=into, before=OLD if into == TOPIC else None)
    archive.recover(folder)
    topic = (folder / into).read_bytes() if (folder / into).exists() else b""
    assert topic in (NEW, OLD if into == TOPIC else b"")
    assert (folder / NOTE).exists() == (topic != NEW)
    assert archive.open_lines(folder) == []
    if topic == NEW:
        assert archived(folder) == {NOTE: SAID} | ({TOPIC: OLD} if into == TOPIC else {})
    else:
        assert archived(folder) == {}
        fold(folder, into=into, before=OLD if into == TOPIC else None)
    assert archived(folder)[NOTE] == SAID


def test_a_topic_that_was_edited_after_the_kill_keeps_the_edit_and_the_note_leaves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = archive._moved_aside

    def moved_aside(place: Path, aside: Path) -> Path:
        if place == folder / NOTE:
            raise Killed
        return real(place, aside)

    with monkeypatch.context() as patch:
        patch.setattr(archive, "_moved_aside", moved_aside)
        with pytest.raises(Killed):
            fold(folder)
    (folder / TOPIC).write_bytes(NEW + b"by hand\n")
    archive.recover(folder)
    assert (folder / TOPIC).read_bytes() == NEW + b"by hand\n"
    assert not (folder / NOTE).exists()


def test_a_full_disk_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(path: Path, data: bytes) -> None:
        raise StorageFailed("No space left.")

    monkeypatch.setattr(fs, "create", create)
    with pytest.raises(StorageFailed):
        fold(folder)
    assert ((folder / TOPIC).read_bytes(), (folder / NOTE).read_bytes()) == (OLD, SAID)
    assert archive.open_lines(folder) == []


def test_a_drained_note_that_was_cut_off_is_drained_by_the_next_look(folder: Path) -> None:
    row = {"file": "n-1.md", "lane": "knowledge", "path": NOTE, "why": "made a rule", "when": "2026-11-30T00:00:00Z"}
    (folder / "superseded").mkdir()
    line = {**row, "state": "pending", "into": "rules/rules.md", "run": "RUN"}
    (folder / "superseded" / "index.jsonl").write_text(json.dumps(line) + "\n")
    facts.newest([stores.get("global")])
    assert not (folder / NOTE).exists()
    assert archived(folder) == {NOTE: SAID}


def test_a_topic_that_is_erased_takes_the_notes_in_it_along(folder: Path) -> None:
    fold(folder)
    facts.delete(stores.get("global"), "t", forever=True)
    assert [path.name for path in (folder / "superseded").iterdir()] == ["index.jsonl"]
    assert "said" not in (folder / "superseded" / "index.jsonl").read_text()
    assert (folder / "superseded" / "index.jsonl").read_text() == ""
