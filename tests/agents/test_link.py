"""Finding the daemon, having it prove itself, starting it."""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import link
from coffer import env
from tests.fake_daemon import TOKEN, FakeDaemon
from tests.processes import Machine, eventually


@pytest.fixture
def fake(home: Path) -> Iterator[FakeDaemon]:
    daemon = FakeDaemon(home)
    yield daemon
    daemon.close()


def point_at(home: Path, port: int) -> None:
    (home / "token").write_text(TOKEN, encoding="utf-8")
    (home / "daemon.json").write_text(f'{{"pid": 1, "port": {port}}}', encoding="utf-8")


@pytest.mark.parametrize("given", ["/somewhere/else", "~/mine", ""])
def test_the_home_is_the_one_the_daemon_uses(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("COFFER_HOME", given)
    assert link.home() == str(env.home())


def test_a_relative_home_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_HOME", "mine")
    with pytest.raises(link.NoDaemon, match="a relative path"):
        link.home()


def test_a_setting_comes_from_the_environment_or_from_config_env(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert link.setting("COFFER_AUTOSTART", "1") == "1"
    (home / "config.env").write_text('# mine\nexport COFFER_AUTOSTART="0"\n', encoding="utf-8")
    assert link.setting("COFFER_AUTOSTART", "1") == "0" == env.text("COFFER_AUTOSTART")
    monkeypatch.setenv("COFFER_AUTOSTART", "yes")
    assert link.setting("COFFER_AUTOSTART", "1") == "yes"


def test_a_daemon_that_proves_itself_gets_the_token_on_the_same_connection(fake: FakeDaemon) -> None:
    connection = link.connect()
    assert connection is not None
    status, headers, body = connection.request("POST", "/mcp", b'{"id": 1, "method": "ping"}', {"X-Mine": "1"})
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert body.startswith(b'{"jsonrpc"')
    proof, call = fake.seen
    assert "x-coffer-token" not in proof.headers
    assert call.headers["x-coffer-token"] == TOKEN
    assert call.headers["x-mine"] == "1"
    assert connection.usable()
    connection.close()
    assert not connection.usable()


def test_bc109_a_program_that_cannot_prove_itself_never_sees_the_token(fake: FakeDaemon) -> None:
    fake.honest = False
    assert link.connect() is None
    assert fake.seen
    assert not any(TOKEN in str(seen.headers) for seen in fake.seen)


def test_a_closed_connection_is_not_opened_again_without_proof(fake: FakeDaemon) -> None:
    connection = link.connect()
    assert connection is not None
    connection.close()
    with pytest.raises(link.FAILURES):
        connection.send("GET", "/")
    assert len(fake.seen) == 1


def test_bc109_a_foreign_web_server_on_the_port_is_not_a_daemon(home: Path) -> None:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        point_at(home, server.server_address[1])
        assert link.connect() is None
        server.shutdown()


def test_bc109_a_silent_listener_on_the_port_costs_only_the_time_given(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_at(home, silent.getsockname()[1])
        started = time.monotonic()
        assert link.connect(timeout=0.2) is None
        assert time.monotonic() - started < 1.5


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"pid": 1, "port": "9"}', '{"port": 99999}', "\0"])
def test_a_broken_daemon_json_is_no_daemon(home: Path, content: str) -> None:
    point_at(home, 9)
    (home / "daemon.json").write_text(content, encoding="utf-8")
    assert link.read_daemon_file() is None
    assert link.connect() is None


def test_bc038_proxies_of_the_environment_are_not_asked(fake: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    connection = link.connect()
    assert connection is not None
    connection.close()


def test_bc011_a_daemon_gets_a_clean_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "PYTHONHOME", "VIRTUAL_ENV", "OPENAI_API_KEY", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.setenv(name, "/elsewhere")
    for name in ("LC_ALL", "TZ", "XDG_CONFIG_HOME", "COFFER_PORT", "HTTPS_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "kept")
    found = link.environment()
    assert "/elsewhere" not in found.values()
    assert {name for name, value in found.items() if value == "kept"} == {
        *("LC_ALL", "TZ", "XDG_CONFIG_HOME", "COFFER_PORT", "HTTPS_PROXY", "no_proxy")
    }
    assert found["COFFER_HOME"] == str(home)


def test_autostart_can_be_turned_off(home: Path) -> None:
    (home / "config.env").write_text("COFFER_AUTOSTART=0\n", encoding="utf-8")
    with pytest.raises(link.NoDaemon, match=r"COFFER_AUTOSTART=0 is set; start it with `coffer up`"):
        link.ensure(5)
    assert not (home / "logs").exists()


def test_bc108_a_home_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("COFFER_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(link.NoDaemon, match=r"cannot be written \(Not a directory\)"):
        link.ensure(5)


def test_a_daemon_that_cannot_start_says_why_at_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFFER_LOG_LEVEL", "LOUD")
    started = time.monotonic()
    with pytest.raises(link.NoDaemon, match="COFFER_LOG_LEVEL is 'LOUD'"):
        link.ensure(60)
    assert time.monotonic() - started < 20


def test_a_daemon_that_hangs_is_not_waited_for(machine: Machine) -> None:
    pid = machine.up()["pid"]
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(link.NoDaemon, match=f"process {pid}\\) does not answer; `coffer down` ends it"):
        link.ensure(60)
    assert time.monotonic() - started < 20
    os.kill(pid, signal.SIGCONT)
    eventually(link.connect).close()


def test_bc116_of_ten_that_ask_at_once_one_starts_the_daemon(machine: Machine) -> None:
    code = "from agents import link; print(link.ensure(60).instance)"
    command = [sys.executable, "-P", "-c", code]
    asking = [machine.popen(command, stdout=subprocess.PIPE, text=True) for _ in range(10)]
    answers = {process.communicate(timeout=90)[0] for process in asking}
    assert len(answers) == 1
    assert len(machine.processes("coffer.daemon")) == 1
    assert link.lock_holder() == machine.daemon_file()["pid"]


def test_a_daemon_is_nobodys_child_so_that_ending_its_starter_leaves_it(machine: Machine) -> None:
    code = "import time; from agents import link; link.ensure(60); print('up', flush=True); time.sleep(600)"
    starter = machine.popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert starter.stdout is not None
    assert starter.stdout.readline() == "up\n"
    children = subprocess.run(["ps", "-eo", "ppid="], capture_output=True, text=True, check=True).stdout.split()
    assert str(starter.pid) not in children
    os.killpg(starter.pid, 9)
    starter.wait()
    connection = eventually(link.connect)
    connection.close()


def test_the_small_processes_load_nothing_heavy() -> None:
    code = "import sys; sys.path.append(sys.argv[1]); import gateway.shim; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, link.ROOT]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert not loaded & {"argparse", "asyncio", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "typing"}
    assert not {name for name in loaded if name.partition(".")[0] in ("coffer", "memory", "django", "mcp")}
