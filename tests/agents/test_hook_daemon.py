"""Hooks and their daemon: down, hung, foreign, replaced, or behind files of no use. Always code 0, in time."""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cases.steps import read_only, stranger
from tests.fake_daemon import CONTEXT, TOKEN, FakeDaemon, Reply
from tests.processes import HELLO, Machine, answers, eventually

START = {"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/a"}
PAYLOAD = json.dumps(START).encode()


def point_at(home: Path, port: int, pid: int = 1) -> None:
    (home / "token").write_text(TOKEN, encoding="utf-8")
    (home / "daemon.json").write_text(json.dumps({"pid": pid, "port": port}), encoding="utf-8")


def test_bc038_a_proxy_in_the_environment_changes_nothing(machine: Machine, daemon: FakeDaemon) -> None:
    proxy = "http://127.0.0.1:9"
    machine.env |= {"HTTP_PROXY": proxy, "http_proxy": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": "socks5://127.0.0.1:9"}
    assert machine.told(START).context == CONTEXT


@pytest.mark.acceptance(spec="007-memory", scenario="a failed or hook-less injection never blocks the agent")
def test_a_daemon_that_hangs_over_the_question_costs_the_limit_and_no_more(
    machine: Machine, daemon: FakeDaemon
) -> None:
    (machine.home / "logs").mkdir()
    release = threading.Event()
    daemon.context = lambda seen: Reply(b"{}", after=release)
    for event in ("SessionStart", "SessionEnd", "UserPromptSubmit"):
        assert machine.hook(START, event=event).stdout == b""
    log = machine.home / "logs" / "hook.log"
    eventually(lambda: machine.hook(START).stdout == b"" and "SessionStart 'claude_code' no answer" in log.read_text())
    release.set()


def test_a_daemon_that_is_replaced_just_now_is_asked_again(machine: Machine, daemon: FakeDaemon) -> None:
    replies = [Reply(hang_up=True), Reply(json.dumps({"additional_context": "from the next"}).encode())]
    daemon.context = lambda seen: replies.pop(0) if len(replies) > 1 else replies[0]
    assert machine.told(START).context == "from the next"
    daemon.context = lambda seen: Reply(hang_up=True)
    assert machine.hook(START).context == ""


@pytest.mark.acceptance(spec="007-memory", scenario="a failed or hook-less injection never blocks the agent")
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"7", b'"x"', b'{"additional_context": 7}', b"\xff", b'{"additional_context": null}'],
)
def test_an_answer_that_makes_no_sense_is_silence(machine: Machine, daemon: FakeDaemon, body: bytes) -> None:
    daemon.context = lambda seen: Reply(body)
    assert machine.hook(START).stdout == b""


def test_a_daemon_that_cannot_prove_itself_is_told_nothing(machine: Machine, daemon: FakeDaemon) -> None:
    daemon.honest = False
    assert machine.hook(START).stdout == b""
    assert daemon.asked() == []


def garbage(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 10_000)


def silence(listener: socket.socket) -> None:
    """Accept nobody: the backlog takes some, then not even that."""
    with ExitStack() as waiting:
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(listener.getsockname())
        eventually(lambda: listener.fileno() == -1)


@pytest.mark.parametrize("behaviour", [garbage, silence])
@pytest.mark.parametrize("autostart", ["0", "1"])
def test_bc109_a_foreign_program_on_the_port_is_silence_or_gives_way_to_a_daemon_on_another(
    machine: Machine, behaviour: Callable[[socket.socket], None], autostart: str
) -> None:
    machine.env["COFFER_AUTOSTART"] = autostart
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        point_at(machine.home, listener.getsockname()[1])
        threading.Thread(target=behaviour, args=(listener,), daemon=True).start()
        machine.hook({**START, "cwd": "/"})
        if autostart == "1":
            eventually(answers)
            assert machine.daemon_file()["port"] != listener.getsockname()[1]
        assert len(machine.processes("coffer.daemon")) == int(autostart)


def test_bc109_a_foreign_web_server_on_the_port_is_not_told_anything(machine: Machine) -> None:
    heard: list[str] = []

    class Server(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            heard.append(f"{self.path} {self.headers}")

    machine.env["COFFER_AUTOSTART"] = "0"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        point_at(machine.home, server.server_address[1])
        assert machine.hook(START).stdout == b""
        server.shutdown()
    assert all(TOKEN not in one and "cwd" not in one for one in heard)


def test_bc109_a_listener_of_ipv6_alone_is_not_met(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("there is no IPv6 here")
        listener.listen()
        point_at(machine.home, listener.getsockname()[1])
        assert machine.hook(START).stdout == b""


@pytest.mark.acceptance(spec="007-memory", scenario="a failed or hook-less injection never blocks the agent")
def test_bc109_a_dead_port_is_silence(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    point_at(machine.home, 9)
    assert machine.hook(START).stdout == b""


def test_bc111_the_hooks_of_two_homes_talk_to_their_own_daemons_alone(
    machine: Machine, daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = FakeDaemon(tmp_path / "other")
    other.context = lambda seen: Reply(b'{"additional_context": "of the other"}')
    elsewhere = {**machine.env, "COFFER_HOME": str(tmp_path / "other")}
    assert machine.told(START).context == CONTEXT
    assert machine.told(START, env=elsewhere).context == "of the other"
    (machine.home / "token").write_text("the-token-of-this-home", encoding="utf-8")
    (machine.home / "daemon.json").write_bytes((tmp_path / "other" / "daemon.json").read_bytes())
    assert machine.hook(START).stdout == b""
    assert {seen.headers["x-coffer-token"] for seen in [*daemon.asked(), *other.asked()]} == {TOKEN}
    other.close()


@pytest.mark.acceptance(spec="007-memory", scenario="a failed or hook-less injection never blocks the agent")
def test_a_stopped_daemon_holds_up_nobody_and_serves_again_when_it_goes_on(machine: Machine) -> None:
    pid = machine.up()["pid"]
    os.kill(pid, signal.SIGSTOP)
    for event in ("SessionStart", "SessionEnd", "UserPromptSubmit"):
        assert machine.hook({**START, "cwd": "/"}, event=event).stdout == b""
    assert len(machine.processes("coffer.daemon")) == 1
    os.kill(pid, signal.SIGCONT)
    eventually(answers)


@pytest.mark.parametrize("foreign", ["sleep", "python", "1"])
def test_bc114_a_stale_pid_neither_stops_the_hook_nor_is_harmed(machine: Machine, foreign: str) -> None:
    commands = {"sleep": ["sleep", "600"], "python": [sys.executable, "-c", "import time; time.sleep(600)"]}
    other = machine.popen(commands[foreign]) if foreign in commands else None
    point_at(machine.home, 9, pid=other.pid if other else 1)
    machine.hook({**START, "cwd": "/"})
    eventually(answers)
    assert other is None or other.poll() is None


def test_bc116_ten_hooks_and_ten_shims_at_once_bring_up_one_daemon(machine: Machine) -> None:
    hooks: list[Any] = [
        machine.popen(machine.hook_command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(10)
    ]
    shims = [machine.shim() for _ in range(10)]
    for shim in shims:
        shim.send("initialize", HELLO, "hello")
    for hook in hooks:
        hook.communicate(timeout=30)
        assert hook.returncode == 0
    for shim in shims:
        assert "result" in shim.answer("hello", 60)
    assert len(machine.processes("coffer.daemon")) == 1
    assert machine.processes("coffer-hook") == []


@pytest.mark.parametrize("name", ["token", "daemon.json", "config.env"])
def test_a_file_that_never_opens_costs_the_limit_and_no_more(machine: Machine, name: str) -> None:
    machine.env.pop("COFFER_AUTOSTART", None)
    (machine.home / "logs").mkdir()
    if name != "daemon.json":
        point_at(machine.home, 9)
        (machine.home / name).unlink(missing_ok=True)
    os.mkfifo(machine.home / name)
    assert machine.hook(START).stdout == b""
    assert "no answer within" in (machine.home / "logs" / "hook.log").read_text(encoding="utf-8")
    (machine.home / name).unlink()


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe", b"wrong"])
def test_a_token_that_cannot_be_used_is_silence(machine: Machine, daemon: FakeDaemon, content: bytes | None) -> None:
    (machine.home / "token").unlink()
    if content is not None:
        (machine.home / "token").write_bytes(content)
    assert machine.hook(START).stdout == b""


def test_a_log_that_cannot_be_written_is_no_error(machine: Machine) -> None:
    machine.env["COFFER_AUTOSTART"] = "0"
    (machine.home / "logs").mkdir()
    for make in (Path.mkdir, os.mkfifo, lambda path: path.symlink_to(machine.home / "elsewhere")):
        log = machine.home / "logs" / "hook.log"
        make(log)
        assert machine.hook(START).stdout == b""
        log.rmdir() if log.is_dir() else log.unlink()
    assert not (machine.home / "elsewhere").exists()


@pytest.mark.parametrize("given", ["relative", "/dev/null/home", "~nobody-here/x", ""])
def test_a_home_that_makes_no_sense_is_silence(machine: Machine, given: str) -> None:
    assert machine.hook(START, env={**machine.env, "COFFER_HOME": given, "COFFER_AUTOSTART": "0"}).stdout == b""


def test_no_home_in_the_environment_is_no_error(machine: Machine, daemon: FakeDaemon) -> None:
    for name in ("HOME", "COFFER_HOME"):
        machine.env.pop(name)
    assert machine.told({**START, "cursor_version": "3"}).context == CONTEXT  # its launcher knows the home


def test_bc108_a_home_that_is_read_only_is_silence(machine: Machine) -> None:
    point_at(machine.home, 9)
    with read_only(machine.home):
        # The launcher is Python, too: another user may not be able to start this one through a shell.
        command = [*stranger(), sys.executable, "-IS", *machine.hook_command()]
        done = subprocess.run(command, env=machine.env, input=PAYLOAD, capture_output=True, timeout=10, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr


def test_a_directory_that_was_removed_is_no_error(machine: Machine, daemon: FakeDaemon, tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", str(place), *machine.hook_command()],
        env=machine.env,
        input=b"{}",
        capture_output=True,
        check=True,
    )
    assert CONTEXT in done.stdout.decode()
