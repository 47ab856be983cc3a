"""These modules know no database: a home of the test's own is all they need, and real git repositories."""

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no reason to fail.
settings.register_profile("coffer", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("coffer")

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """COFFER_HOME of this test; HOME is beside it."""
    person, coffer = tmp_path / "person", tmp_path / "coffer"
    person.mkdir()
    coffer.mkdir()
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("COFFER_HOME", str(coffer))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(person / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return coffer


@pytest.fixture
def case() -> Callable[[str], Path]:
    """The folder with the inputs of a case."""
    return lambda name: CASES / name


@pytest.fixture
def wrap_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a shell script in front of git on PATH; `$real` in it is the real one. Returns the folder it stands in."""

    def wrap(script: str) -> Path:
        real = shutil.which("git")
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "git"
        program.write_text(f"#!/bin/sh\nreal={real}\n{script}\n", encoding="utf-8")
        program.chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return folder

    return wrap
