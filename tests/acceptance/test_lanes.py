"""Scenarios of stories 5 and 9: what the lanes hold is readable for a store, and its files can be opened."""

import sys
from pathlib import Path

import pytest

from coffer import paths
from tests.conftest import Api
from tests.factories import StoreFactory

STORE = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
EMPTY = "project-01ARZ3NDEKTSV4RRFFQ69G5FAW"


def folder_with(files: dict[str, str | bytes]) -> Path:
    StoreFactory(name=STORE, files=files)
    StoreFactory(name=EMPTY)
    return paths.store(STORE)


@pytest.mark.acceptance(spec="007-memory", scenario="the rules read surface returns the stored rules")
def test_rules_are_returned_as_they_are_written(api: Api) -> None:
    text = "# House rules\n\n- Run make verify before pushing.\n- Never push tags. <!-- from 01A; new -->"
    folder_with({"rules/rules.md": f"{text}\n"})
    assert api.get(f"/memory_stores/{STORE}/rules").json()["text"] == text
    empty = api.get(f"/memory_stores/{EMPTY}/rules")
    assert (empty.status_code, empty.json()["text"]) == (200, None)


@pytest.mark.acceptance(spec="007-memory", scenario="journal lane entries are readable for a store")
def test_the_journal_is_returned_newest_first(api: Api) -> None:
    days = ("2026-11-29", "2026-12-01", "2026-11-30")
    folder = folder_with({f"journal/{day}.md": f"# {day}\n\nWhat happened.\n" for day in days}) / "journal"
    files = api.get(f"/memory_stores/{STORE}/journal").json()["files"]
    assert [file["period"] for file in files] == sorted(days, reverse=True)
    assert files[0] == {
        "period": "2026-12-01",
        "text": "# 2026-12-01\n\nWhat happened.",
        "path": str(folder / "2026-12-01.md"),
        "folder_path": str(folder),
    }
    empty = api.get(f"/memory_stores/{EMPTY}/journal")
    assert (empty.status_code, empty.json()["files"]) == (200, [])


@pytest.mark.acceptance(spec="007-memory", scenario="handoff scenes are listed per branch for a store")
def test_one_scene_per_branch_is_returned(api: Api) -> None:
    scene = "---\nbranch: {}\nupdated_at: 2026-11-30T10:00:00Z\n---\n\nHalfway.\n"
    files = {
        "handoff/main.md": scene.format("main"),
        "handoff/feature-login-0123456789.md": scene.format("feature/login"),
    }
    folder = folder_with({**files}) / "handoff"
    scenes = {one["branch"]: one for one in api.get(f"/memory_stores/{STORE}/handoff").json()["scenes"]}
    assert scenes.keys() == {"main", "feature/login"}
    assert scenes["feature/login"] == {
        "branch": "feature/login",
        "slug": "feature-login-0123456789",
        "text": "Halfway.",
        "updated_at": "2026-11-30T10:00:00Z",
        "path": str(folder / "feature-login-0123456789.md"),
        "folder_path": str(folder),
    }
    empty = api.get(f"/memory_stores/{EMPTY}/handoff")
    assert (empty.status_code, empty.json()["scenes"]) == (200, [])


@pytest.mark.acceptance(spec="007-memory", scenario="the consolidation changelog is readable for a store")
def test_the_consolidation_log_is_returned_with_its_place(api: Api) -> None:
    folder = folder_with({"consolidation-log.md": "- 2026-11-30T10:00:00Z merged 01A into deploys.md\n"})
    assert api.get(f"/memory_stores/{STORE}/consolidation-log").json() == {
        "text": "- 2026-11-30T10:00:00Z merged 01A into deploys.md",
        "path": str(folder / "consolidation-log.md"),
        "folder_path": str(folder),
    }
    empty = api.get(f"/memory_stores/{EMPTY}/consolidation-log")
    assert (empty.status_code, empty.json()["text"]) == (200, None)


@pytest.mark.acceptance(spec="007-memory", scenario="read-only viewer offers open/reveal affordances")
def test_what_is_read_tells_its_place_which_opens_and_reveals(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = api.post("/memory_stores/global/facts", {"text": "Reviews need two approvals."}).json()
    fact = api.get(f"/memory_stores/global/facts/{made['id']}").json()
    assert Path(fact["path"]).is_absolute()
    assert Path(fact["path"]).parent == Path(fact["folder_path"])
    assert api.get("/memory_stores/global").json()["store_dir"] == str(paths.store("global"))
    if sys.platform == "darwin":
        pytest.skip("the stand-in for an editor is found on PATH, as on Linux")
    for name in ("zed", "xdg-open"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} \"$1\" >> '{tmp_path}/calls'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    api.patch("/preferences", {"preferred_editor": "zed"})
    for path in (fact["path"], fact["folder_path"]):
        assert api.post("/fs/open", {"path": path}).json()["editor"]["id"] == "zed"
        assert api.post("/fs/reveal", {"path": path}).status_code == 200
    folder = fact["folder_path"]
    calls = [f"zed {fact['path']}", f"xdg-open {folder}", f"zed {folder}", f"xdg-open {folder}"]
    assert (tmp_path / "calls").read_text().splitlines() == calls
