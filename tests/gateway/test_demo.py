"""``coffer demo``: what it shows is real, and it leaves nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gateway import demo
from gateway.demo import DemoFailed, Step
from tests.processes import Machine


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its temporary folder."""
    folder = tmp_path / "stage"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_the_demo_plays_to_its_end_and_leaves_nothing(machine: Machine, stage: Path) -> None:
    done = machine.coffer("demo", TMPDIR=str(stage), CLAUDE_PROJECT_DIR="/", GIT_DIR="/nowhere")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("✓ ") == 8
    assert "✗" not in done.stdout
    assert "make ship" in done.stdout
    assert not list(stage.iterdir())
    assert not Machine(stage).processes()
    assert not (machine.home / "memory").exists()
    assert not (machine.home / "daemon.json").exists()


def test_a_failed_step_is_marked_and_ends_in_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def play() -> Iterator[Step]:
        yield Step("goes well", True, "one\ntwo")
        yield Step("goes wrong", False)

    monkeypatch.setattr(demo, "play", play)
    with pytest.raises(CommandError, match=r"1 of the demo's steps failed"):
        call_command("demo", no_color=True)
    assert capsys.readouterr().out.splitlines() == ["✓ goes well", "    one", "    two", "✗ goes wrong"]


@pytest.mark.parametrize("script", ["raise SystemExit(3)", "print('no JSON', flush=True)"])
def test_a_shim_that_does_not_work_ends_the_demo_and_leaves_nothing(
    stage: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(demo, "_PYTHON", (sys.executable, "-c", script))
    with pytest.raises(DemoFailed, match="shim"):
        list(demo.play())
    assert not list(stage.iterdir())


def test_without_git_the_demo_says_what_is_missing(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DemoFailed, match="git"):
        next(demo.play())
    assert not list(stage.iterdir())
