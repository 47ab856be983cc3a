"""Work that must not hold up whoever waits for it: an answer in time, or none."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from coffer import db

Found = TypeVar("Found")
# Work that hangs keeps its thread; while all are taken, whatever is asked for comes too late, and that is all.
_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="coffer-deadline")


def within(seconds: float, work: Callable[[], Found]) -> Found:
    """What the work gives; raises what it raises, and TimeoutError when it takes longer. It is then done in vain."""
    return _threads.submit(_with_database, work).result(max(seconds, 0.0))


def _with_database(work: Callable[[], Found]) -> Found:
    db.refresh_connection()
    return work()
