"""Organizing by itself: when a store has been quiet long enough, and when to come back for what is left (FR-035).

Nothing here raises: what goes wrong is logged, and the ledger of passes tells a person.
"""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from django.utils import timezone

from coffer import llm, paths
from coffer.errors import CofferError, ConfigInvalid, where
from memory import schedule
from memory.files import lanes
from memory.models import Store
from memory.services import filing, inbox, organize, reorg
from memory.services import stores as store_service
from memory.services.tally import Result

log = logging.getLogger("memory.organize")
SLICE = 600.0  # seconds after which a pass lets other jobs have the worker
LATER = 3600.0  # seconds until a note that failed, or an endpoint that was away, is tried again
SOON = 1.0


def organize_when_idle(name: str) -> str:
    """What the schedule's job does: nothing while somebody writes, then a pass."""

    def run() -> str:
        if not schedule.organizes():
            return "off"
        store = store_service.get(name)
        missing = schedule.idle_seconds() - _seconds_since_last_write(store)
        if missing > 0:
            schedule.arm(name, missing)
            return "not idle"
        return _organize(store, "engine")

    return _logged(name, run)


def arm_waiting() -> None:
    """Arm every store in whose inbox something waits: its row is lost with the database."""
    schedule.reset()
    for name in store_service.names_on_disk():
        if lanes.inbox(paths.store(name)):
            schedule.touch(name)


def arm_unfiled() -> int:
    """Arm the stores that a connected model could organize and that nothing has armed; how many those were.

    Their notes waited before there was a model. A store with an appointment, and one of which all notes were given up,
    is left alone: to ask again would come to nothing.
    """
    try:
        model = llm.model(filing.PURPOSE) if schedule.organizes() else None
    except ConfigInvalid as error:
        log.warning("not armed: %s", error.message)
        return 0
    names = store_service.names_on_disk() if model is not None else []
    return sum(_logged(name, partial(_arm_if_unfiled, name, model or "")) == "armed" for name in names)


def organize_now(name: str, actor: str) -> str:
    """What was asked for by a page, the admin or a program that did not want to wait."""
    return _logged(name, lambda: _organize(store_service.get(name), actor))


def reorganize_now(name: str, actor: str) -> str:
    """The same for a reorganization, which never begins by itself."""
    return _logged(name, lambda: reorg.reorganize(store_service.get(name), actor=actor).status)


def _arm_if_unfiled(name: str, model: str) -> str:
    if not lanes.inbox(paths.store(name)) or schedule.is_armed(name):
        return "left alone"
    store = store_service.get(name)
    if not set(inbox.waiting(store)) - set(inbox.given_up(store, model)):
        return "given up"
    schedule.arm(name, schedule.idle_seconds())
    return "armed"


def _organize(store: Store, actor: str) -> str:
    result = organize.organize(store, actor=actor, seconds=SLICE)
    seconds = _comes_back(result)
    if seconds is not None and schedule.organizes():
        schedule.arm(store.name, seconds)
    return result.status


def _comes_back(result: Result) -> float | None:
    """When there is something to go on with; None for nothing."""
    if result.status == "budget":
        now = timezone.now()
        day = now.replace(hour=0, minute=1, second=0, microsecond=0) + timedelta(days=1)
        return (day - now).total_seconds()
    if result.status == "busy":
        return float(schedule.idle_seconds())
    if result.stopped or result.skipped:
        return LATER
    return SOON if result.waiting > result.left_alone else None


def _seconds_since_last_write(store: Store) -> float:
    """By the time of change that no program can set; one in the future is a clock that was set back, and no write."""
    files = lanes.walk(store_service.folder(store)).files
    last = max((stat.ctime_ns for stat in files.values()), default=0) / 1e9
    age = time.time() - last
    return age if age >= 0 else float("inf")


def _logged(name: str, job: Callable[[], str]) -> str:
    """Run it; an error becomes a line of the log without content, as the queue would keep its whole text."""
    try:
        return job()
    except CofferError as error:
        log.warning("organizing failed store=%s error=%s: %s", name, error.code, error.message)
        return error.code
    except Exception as error:
        log.error("organizing failed store=%s error=%s", name, where(error))
        return "failed"
