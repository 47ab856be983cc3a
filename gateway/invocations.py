"""Running a tool call: in a thread of ours, healing the database once, with one row on who, when and how it went.

The row never holds arguments or content (FR-016), an answer never holds the words of an unexpected error.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

from coffer import db, later
from coffer.errors import Busy, CofferError, where
from gateway.caller import Caller
from gateway.models import Invocation
from gateway.tools import Answer, Tool

log = logging.getLogger("gateway.invocations")

# More threads than calls that can be slow at once, so that none waits for another. Each keeps its own connection.
_threads = ThreadPoolExecutor(max_workers=16, thread_name_prefix="coffer-tool")


async def run(tool: Tool, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Answer one call without holding up any other; raises only CofferError, whose text an agent may read."""
    work = partial(_run, tool, caller, arguments, time.monotonic())
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def page(*, since: datetime | None = None, limit: int, offset: int, **filters: str) -> tuple[list[Invocation], int]:
    """Calls newest first, and how many there are in all; ``filters`` are fields of the row, blank for any."""
    rows = Invocation.objects.filter(**{key: value for key, value in filters.items() if value})
    if since is not None:
        rows = rows.filter(at__gte=since)
    return list(rows[offset : offset + limit]), rows.count()


def _run(tool: Tool, caller: Caller, arguments: Mapping[str, Any], asked: float) -> Answer:
    row = Invocation(tool=tool.name, agent=caller.agent, session=caller.session, outcome="ok")
    try:
        answer = _heal(tool, caller, arguments)
        row.items, row.project = answer.items, answer.store
        return answer
    except Exception as error:
        failure = _failure(tool, error)
        row.outcome = failure.code
        raise failure from None
    finally:
        # Here and not in the awaiting task: a caller that left has still called.
        row.ms = round((time.monotonic() - asked) * 1000)
        later.write(row.save)


def _heal(tool: Tool, caller: Caller, arguments: Mapping[str, Any]) -> Answer:
    """Call once, and once more when the database turned out to be damaged: it is rebuilt from the files between."""
    db.refresh_connection()
    try:
        return tool.call(caller, arguments)
    except Exception as error:
        if not db.damaged(error):
            raise
        log.warning("database damaged tool=%s error=%s", tool.name, where(error))
    db.recover()
    return tool.call(caller, arguments)


def _failure(tool: Tool, error: Exception) -> CofferError:
    if isinstance(error, CofferError):
        return error
    if db.locked(error):
        return Busy("Another program is writing to Coffer's database; try again in a moment.")
    log.error("tool failed tool=%s error=%s", tool.name, where(error))
    return CofferError("Something went wrong inside Coffer; logs/daemon.log names the place.")
