"""Every test has a home of its own: real files, a real database file, never the person's."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Settings read the home when they are imported, before any fixture runs; named here and not in pyproject.toml, because
# pytest-django would import them from there before it reads this file.
_SESSION_HOME = Path(tempfile.mkdtemp(prefix="coffer-tests-"))
os.environ["COFFER_HOME"] = str(_SESSION_HOME)
os.environ["DJANGO_SETTINGS_MODULE"] = "coffer.settings"
for _name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[_name]

import django  # noqa: E402
import pytest  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import Client  # noqa: E402
from pytest_django.plugin import DjangoDbBlocker  # noqa: E402

django.setup()


def pytest_unconfigure() -> None:
    shutil.rmtree(_SESSION_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated_database(django_db_blocker: DjangoDbBlocker) -> Path:
    """A database as the program itself makes it, copied for every test."""
    from coffer import db

    # A worker of a parallel run inherits the environment, and with it settings that name the database of its parent.
    connections.settings["default"]["NAME"] = str(_SESSION_HOME / "coffer.sqlite3")
    with django_db_blocker.unblock():
        db.prepare()
        connections.close_all()
    # Under another name: a write that outlives its test goes to the database that the settings name by then.
    return Path(shutil.copy(_SESSION_HOME / "coffer.sqlite3", _SESSION_HOME / "migrated.sqlite3"))


@pytest.fixture(autouse=True)
def home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, migrated_database: Path, django_db_blocker: DjangoDbBlocker
) -> Iterator[Path]:
    """COFFER_HOME of this test, with a migrated database; HOME is beside it."""
    from coffer import later

    person, coffer = tmp_path / "person", tmp_path / "coffer"
    person.mkdir()
    coffer.mkdir(mode=0o700)
    shutil.copy(migrated_database, coffer / "coffer.sqlite3")
    monkeypatch.setenv("HOME", str(person))
    monkeypatch.setenv("COFFER_HOME", str(coffer))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(person / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", *_engine_settings()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(later, "_dropped", 0)
    connections.close_all()
    monkeypatch.setitem(connections.settings["default"], "NAME", str(coffer / "coffer.sqlite3"))
    with django_db_blocker.unblock():
        yield coffer
        assert later.flush(2 * later.PATIENCE)
        connections.close_all()


def _engine_settings() -> list[str]:
    """The person's own engine is none of the tests' business."""
    return [name for name in os.environ if name.startswith("COFFER_LLM_")]


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[..., Path]:
    """Make a real git repository with one commit."""

    def make(name: str = "repo", *, remote: str | None = None, branch: str = "main") -> Path:
        path = tmp_path / "work" / name
        path.mkdir(parents=True)
        git(path, "init", "-q", "-b", branch)
        git(path, "commit", "-q", "--allow-empty", "-m", "first")
        if remote:
            git(path, "remote", "add", "origin", remote)
        return path

    return make


@pytest.fixture
def repo(make_repo: Callable[..., Path]) -> Path:
    return make_repo(remote="git@git.example.org:acme/widget.git")


def git(path: Path, *arguments: str) -> str:
    """Run git as a person of the test would."""
    who = ["-c", "user.name=dev", "-c", "user.email=dev@example.org", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *who, *arguments], cwd=path, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture(name="git")
def git_fixture() -> Callable[..., str]:
    return git


class Api:
    """The REST API as a program with the token uses it."""

    def __init__(self, token: str) -> None:
        self._client = Client(headers={"X-Coffer-Token": token})

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self._client.generic(
            method,
            f"/api/v1{path}",
            data="" if body is None else json.dumps(body),
            content_type="application/json",
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)


@pytest.fixture
def api() -> Api:
    from coffer import auth

    return Api(auth.token())


from tests.fake_llm import fake_llm  # noqa: E402, F401 - a fixture for every folder
