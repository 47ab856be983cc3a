"""Opening and revealing: only what is memory's, only by programs of the table, never through a shell."""

import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coffer import asgi, auth, desktop, paths, preferences, registry
from coffer.errors import CofferError, ConfigInvalid, Forbidden, NotFound
from memory.models import Store
from memory.services import facts, stores
from tests.conftest import Api
from tests.factories import StoreFactory
from tests.serving import serving

pytestmark = pytest.mark.skipif(sys.platform == "darwin", reason="the stand-ins are found on PATH, as on Linux")
Calls = Callable[[], list[dict[str, Any]]]

EDITOR = """#!{python}
import json, os, sys
with open({log!r}, "a") as file:
    file.write(json.dumps({{"argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd()}}) + "\\n")
sys.exit({code})
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put a stand-in for an editor on PATH, which notes how it was called."""
    folder = tmp_path / "programs of the person"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, code: int = 0) -> Path:
        script = EDITOR.format(python=sys.executable, log=str(tmp_path / "calls"), code=code)
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        return folder / name

    return put


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    """What the stand-ins noted, once one of them has."""

    def read() -> list[dict[str, Any]]:
        deadline = time.monotonic() + 10
        while not (log := tmp_path / "calls").exists() or not log.read_text().endswith("\n"):
            assert time.monotonic() < deadline, "no editor was started"
            time.sleep(0.01)
        return [json.loads(line) for line in log.read_text().splitlines()]

    return read


@pytest.fixture
def fact() -> facts.Fact:
    return facts.add(stores.provision("global"), "Deploy with make release.")


def test_a_fact_opens_in_the_preferred_editor(
    install: Callable[..., Path], calls: Calls, fact: facts.Fact, monkeypatch: pytest.MonkeyPatch
) -> None:
    zed = install("zed")
    install("xdg-open")
    for name in ("COFFER_TOKEN", "OPENAI_API_KEY", "GIT_DIR", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "not for editors")
    monkeypatch.setenv("DISPLAY", ":7")
    preferences.set("preferred_editor", "zed")
    assert desktop.open_file(fact.path) == desktop.Editor("zed", "Zed")
    (call,) = calls()
    assert call["argv"] == [str(zed), str(fact.path)]
    assert call["env"]["DISPLAY"] == ":7"
    assert "not for editors" not in call["env"].values()
    assert call["cwd"] == "/"


def test_a_folder_opens_too_and_an_editor_may_be_named_by_id(
    install: Callable[..., Path], calls: Calls, fact: facts.Fact
) -> None:
    install("code")
    assert desktop.open_file(str(fact.folder_path), editor="code").name == "Visual Studio Code"
    assert calls()[0]["argv"][1:] == [str(fact.folder_path)]


def test_the_editors_of_this_machine_are_found_by_id(install: Callable[..., Path], api: Api) -> None:
    install("subl")
    install("code").chmod(0o644)  # not a program
    install("vi")
    found = {editor.id for editor in desktop.editors()}
    assert "subl" in found
    assert found.isdisjoint({"code", "vi", "vim"})
    answer = api.get("/fs/editors").json()
    assert {"id": "subl", "name": "Sublime Text"} in answer["editors"]
    assert (answer["total"], answer["preferred"]) == (len(found), "default")


def test_programs_of_a_relative_folder_are_not_found(
    install: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(install("goland").parent)
    monkeypatch.setenv("PATH", ".:")
    assert "goland" not in {editor.id for editor in desktop.editors()}


def test_without_a_preference_the_systems_choice_opens_else_the_first_editor(
    install: Callable[..., Path], calls: Calls, fact: facts.Fact
) -> None:
    if desktop.editors():
        pytest.skip("this machine has editors where they are always looked for")
    with pytest.raises(ConfigInvalid, match="No editor"):
        desktop.open_file(fact.path)
    install("kate")
    assert desktop.open_file(fact.path).id == "kate"
    install("xdg-open")
    assert desktop.open_file(fact.path).id == "default"
    assert [Path(call["argv"][0]).name for call in calls()] == ["kate", "xdg-open"]


@pytest.mark.parametrize("editor", ["goland", "code --wait", "sh -c id", "/bin/sh", "../code", ""])
def test_an_editor_that_is_not_there_is_said_to_be_so(
    install: Callable[..., Path], fact: facts.Fact, editor: str, tmp_path: Path
) -> None:
    install("zed")
    preferences.set("preferred_editor", "webstorm")
    with pytest.raises(ConfigInvalid, match=r"not installed here; choose one of .*zed"):
        desktop.open_file(fact.path, editor=editor)
    assert not (tmp_path / "calls").exists()


def test_an_editor_that_fails_at_once_is_said_to_have_failed(install: Callable[..., Path], fact: facts.Fact) -> None:
    install("zed", code=3)
    with pytest.raises(ConfigInvalid, match="Zed ended at once with code 3"):
        desktop.open_file(fact.path, editor="zed")
    install("zed").write_text("no program at all")
    with pytest.raises(ConfigInvalid, match="Zed could not be started"):
        desktop.open_file(fact.path, editor="zed")


def test_an_editor_that_stays_open_holds_nobody_up(install: Callable[..., Path], fact: facts.Fact) -> None:
    script = install("zed")
    script.write_text(f"#!{sys.executable}\nimport signal\nsignal.alarm(2)\nsignal.pause()\n")
    started = time.monotonic()
    desktop.open_file(fact.path, editor="zed")
    assert time.monotonic() - started < 1.9


def test_reveal_shows_the_folder(install: Callable[..., Path], calls: Calls, fact: facts.Fact) -> None:
    install("xdg-open")
    assert desktop.reveal(fact.path) == fact.folder_path
    assert desktop.reveal(fact.folder_path) == fact.folder_path
    assert [call["argv"][1:] for call in calls()] == [[str(fact.folder_path)]] * 2


def refused(path: Path | str) -> set[type[CofferError]]:
    """The errors that open and reveal answer with."""
    found = set()
    for verb in (desktop.open_file, desktop.reveal):
        with pytest.raises(CofferError) as caught:
            verb(path)
        found.add(type(caught.value))
    return found


@pytest.mark.parametrize(
    "path",
    [
        '";touch /tmp/pwned-ed;"',
        "$(touch /tmp/pwned-ed)",
        "-n --wait",
        "/etc/passwd",
        "/etc",
        "/",
        "",
        ".",
        "https://evil.example/x.md",
        "file:///etc/passwd",
        "~/x.md",
        "memory/global",
        "/nowhere/x.md",
        "/etc/pass\0wd",
        "/" + "x" * 5000,
    ],
)
def test_bc_149_what_is_not_memorys_is_refused(
    install: Callable[..., Path], path: str, fact: facts.Fact, tmp_path: Path
) -> None:
    install("xdg-open")
    assert refused(path) == {Forbidden}
    assert not (tmp_path / "calls").exists()
    assert not Path("/tmp/pwned-ed").exists()


def test_bc_149_ways_out_of_memory_are_refused(
    install: Callable[..., Path], fact: facts.Fact, tmp_path: Path, home: Path
) -> None:
    install("xdg-open")
    folder = stores.folder(stores.get("global"))
    outside = tmp_path / "outside.md"
    outside.write_text("secret")
    (folder / "knowledge" / "link.md").symlink_to(outside)
    (folder / "knowledge" / "away").symlink_to(tmp_path)
    (folder / "knowledge" / "round.md").symlink_to(folder / "knowledge" / "round.md")
    for path in (
        folder / "knowledge" / "link.md",
        folder / "knowledge" / "away",
        folder / "knowledge" / "away" / "outside.md",
        f"{folder}/../../x",
        f"{folder}/../../token",
        home / "token",
        home / "coffer.sqlite3",
        home,
        folder / "knowledge" / "round.md",
    ):
        assert refused(path) == {Forbidden}, path
    assert not (tmp_path / "calls").exists()


def test_bc_149_programs_launchers_and_pages_are_not_opened(
    install: Callable[..., Path], calls: Calls, fact: facts.Fact, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("xdg-open")
    lane = fact.folder_path
    for name in ("evil.desktop", "evil.DESKTOP", ".desktop", "evil.command"):
        (lane / name).write_text("[Desktop Entry]\nExec=touch /tmp/pwned-ed\n")
        assert refused(lane / name) == {Forbidden}
    (lane / "Evil.app").mkdir()
    assert refused(lane / "Evil.app") == {Forbidden}
    for name in ("evil.html", "evil.svg", "evil.sh", "x.md; id", "evil"):
        (lane / name).write_text("<script>")
        with pytest.raises(Forbidden, match="Only text files"):
            desktop.open_file(lane / name)
    os.mkfifo(lane / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(lane)  # a socket's path may not be long
        server.bind("socket.md")
        for name in ("pipe.md", "socket.md", "gone.md"):
            assert refused(lane / name) == {NotFound}
    (lane / "-n --wait $(id).md").write_text("text")
    desktop.open_file(lane / "-n --wait $(id).md")
    assert calls()[-1]["argv"][1:] == [str(lane / "-n --wait $(id).md")]
    assert not Path("/tmp/pwned-ed").exists()


def test_a_store_whose_folder_is_a_link_opens(install: Callable[..., Path], calls: Calls, tmp_path: Path) -> None:
    install("xdg-open")
    store: Store = StoreFactory(files={"knowledge/topic.md": "Text."})
    paths.store("global").rename(tmp_path / "dotfiles")
    paths.store("global").symlink_to(tmp_path / "dotfiles")
    desktop.open_file(stores.folder(store) / "knowledge" / "topic.md")
    assert calls()[0]["argv"][1:] == [str(tmp_path / "dotfiles" / "knowledge" / "topic.md")]


def test_places_that_an_app_registers_open_too(
    install: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("xdg-open")
    session = tmp_path / "sessions" / "s.jsonl"
    session.parent.mkdir()
    session.write_text("{}")
    monkeypatch.setattr(registry, "_openable", dict(registry._openable))
    assert refused(session) == {Forbidden}
    registry.add_openable("sessions", lambda: [session])
    assert desktop.open_file(session).id == "default"
    assert refused(session.parent) == {Forbidden}


def test_open_and_reveal_over_rest(install: Callable[..., Path], api: Api, fact: facts.Fact) -> None:
    install("xdg-open")
    path = str(fact.path)
    opened = {"path": path, "editor": {"id": "default", "name": "The system's choice"}}
    assert api.post("/fs/open", {"path": path}).json() == opened
    assert api.post("/fs/reveal", {"path": path}).json() == {"path": path, "folder_path": str(fact.folder_path)}
    for body, status, code in (
        ({"path": "/etc/passwd"}, 403, "FORBIDDEN"),
        ({"path": str(fact.folder_path / "gone.md")}, 404, "NOT_FOUND"),
        ({"path": ""}, 422, "INVALID"),
        ({}, 422, "INVALID"),
        ({"path": path, "editor": "sh -c id"}, 422, "CONFIG_INVALID"),
        ({"path": path, "command": "sh"}, 422, "INVALID"),
    ):
        answer = api.post("/fs/open", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), body


def test_bc_149_without_the_token_or_from_another_site_nothing_opens(
    install: Callable[..., Path], client: Any, fact: facts.Fact, tmp_path: Path
) -> None:
    install("xdg-open")
    body = json.dumps({"path": str(fact.path)})
    with serving(asgi.build()) as address:
        for origin in ("https://evil.example", "null"):
            headers = {"Origin": origin, "X-Coffer-Token": auth.token(), "Content-Type": "application/json"}
            connection = http.client.HTTPConnection(address, timeout=20)
            connection.request("POST", "/api/v1/fs/open", body, headers)
            assert connection.getresponse().status == 403
            connection.close()
    for verb in ("open", "reveal"):
        answer = client.post(f"/api/v1/fs/{verb}", {"path": str(fact.path)}, content_type="application/json")
        assert answer.status_code == 401
    assert not (tmp_path / "calls").exists()
