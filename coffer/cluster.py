"""The background workers: one django-q2 cluster as a child of the daemon, kept alive by it and never outliving it.

The child's standard input is a pipe whose other end only the daemon holds. When the daemon ends, however it ends, the
pipe closes, and the cluster stops: politely first, and after ``GRACE`` seconds its whole process group is killed.
"""

import logging
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from logging.handlers import RotatingFileHandler

import django

from coffer import launchers, logs, paths, registry

GRACE = 4.0  # seconds a running job gets to finish when the daemon ends
_AFTER = 3.0  # seconds in which a new daemon has the machine to itself: whoever started it waits for its first answer
_LONGEST_WAIT = 60.0
_HEALTHY = 60.0  # a cluster that lived so long starts again without a wait

log = logging.getLogger("coffer.cluster")


class Keeper:
    """Runs in the daemon: starts the cluster, writes its log, starts it again when it dies, ends it."""

    def __init__(self) -> None:
        self._file = logs.rotating(paths.logs() / "cluster.log")
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="coffer-cluster", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Close the pipe; returns at once."""
        with self._lock:
            self._stopping.set()
            if self._child is not None and self._child.stdin is not None:
                self._child.stdin.close()

    def stop(self, seconds: float) -> None:
        """Return when no process of the cluster is left, killing what still runs after so many seconds."""
        self.ask_to_stop()
        if not self._thread.is_alive():
            return
        self._thread.join(seconds)
        if self._thread.is_alive() and self._child is not None:
            _kill_group(self._child.pid)
            self._thread.join(1)

    def _keep(self) -> None:
        self._stopping.wait(_AFTER)
        wait = 1.0
        while not self._stopping.is_set():
            started = time.monotonic()
            self._run_once()
            if self._stopping.is_set():
                return
            lived = time.monotonic() - started
            wait = 1.0 if lived > _HEALTHY else min(wait * 2, _LONGEST_WAIT)
            log.warning("cluster died seconds=%d next_start_in=%d", lived, wait)
            self._stopping.wait(wait)

    def _run_once(self) -> None:
        command = [sys.executable, "-P", "-s", "-m", "coffer.cluster", "--home", str(paths.home())]
        with self._lock:
            if self._stopping.is_set() or not paths.locks().is_dir():  # the child would make a deleted home again
                return
            self._child = child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(launchers.root())},
                process_group=0,
            )
        log.info("cluster started pid=%d", child.pid)
        copier = threading.Thread(target=_copy_lines, args=(child, self._file), daemon=True)
        copier.start()
        child.wait()
        _kill_group(child.pid)  # its workers do not notice when it alone died
        copier.join()


def main() -> int:
    """Run in the child: work until the daemon closes the pipe."""
    os.umask(0o077)
    os.environ["COFFER_HOME"] = home = sys.argv[sys.argv.index("--home") + 1]
    if not os.path.isdir(home):
        return 0  # deleted meanwhile: settings would make it again
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coffer.settings")
    django.setup()
    logs.to(logging.StreamHandler())

    from django_q.cluster import Cluster  # noqa: PLC0415 - needs Django to be set up
    from django_q.signals import post_execute, post_spawn  # noqa: PLC0415

    _arm_recurring()
    pipe = os.dup(sys.stdin.fileno())  # a worker loses its standard input when it is forked
    post_spawn.connect(lambda **_: _watch(pipe), weak=False)
    post_execute.connect(_note_failure)
    cluster = Cluster()
    cluster.start()
    multiprocessing.connection.wait([sys.stdin.fileno(), cluster.sentinel.sentinel])
    killer = threading.Timer(GRACE, os.killpg, (0, signal.SIGKILL))
    killer.daemon = True
    killer.start()
    cluster.stop()
    return 0


def _arm_recurring() -> None:
    """Have the recurring jobs done now, and every hour from now on."""
    from django.db import DatabaseError, connections, transaction  # noqa: PLC0415 - as above
    from django.utils import timezone  # noqa: PLC0415
    from django_q.models import Schedule  # noqa: PLC0415

    try:
        with transaction.atomic():
            for name, job in registry.recurring().items():
                row = {"func": job, "schedule_type": Schedule.HOURLY, "next_run": timezone.now(), "repeats": -1}
                Schedule.objects.update_or_create(name=name, defaults=row)
    except DatabaseError as error:  # then the rows of the start before last: an hour later it is done all the same
        log.warning("recurring jobs not armed error=%s", type(error).__name__)
    connections.close_all()  # the workers are forked from here


def _watch(pipe: int) -> None:
    """Run in each worker: when the daemon ends, so does the call of a model that a job waits for."""
    from coffer import llm  # noqa: PLC0415 - its models need Django to be set up

    def watch() -> None:
        multiprocessing.connection.wait([pipe])
        llm.shut_down()

    threading.Thread(target=watch, name="coffer-daemon-watch", daemon=True).start()


def _note_failure(task: dict[str, object], **_: object) -> None:
    if not task.get("success"):
        log.warning("job failed job=%s", task.get("func"))


def _copy_lines(child: subprocess.Popen[bytes], file: RotatingFileHandler) -> None:
    """Write what the cluster's processes say until the last of them is gone; one writer, so that rotation is safe."""
    if child.stderr is None:
        return
    for line in child.stderr:
        text = line.decode("utf-8", "replace").rstrip("\n")
        file.handle(logging.LogRecord("", logging.INFO, "", 0, text, None, None))


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
