"""Scenes: one per branch, none lost, none of another branch."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coffer import paths
from coffer.errors import Rejected, ScopeUnresolved
from coffer.models import AuditEntry
from memory.services import archive, handoff, recall, stores
from memory.services.stores import Place

Git = Callable[..., str]


def place_of(repo: Path) -> Place:
    return stores.locate(str(repo))


def store_of(repo: Path) -> Path:
    project = place_of(repo).project
    assert project is not None
    return paths.store(project.store)


def test_a_scene_that_only_grows_is_not_archived_and_one_that_loses_a_line_is(repo: Path) -> None:
    handoff.save(place_of(repo), "First line.\n\nSecond line.")
    handoff.save(place_of(repo), "New first.\nFirst line.\n  Second line.")
    assert archive.listing(store_of(repo)) == []
    handoff.save(place_of(repo), "Second line.")
    (kept,) = archive.listing(store_of(repo))
    assert (kept.path, kept.lane, kept.why, kept.state) == ("handoff/main.md", "handoff", "replaced", "done")
    assert "New first." in (store_of(repo) / "superseded" / kept.file).read_text()
    assert len(list((store_of(repo) / "handoff").iterdir())) == 1


def test_a_scene_is_kept_without_its_secrets_and_says_which(repo: Path) -> None:
    token = "gh" + "p_" + "Scene7" * 6
    saved = handoff.save(place_of(repo), f"Next: the release.\nIt needs {token}.")
    assert handoff.resume(place_of(repo)).body == "Next: the release.\nIt needs [github-token removed]."
    assert saved.masked == [{"kind": "github-token", "line": 2}]
    assert all(token.encode() not in file.read_bytes() for file in store_of(repo).rglob("*") if file.is_file())


@pytest.mark.parametrize("body", ["", " \n\t\n", "x" * (handoff.MAX_CHARS + 1)])
def test_a_scene_that_is_none_leaves_the_one_before(body: str, repo: Path) -> None:
    handoff.save(place_of(repo), "The scene.")
    with pytest.raises(Rejected):
        handoff.save(place_of(repo), body)
    assert handoff.resume(place_of(repo)).body == "The scene."
    assert AuditEntry.objects.filter(event="handoff_set").count() == 1


def test_an_empty_scene_makes_no_store(repo: Path) -> None:
    with pytest.raises(Rejected):
        handoff.save(place_of(repo), "")
    assert not paths.memory().exists()


@pytest.mark.parametrize(
    "body",
    [
        "---\nbranch: evil\n---\nbody",
        "---\n\ntext",
        "  indented\n    code",
        "a\n\n\n\nb",
        "中文 🎉 \u202e x",
        "# h\n---\nx",
    ],
)
def test_a_body_comes_back_as_it_was_sent(body: str, repo: Path) -> None:
    handoff.save(place_of(repo), body)
    scene = handoff.resume(place_of(repo))
    assert (scene.branch, scene.body) == ("main", body)


def test_a_scene_is_never_recalled_and_knows_its_branch_and_commit(repo: Path, git: Git) -> None:
    saved = handoff.save(place_of(repo), "The okapi scene.")
    text = saved.path.read_text()
    assert f"commit: {git(repo, 'rev-parse', 'HEAD')}" in text.replace('"', "")
    assert recall.recall(stores.for_reading(place_of(repo), "both"), "okapi scene") == []


def test_a_detached_head_has_a_scene_of_its_own(repo: Path, git: Git) -> None:
    handoff.save(place_of(repo), "On main.")
    git(repo, "checkout", "-q", "--detach")
    assert not handoff.resume(place_of(repo)).found
    saved = handoff.save(place_of(repo), "Detached.")
    assert (saved.branch, saved.path.name.startswith("detached-")) == ("HEAD", True)
    assert handoff.resume(place_of(repo)).body == "Detached."
    git(repo, "checkout", "-q", "main")
    assert handoff.resume(place_of(repo)).body == "On main."


def test_the_note_tells_what_changed_since(repo: Path, git: Git) -> None:
    (repo / "f").write_text("one")
    git(repo, "add", "f")
    git(repo, "commit", "-q", "-m", "f")
    handoff.save(place_of(repo), "Scene.")
    git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    (repo / "f").write_text("changed")
    note = handoff.resume(place_of(repo)).note
    assert note is not None
    assert "Commits since: 1." in note
    assert "Files changed and not committed now: 1." in note


def test_a_commit_that_is_gone_is_said_to_be(repo: Path) -> None:
    path = handoff.save(place_of(repo), "Scene.").path
    for commit in ("deadbeef" * 5, "--upload-pack=x", "HEAD~1..HEAD"):
        path.write_text(f"---\nbranch: main\ncommit: {commit}\n---\n\nScene.\n")
        assert "is gone" in str(handoff.resume(place_of(repo)).note)


@pytest.mark.parametrize(
    "data",
    [
        b"no block at all\n",
        b"\xff\xfe\x00",
        b"---\nbranch: a: b\n---\nx\n",
        b"",
        b"\xef\xbb\xbf---\nbranch: main\n---\nx\n",
    ],
)
def test_a_scene_edited_into_anything_is_resumed(data: bytes, repo: Path) -> None:
    path = handoff.save(place_of(repo), "Scene.").path
    path.write_bytes(data)
    assert handoff.resume(place_of(repo)).found
    assert path.read_bytes() == data
    handoff.save(place_of(repo), "After.")
    assert handoff.resume(place_of(repo)).body == "After."


def test_outside_a_project_there_is_none(tmp_path: Path) -> None:
    assert handoff.resume(place_of(tmp_path)) == handoff.Resumed(found=False)
    with pytest.raises(ScopeUnresolved, match="there is no global one"):
        handoff.save(place_of(tmp_path), "x")
