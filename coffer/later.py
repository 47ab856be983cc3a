"""Rows that may be written after the answer: invocations, use counts, audit rows that met a locked database.

One thread per process takes them in order. A row that still meets a lock after ``PATIENCE`` seconds is dropped and
counted: nothing on a hot path ever waits for a write lock.
"""

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, connection

from coffer import db
from coffer.errors import where

log = logging.getLogger("coffer.later")
PATIENCE = 30.0
_jobs: queue.Queue[Callable[[], object]] = queue.Queue(maxsize=10_000)
_start = threading.Lock()
_thread: threading.Thread | None = None
_dropped = 0


def write(job: Callable[[], object]) -> None:
    """Run a database write soon, in another thread; never raises and never waits."""
    global _thread, _dropped
    with _start:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_work, name="coffer-later", daemon=True)
            _thread.start()
    try:
        _jobs.put_nowait(job)
    except queue.Full:
        _dropped += 1


def dropped() -> int:
    """How many writes this process gave up."""
    return _dropped


def flush(seconds: float = 5.0) -> bool:
    """Wait until everything queued so far is written; False when the time was not enough."""
    deadline = time.monotonic() + seconds
    while _jobs.unfinished_tasks and time.monotonic() < deadline:
        time.sleep(0.005)
    return not _jobs.unfinished_tasks


def _work() -> None:
    while True:
        job = _jobs.get()
        try:
            _run(job)
        finally:
            _jobs.task_done()


def _run(job: Callable[[], object]) -> None:
    global _dropped
    deadline = time.monotonic() + PATIENCE
    healed = False
    while True:
        try:
            db.refresh_connection()
            job()
            return
        except DatabaseError as error:
            connection.close()
            if db.locked(error) and time.monotonic() < deadline:
                time.sleep(0.2)
                continue
            if db.damaged(error) and not healed:
                healed = True  # its table may be all that is missing: nobody else would notice
                _heal()
                continue
            _dropped += 1
            log.warning("a late write was dropped error=%s dropped=%d", where(error), _dropped)
            return
        except Exception as error:  # whatever it is, the rows behind it still have to be written
            _dropped += 1
            log.error("a late write failed error=%s dropped=%d", where(error), _dropped)
            return


def _heal() -> None:
    """Recover the database; when that fails, the row's next try says what there is to say."""
    try:
        db.recover()
    except Exception as error:  # whatever it is, this thread has other rows to write
        log.warning("the database was not recovered error=%s", where(error))


atexit.register(flush, 2.0)
