"""The end of a session, as an agent's hook tells it: answered at once, distilled by the background workers (FR-051)."""

import logging
import time
from typing import Literal

from django.db import DatabaseError
from django_q.tasks import async_task

from agents.services import deliveries
from coffer import db, later, llm
from coffer.errors import Busy, CofferError, where
from memory.services import stores
from transcripts.services import batch, catalogue, homes, ledger, listing, sweep
from transcripts.services.batch import Limits
from transcripts.services.distilling import PURPOSE
from transcripts.services.homes import Home

log = logging.getLogger("transcripts.session_end")
Outcome = Literal["queued", "already_distilled", "no_model", "not_found", "skipped"]
JOB = "transcripts.jobs.distill_session"
ROOM = 8 * 2**20  # bytes that are read to find a session: its agent is about to leave, and waits
PATIENCE = 0.3  # seconds for a database that somebody else writes to


def take(agent: str, session: str, *, cwd: str) -> Outcome:
    """Note that a session ended, at once. Raises UnsupportedAgentType.

    skipped: outside of a project, of an agent whose sessions are not read, or switched off. A session that may still be
    found is queued.
    """
    began = time.perf_counter()
    home = homes.get(agent)
    project = stores.locate(cwd).project if cwd else None
    outcome = _outcome(home, session, outside=bool(cwd) and project is None)
    if outcome == "queued":
        later.write(lambda: queue(agent, session))  # were it lost, the sweep would find the session
    deliveries.record(
        agent,
        "SessionEnd",
        session=session,
        project=project.store if project else "",
        ms=(time.perf_counter() - began) * 1000,
        outcome=outcome,
    )
    return outcome


def queue(agent: str, session: str) -> None:
    """Hand one session to the background workers."""
    async_task(JOB, agent, session, group="distill")


def distill(agent: str, session: str) -> str:
    """What the queued job does. Never raises: the queue would keep the whole text of an error."""
    try:
        home = homes.of(agent)
        result = batch.run(batch.chosen([home], session_id=session), Limits(seconds=sweep.SECONDS))
    except CofferError as error:
        log.warning("session not distilled agent=%s error=%s: %s", agent, error.code, error.message)
        return error.code
    except Exception as error:
        log.error("session not distilled agent=%s error=%s", agent, where(error))
        return "failed"
    (report,) = result.reports
    log.info("session %s agent=%s entries=%d calls=%d", report.outcome, agent, len(report.entries), report.calls)
    return report.outcome


def _outcome(home: Home, session: str, *, outside: bool) -> Outcome:
    if outside or home.reader.unsupported or not sweep.settings().on:
        return "skipped"
    if llm.model(PURPOSE) is None:
        return "no_model"
    if not _looked(home):
        return "queued"
    found = listing.known(home.agent, session)
    if found is None:
        return "not_found"
    done = ledger.is_done(found, ledger.row_of(home.agent, session))
    return "already_distilled" if done else "queued"


def _looked(home: Home) -> bool:
    """Whether all that changed could be read in the little time there is."""
    try:
        with db.patience(PATIENCE):
            return catalogue.refresh(home, room=ROOM, patience=0.0)
    except Busy:
        return False
    except DatabaseError as error:
        if db.damaged(error):
            raise
        return False
