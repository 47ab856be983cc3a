"""The server process and its workers, as processes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone
from django_q.models import OrmQ
from django_q.tasks import async_task

from agents import link
from coffer import lifecycle
from tests.processes import Machine, alive, answers, eventually

FOREGROUND = [sys.executable, "-P", "-m", "coffer.daemon"]


def foreground(machine: Machine, **options: object) -> "subprocess.Popen[str]":
    command = [*FOREGROUND, "--home", str(machine.home)]
    return machine.popen(command, stderr=subprocess.PIPE, text=True, **options)


def get(port: int, path: str, token: str) -> int:
    import http.client

    wire = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    wire.request("GET", path, headers={"X-Coffer-Token": token})
    status = wire.getresponse().status
    wire.close()
    return status


def test_a_daemon_says_where_it_is_once_it_answers_and_leaves_nothing_when_it_stops(machine: Machine) -> None:
    daemon = foreground(machine)
    eventually((machine.home / "daemon.json").exists)
    about = machine.daemon_file()
    assert about["pid"] == daemon.pid == link.lock_holder()
    assert about["url"] == f"http://127.0.0.1:{about['port']}/"
    assert set(about) >= {"pid", "port", "url", "version", "started_at"}
    assert answers()
    eventually(lambda: len(machine.processes("coffer.cluster")) == 5)

    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=10) == 0
    assert machine.processes() == []
    assert not (machine.home / "daemon.json").exists()
    assert link.lock_holder() is None
    log = (machine.home / "logs" / "daemon.log").read_text(encoding="utf-8")
    assert "started" in log
    assert "stopped" in log


def test_a_second_daemon_in_one_home_ends_with_a_sentence(machine: Machine) -> None:
    first = machine.up()
    second = foreground(machine)
    _, words = second.communicate(timeout=30)
    assert second.returncode == 1
    assert words.startswith(f"coffer: Another daemon (process {first['pid']}) already runs in {machine.home}")
    assert machine.daemon_file() == first


def test_bc117_a_killed_daemon_leaves_no_worker_and_can_be_started_at_once(machine: Machine) -> None:
    first = machine.up()
    eventually(lambda: len(machine.processes("coffer.cluster")) == 5)
    os.kill(first["pid"], signal.SIGKILL)
    eventually(lambda: not machine.processes(), seconds=10)
    assert machine.coffer("status").returncode == 3
    assert machine.up()["pid"] != first["pid"]


def test_a_daemon_whose_home_is_deleted_ends_and_does_not_make_it_again(machine: Machine) -> None:
    machine.up()
    eventually(lambda: len(machine.processes("coffer.cluster")) == 5)
    gone = machine.home.rename(machine.home.with_name("gone"))  # at once: files are still being written there
    eventually(lambda: not machine.processes(), seconds=15)
    shutil.rmtree(gone)
    assert not machine.home.exists()
    machine.up()


def test_a_cluster_that_died_is_started_again(machine: Machine) -> None:
    machine.up()
    workers = eventually(lambda: len(found := machine.processes("coffer.cluster")) == 5 and found)
    os.kill(min(workers), signal.SIGKILL)
    eventually(lambda: len(now := machine.processes("coffer.cluster")) == 5 and not {*now} & {*workers})


def test_bc109_a_taken_port_is_left_alone_and_status_says_where_the_daemon_is(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        machine.env["COFFER_PORT"] = str(port)
        about = machine.up()
        assert about["port"] != port
        status = machine.coffer("status")
        assert status.returncode == 0
        assert f"because port {port} was taken" in status.stdout
        assert about["url"] in status.stdout


def test_bc109_a_listener_on_the_ipv6_side_of_the_port_changes_nothing(machine: Machine) -> None:
    try:
        other = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with other:
        machine.env["COFFER_PORT"] = str(other.getsockname()[1])
        machine.up()
        assert answers()


def test_bc111_two_homes_have_two_daemons_and_no_token_works_for_the_other(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Machine(tmp_path / "second")
    try:
        machine.env["COFFER_PORT"] = other.env["COFFER_PORT"] = "0"
        ours, theirs = machine.up(), other.up()
        our_token, their_token = ((one.home / "token").read_text().strip() for one in (machine, other))
        path = "/api/v1/memory_stores"
        assert get(ours["port"], path, our_token) == 200
        assert get(ours["port"], path, their_token) == 401
        assert get(theirs["port"], path, our_token) == 401

        # A daemon.json that names the other home's daemon convinces nobody.
        (machine.home / "daemon.json").write_text((other.home / "daemon.json").read_text(encoding="utf-8"))
        assert not answers()
    finally:
        other.close()


def test_bc114_a_foreign_pid_is_neither_believed_nor_signalled(machine: Machine) -> None:
    sleeper = machine.popen([sys.executable, "-c", "import time; time.sleep(600)"])
    about = f'{{"pid": {sleeper.pid}, "port": 9, "url": "", "version": "0.1.0", "started_at": ""}}'
    (machine.home / "daemon.json").write_text(about, encoding="utf-8")
    (machine.home / "locks").mkdir(exist_ok=True)
    (machine.home / "locks" / "daemon.lock").write_text(f"{sleeper.pid}\n", encoding="utf-8")

    assert machine.coffer("status").returncode == 3
    assert machine.coffer("down").stdout == "Coffer was not running.\n"
    assert alive(sleeper.pid)
    assert machine.up()["pid"] != sleeper.pid
    assert machine.coffer("status").returncode == 0
    assert machine.coffer("down").returncode == 0
    assert alive(sleeper.pid)


def test_bc114_a_lock_that_another_program_holds_is_respected(machine: Machine) -> None:
    (machine.home / "locks").mkdir(exist_ok=True)
    lock = machine.home / "locks" / "daemon.lock"
    code = (
        "import fcntl, os, sys, time\n"
        "file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "file.write(str(os.getpid())); file.flush(); print('held', flush=True); time.sleep(600)"
    )
    holder = machine.popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    done = machine.coffer("down")
    assert done.returncode == 1
    assert f"process {holder.pid}, which is not Coffer's daemon; nothing was stopped" in done.stderr
    assert alive(holder.pid)
    holder.kill()
    holder.wait()
    machine.up()


def test_bc112_lock_files_left_behind_block_nobody(machine: Machine) -> None:
    (machine.home / "locks").mkdir(exist_ok=True)
    (machine.home / "coffer.sqlite3").unlink()
    for name, content in (("daemon.lock", "garbage\0"), ("start.lock", ""), ("migrate.lock", "999999\n")):
        path = machine.home / "locks" / name
        path.write_text(content, encoding="utf-8")
        os.utime(path, (4_000_000_000, 4_000_000_000))
    assert machine.up()["pid"] == link.lock_holder()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_bc117_a_job_under_way_does_not_outlive_the_daemon(machine: Machine, number: signal.Signals) -> None:
    (machine.home / "secret_key").write_text(settings.SECRET_KEY, encoding="utf-8")  # the queue signs its jobs
    pid = machine.up()["pid"]
    async_task("time.sleep", 120)
    eventually(lambda: OrmQ.objects.get().lock > timezone.now() + timedelta(minutes=30))
    os.kill(pid, number)
    eventually(lambda: not machine.processes(), seconds=10)


def test_a_daemon_that_hangs_is_reported_and_ended(machine: Machine) -> None:
    about = machine.up()
    os.kill(about["pid"], signal.SIGSTOP)
    status = machine.coffer("status")
    assert status.returncode == 3
    assert f"(process {about['pid']}) does not answer" in status.stdout
    assert machine.coffer("down").stdout == "Coffer has stopped.\n"
    assert not alive(about["pid"])


def test_a_daemon_that_does_not_stop_in_time_is_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    about = machine.up()
    monkeypatch.setattr(lifecycle, "_DOWN_SECONDS", 0.05)
    monkeypatch.setattr(lifecycle, "_KILLED_SECONDS", 5.0)
    assert lifecycle.down()
    assert not alive(about["pid"])
    eventually(lambda: not machine.processes(), seconds=10)


def test_bc061_bc062_the_token_stands_on_no_command_line_and_in_no_log(machine: Machine) -> None:
    machine.env["COFFER_LOG_LEVEL"] = "DEBUG"
    port = machine.up()["port"]
    eventually(lambda: len(machine.processes("coffer.cluster")) == 5)
    token = (machine.home / "token").read_text(encoding="utf-8").strip()
    wrong = token[:20] + "x" * 23
    for path in ("/api/v1/memory_stores", f"/api/v1/memory_stores?token={token}", f"/{token}", "/mcp"):
        for given in (token, wrong, "nonsense"):
            get(port, path, given)
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(f"NOT {token} HTTP\r\n\r\n".encode())
        raw.recv(1000)

    listed = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    logs = "".join(file.read_text(encoding="utf-8") for file in (machine.home / "logs").iterdir())
    for text in (listed, logs):
        assert token[:12] not in text
        assert token[-12:] not in text
    assert (machine.home / "token").stat().st_mode & 0o777 == 0o600


def test_bc011_the_daemons_environment_has_nothing_of_the_session_that_started_it(machine: Machine) -> None:
    odd = {"GIT_DIR": "/nowhere/.git", "VIRTUAL_ENV": "/nowhere", "OPENAI_API_KEY": "made-up", "LANG": "C"}
    machine.env.update(odd)
    pid = machine.up()["pid"]
    environment = Path(f"/proc/{pid}/environ")
    if not environment.exists():
        pytest.skip("only Linux shows a process' environment")
    names = {entry.split(b"=")[0].decode() for entry in environment.read_bytes().split(b"\0") if entry}
    assert not names & {"GIT_DIR", "VIRTUAL_ENV", "OPENAI_API_KEY"}
    assert {"PATH", "HOME", "LANG", "COFFER_HOME"} <= names
    assert os.readlink(f"/proc/{pid}/cwd") == str(machine.home)
    assert os.getsid(pid) == pid
