"""The steps that handed cases have for the hooks: a start and an end of a session beside each thing that can go wrong.

What only concerns the process itself (BC-032, BC-033, BC-036, BC-038, BC-109, BC-114, BC-116) is in tests/agents.
"""

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import connections

from agents.models import Delivery
from coffer import later, paths
from tests.cases.steps import call, drop, fingerprint, foreign_lock, within
from tests.conftest import Api
from tests.processes import Machine, eventually, machine  # noqa: F401

Repos = Callable[..., Path]
Git = Callable[..., str]
FAKE = "FAKEtok_9f8e7d"


def begin(api: Api, cwd: Path | str, agent: str = "claude_code") -> str:
    """What a session is told at its start."""
    answer = api.get(f"/agents/{agent}/session-context?cwd={quote(str(cwd))}&session_id=s-1", X_Coffer_Hook="1")
    assert answer.status_code == 200, answer.content
    return str(answer.json()["additional_context"])


def end(api: Api, cwd: Path | str, session: str = "s-1") -> int:
    return int(api.post(f"/agents/claude_code/sessions/{session}/end", {"cwd": str(cwd)}).status_code)


def projects() -> list[str]:
    """The projects of all deliveries so far, oldest first."""
    later.flush()
    return list(Delivery.objects.order_by("id").values_list("project", flat=True))


def test_bc_008_a_foreign_lock_holds_up_neither_the_start_nor_the_end_of_a_session(repo: Path, api: Api) -> None:
    call("remember", repo, text="The okapi build takes nine minutes.")
    begin(api, repo, agent="codex")  # what the first request of a process loads
    later.flush()
    with foreign_lock():
        with within(1.5):
            assert "The okapi build takes nine minutes." in begin(api, repo)
        with within(1.5):
            assert end(api, repo) == 200
        assert Delivery.objects.count() == 1
    assert len(projects()) == 3


def test_bc_020_titles_of_every_yaml_type_are_in_the_context_as_they_are_written(repo: Path, api: Api) -> None:
    name = call("recall", repo, query="x")["project"]["store"]
    titles = ("2026-10-24", "on", "1.10", "0123", "12:30:45", "1e3")
    for number, title in enumerate(titles):
        drop(f"knowledge/inbox/f{number}.md", f"---\ntitle: {title}\n---\nbody {number}\n", name)
    lines = begin(api, repo).split("\n")
    for title in titles:
        assert any(line.startswith(f"- {title}") for line in lines), title


def test_bc_073_a_submodule_is_the_same_project_at_the_start_and_the_end_of_a_session(
    make_repo: Repos, git: Git, api: Api
) -> None:
    core, app = make_repo("core"), make_repo("app")
    git(app, "submodule", "add", "-q", str(core), "libs/core")
    git(app / "libs" / "core", "remote", "remove", "origin")
    inside = app / "libs" / "core" / "src"
    inside.mkdir()
    saved = call("remember", inside, text="The okapi of the core.")
    assert "The okapi of the core." in begin(api, inside)
    assert "The okapi of the core." not in begin(api, app)
    end(api, inside)
    assert [projects()[0], projects()[2]] == [saved["project"]["store"]] * 2


@pytest.mark.parametrize("inside", ["hub.git", "hub.git/hooks", "repo/.git", "repo/.git/refs"])
def test_bc_078_inside_a_repositorys_own_folder_a_session_has_no_project(
    make_repo: Repos, git: Git, tmp_path: Path, api: Api, inside: str
) -> None:
    make_repo("repo")
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "work" / "hub.git"))
    place = tmp_path / "work" / inside
    place.mkdir(exist_ok=True)
    assert begin(api, place)
    assert end(api, place) == 200
    assert projects() == ["", ""]
    assert not paths.projects().exists()


def test_bc_079_a_home_that_is_a_repository_is_no_project_of_a_session(git: Git, tmp_path: Path, api: Api) -> None:
    person = tmp_path / "person"
    git(person, "init", "-q", "-b", "main")
    git(person, "remote", "add", "origin", "https://git.example.org/dev/dotfiles.git")
    (person / "notes").mkdir()
    for place in (person, person / "notes", paths.home(), paths.home() / "memory"):
        begin(api, place)
        end(api, place)
    assert set(projects()) == {""}


def test_bc_081_a_token_in_the_remote_is_in_no_context_and_no_ledger(
    make_repo: Repos, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    repo = make_repo(remote=f"https://oauth2:{FAKE}@git.example.org/acme/widget.git")
    call("remember", repo, text="A fact.")
    assert FAKE not in begin(api, repo) + caplog.text
    end(api, repo)
    later.flush()
    connections.close_all()
    assert not [file for file in paths.home().rglob("*") if file.is_file() and FAKE.encode() in file.read_bytes()]


def test_a_session_of_a_grown_project_begins_within_its_time(machine: Machine, repo: Path) -> None:  # noqa: F811
    name = call("recall", repo, query="x")["project"]["store"]
    for number in range(1000):
        drop(f"knowledge/inbox/f{number}.md", f"---\ntitle: The okapi number {number}.\n---\nbody {number}\n", name)
    for number in range(200):
        drop(f"journal/{2020 + number // 28}-01-{number % 28 + 1:02d}.md", f"# day\n\nEntry {number}.\n", name)
    call("recall", repo, query="okapi")
    machine.up()
    given = {"session_id": "s-1", "cwd": str(repo)}
    assert eventually(lambda: machine.hook(given).context.count("The okapi number ") > 50)


def test_bc_105_on_a_full_or_forbidden_log_a_session_begins_all_the_same(machine: Machine, repo: Path) -> None:  # noqa: F811
    call("remember", repo, text="Okapi before.")
    machine.up()
    (machine.home / "logs" / "hook.log").symlink_to("/dev/full")
    given = {"session_id": "s-1", "cwd": str(repo)}
    assert "Okapi before." in machine.told(given).context
    before = fingerprint(machine.home / "memory")
    os.kill(machine.daemon_file()["pid"], signal.SIGSTOP)
    assert machine.hook(given).stdout == b""
    os.kill(machine.daemon_file()["pid"], signal.SIGCONT)
    assert fingerprint(machine.home / "memory") == before


@pytest.mark.parametrize("damage", ["overwritten", "removed", "no table"])
def test_bc_141_a_damaged_database_keeps_no_session_from_its_memory(
    machine: Machine,  # noqa: F811
    repo: Path,
    damage: str,
) -> None:
    call("remember", repo, text="The okapi build takes nine minutes.")
    later.flush()
    connections.close_all()
    machine.up()
    if damage == "overwritten":
        with paths.database().open("r+b") as file:
            file.seek(4096)
            file.write(os.urandom(200_000))
    elif damage == "removed":
        for end_ in ("", "-wal", "-shm"):
            Path(f"{paths.database()}{end_}").unlink(missing_ok=True)
    else:
        with sqlite3.connect(paths.database()) as plain:
            plain.execute("DROP TABLE memory_document")
        plain.close()
    given = {"session_id": "s-1", "cwd": str(repo)}
    told = eventually(lambda: machine.hook(given).context)  # a first one may fall silent while all is built anew
    assert "The okapi build takes nine minutes." in told


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc", "%2fetc%2fpasswd", "....%2f%2f", "..%5c", "%00", "x" * 10_000, "a%0a"]
)
def test_bc_150_odd_names_and_ids_reach_nothing_at_the_end_or_start_of_a_session(
    api: Api, home: Path, name: str
) -> None:
    before = sorted(home.rglob("*"))
    for answer in (
        api.post(f"/agents/{name}/sessions/s-1/end", {"cwd": "/"}),
        api.get(f"/agents/{name}/session-context?cwd=/"),
        api.post(f"/agents/{name}/prompt-context", {"prompt": "x"}),
    ):
        assert answer.status_code in (400, 404, 422)
        assert str(home) not in answer.content.decode()
    assert api.post(f"/agents/claude_code/sessions/{name}/end", {"cwd": "/"}).status_code in (200, 404, 422)
    assert [path for path in sorted(home.rglob("*")) if "coffer.sqlite3" not in path.name] == [
        path for path in before if "coffer.sqlite3" not in path.name
    ]
