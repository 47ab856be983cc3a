"""When a store is organized by itself: one schedule row per store, armed by its writes, fired when it has been quiet.

The queue's job is named by its dotted path, so that nothing below it needs to import it.
"""

import logging
import time
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django_q.models import Schedule
from django_q.tasks import async_task

from coffer import env, later, paths
from coffer.errors import ConfigInvalid

log = logging.getLogger("memory.schedule")
JOB, IDLE_JOB = "memory.jobs.organize", "memory.jobs.organize_when_idle"
REORG_JOB = "memory.jobs.reorganize"
EMBED_JOB = "memory.jobs.embed"
_GATHERED = 2.0  # seconds in which writes to a store are embedded together
_SOONER = 0.9  # of the idle time, after which a write arms the row again
_armed: dict[tuple[str, str], float] = {}  # until when a store needs no arming by this process


def touch(name: str) -> None:
    """Have a store organized when no more is written for a while (FR-035); costs a writer nothing and never fails.

    The row is written by another thread, and only once an idle time: the job itself looks when the last write was.
    """
    key, now = (str(paths.home()), name), time.monotonic()
    if now < _armed.get(key, 0.0):
        return
    try:
        wanted, idle = organizes(), idle_seconds()
    except ConfigInvalid as error:
        log.warning("not armed: %s", error.message)
        return
    if wanted:
        _armed[key] = now + _SOONER * idle
        arm(name, idle)


def reset() -> None:
    """Forget what this process has armed: the database with those rows was replaced."""
    _armed.clear()


def arm(name: str, seconds: float) -> None:
    """Let the job of a store fire in so many seconds; an earlier appointment gives way."""
    due = timezone.now() + timedelta(seconds=seconds)
    later.write(lambda: _write(_row_name(name), IDLE_JOB, name, due))


def is_armed(name: str) -> bool:
    """Whether a store has an appointment."""
    return bool(Schedule.objects.filter(name=_row_name(name)).exists())


def queue(name: str, actor: str) -> None:
    """Hand a store to the background workers now."""
    async_task(JOB, name, actor, group=_row_name(name))


def queue_reorg(name: str, actor: str) -> None:
    """The same for a reorganization."""
    async_task(REORG_JOB, name, actor, group=f"reorg {name}")


def embed(name: str) -> None:
    """Have the vectors of a store brought in line with its index soon; costs a writer nothing and never fails."""
    key, now = (str(paths.home()), f"embed {name}"), time.monotonic()
    if now >= _armed.get(key, 0.0):
        _armed[key] = now + _GATHERED
        later.write(lambda: async_task(EMBED_JOB, name, group=f"embed {name}"))


def embed_later(name: str, seconds: float) -> None:
    """The same in so many seconds; an earlier appointment gives way."""
    due = timezone.now() + timedelta(seconds=seconds)
    later.write(lambda: _write(f"embed {name}", EMBED_JOB, name, due))


def organizes() -> bool:
    """Whether stores are organized by themselves."""
    return env.flag("COFFER_ORGANIZE")


def idle_seconds() -> int:
    """How long a store must be quiet."""
    return env.number("COFFER_ORGANIZE_IDLE", least=1)


def _write(row: str, job: str, name: str, due: datetime) -> None:
    """One row, also when two processes arm at this moment: the transaction takes the database's lock when it begins."""
    with transaction.atomic():
        rows = Schedule.objects.filter(name=row)
        if not rows.update(next_run=due):
            Schedule.objects.create(name=row, func=job, args=repr((name,)), schedule_type=Schedule.ONCE, next_run=due)


def _row_name(name: str) -> str:
    return f"organize {name}"
