"""Bring the daemon up, take it down, say how it is. Nothing else signals a process, and only one proven to be ours."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agents import link
from coffer import auth, fs, launchers, paths
from coffer.errors import Busy, CofferError

_UP_SECONDS = 60.0
_DOWN_SECONDS, _KILLED_SECONDS = 10.0, 2.0


@dataclass(frozen=True)
class State:
    """How the daemon is, as it proved itself, not as daemon.json claims; ``pid`` is that of whoever holds its lock."""

    condition: Literal["running", "silent", "stopped"]
    pid: int | None = None
    port: int | None = None
    url: str = ""
    version: str = ""
    started_at: str = ""
    build: str = ""


@dataclass(frozen=True)
class Up:
    """What ``up`` did, and the daemon that runs now."""

    outcome: Literal["already running", "started", "restarted"]
    state: State


def up() -> Up:
    """Make home, token and launchers, and a daemon of exactly this code; a running one of other code is replaced."""
    fs.ensure_home()
    auth.token()
    launchers.write()
    before = state()
    if before.condition == "running" and before.build == launchers.build():
        return Up("already running", before)
    stopped = down()
    try:
        link.ensure(_UP_SECONDS, autostart=True).close()
    except link.NoDaemon as error:
        raise CofferError(str(error)) from None
    return Up("restarted" if stopped else "started", state())


def down() -> bool:
    """End the daemon and its workers, by force if it does not listen; False when none ran.

    The lock says who it is and the command line confirms it: a pid from a stale file is never signalled.
    """
    pid = link.lock_holder()
    if pid is None:
        return False
    if not _is_daemon(pid):
        raise Busy(
            f"{paths.locks() / 'daemon.lock'} is held by process {pid or 'unknown'}, which is not Coffer's daemon; "
            "nothing was stopped. End that process, then try again."
        )
    for number, seconds in ((signal.SIGTERM, _DOWN_SECONDS), (signal.SIGKILL, _KILLED_SECONDS)):
        if _is_daemon(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)  # a suspended one could not follow the first
        if _gone(pid, seconds):
            return True
    raise Busy(f"Coffer's daemon (process {pid}) could not be ended.")


def state() -> State:
    """Ask the daemon itself; ``silent`` is one that holds the lock and does not answer: it starts, or hangs."""
    pid = link.lock_holder()
    try:
        connection = link.connect()
        if connection is None:
            return State("stopped" if pid is None else "silent", pid)
        _, _, body = connection.request("GET", "/api/v1/daemon/status", timeout=link.PATIENCE)
        connection.close()
    except (link.NoDaemon, *link.FAILURES):
        return State("silent", pid)
    about = link.read_daemon_file() or {}
    return State(
        "running",
        pid,
        connection.port,
        f"http://127.0.0.1:{connection.port}/",
        str(json.loads(body).get("version", "")),
        str(about.get("started_at", "")),
        str(about.get("build", "")),
    )


def _is_daemon(pid: int) -> bool:
    """Whether a living process was started as ``… -m coffer.daemon …``."""
    if pid <= 1:
        return False
    with suppress(OSError):
        status = Path(f"/proc/{pid}/cmdline")
        if status.exists():
            return b"\0-m\0coffer.daemon\0" in status.read_bytes()
        question = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        listing = subprocess.run(question, capture_output=True, text=True, check=False)
        return " -m coffer.daemon " in f"{listing.stdout.strip()} "
    return False


def _gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if link.lock_holder() != pid and not _is_daemon(pid):
            return True
        time.sleep(0.05)
    return False
