"""Scenes as a person sees them: one per branch, whatever is written in them."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coffer.errors import MemoryNotFound, StorageFailed
from coffer.models import AuditEntry
from memory.files import markdown
from memory.models import Store
from memory.retrieval import MAX_BYTES
from memory.services import handoff, pages, recall, stores, superseded
from tests.factories import StoreFactory


def store_with(**scenes: str | bytes) -> Store:
    files = {f"handoff/{slug}.md": text for slug, text in scenes.items()}
    store: Store = StoreFactory(name="project-01ARZ3NDEKTSV4RRFFQ69G5FAV", files=files)
    return store


def test_no_scene_is_an_empty_list() -> None:
    assert handoff.scenes(stores.get("global")) == []


def test_a_saved_scene_is_listed_by_its_branch(repo: Path) -> None:
    handoff.save(stores.locate(str(repo)), "Halfway.\n\n- next: tests")
    store = stores.all_stores()[-1]
    (scene,) = handoff.scenes(store)
    assert (scene.branch, scene.slug, scene.text) == ("main", "main", "Halfway.\n\n- next: tests")
    assert (scene.updated_at or "").endswith("Z")
    assert scene.path == stores.folder(store) / "handoff" / "main.md"


def test_the_scene_written_last_comes_first() -> None:
    store = store_with(a="A", b="B", c="C")
    for age, slug in enumerate("bca"):
        os.utime(stores.folder(store) / "handoff" / f"{slug}.md", (1e9 - age, 1e9 - age))
    assert [scene.slug for scene in handoff.scenes(store)] == ["b", "c", "a"]


FUTURE = markdown.stamp(datetime.now(UTC) + timedelta(hours=24))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        pytest.param(f"updated_at: {FUTURE}", FUTURE, id="tomorrow"),
        ("updated_at: 2099-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
        ("updated_at: yesterday", "yesterday"),
        ("updated_at: 2026-11-30", "2026-11-30"),
        ("updated_at: 1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("updated_at: [a, b]", None),
        ("updated_at:", None),
        ("commit: abc", None),
    ],
)
def test_bc_098_a_listed_scene_tells_the_time_as_it_is_written_or_none(written: str, told: str | None) -> None:
    (scene,) = handoff.scenes(store_with(main=f"---\nbranch: main\n{written}\n---\n\nBody.\n"))
    assert (scene.updated_at, scene.text) == (told, "Body.")


def test_a_scene_without_a_branch_is_called_by_its_file() -> None:
    found = {
        scene.slug: scene.branch for scene in handoff.scenes(store_with(a="Text.", b="---\nbranch: [x]\n---\nText."))
    }
    assert found == {"a": "a", "b": "b"}


def test_a_removed_scene_is_kept_and_comes_back() -> None:
    store = store_with(main="---\nbranch: feature/x\n---\n\nBody.\n")
    handoff.remove(store, "main")
    assert handoff.scenes(store) == []
    assert AuditEntry.objects.get(event="handoff_deleted").ref == "main"
    superseded.restore(store, superseded.listing(store)[0].file)
    assert [scene.branch for scene in handoff.scenes(store)] == ["feature/x"]
    assert recall.recall([store], "Body") == []


@pytest.mark.parametrize("slug", ["other", "../knowledge/x", "", "main.md", "x" * 3000, "/etc/passwd"])
def test_an_unknown_scene_is_not_found(slug: str) -> None:
    store = store_with(main="Body.")
    with pytest.raises(MemoryNotFound):
        handoff.remove(store, slug)
    assert len(handoff.scenes(store)) == 1


def test_links_folders_and_pipes_are_no_scenes(tmp_path: Path) -> None:
    store = store_with(main="Body.")
    lane = stores.folder(store) / "handoff"
    secret = tmp_path / "config.md"
    secret.write_text("secret")
    (lane / "link.md").symlink_to(secret)
    (lane / "folder.md").mkdir()
    os.mkfifo(lane / "pipe.md")
    assert [scene.slug for scene in handoff.scenes(store)] == ["main"]
    with pytest.raises(MemoryNotFound):
        handoff.remove(store, "link")
    assert secret.read_text() == "secret"


def test_of_a_huge_scene_the_beginning_is_shown_and_the_rest_is_said_to_be_left_out() -> None:
    (scene,) = handoff.scenes(store_with(main="a" * (MAX_BYTES + 10)))
    assert scene.text.startswith("aaaa")
    assert scene.text.endswith(f"(The rest is left out: the file has {MAX_BYTES + 10} bytes. Open it itself.)")


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_with(main="Body.")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pages.os, "open", refuse)  # root, who runs some of these tests, may read everything
    with pytest.raises(StorageFailed, match=r"main\.md cannot be read \(Permission denied\)"):
        handoff.scenes(store)
