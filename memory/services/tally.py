"""A pass of the organizer as it goes: what was done, what was skipped and why, and when to stop."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from django.db import DatabaseError

from coffer import db
from coffer.errors import BadAnswer, BudgetSpent, Busy, Cancelled, Conflict, NoModel, Refused, Unavailable, where
from memory.models import Pass, Store
from memory.services import inbox
from memory.services.inbox import Unfit

log = logging.getLogger("memory.organize")
COUNTS = ("topics_created", "topics_merged", "rules_appended", "appended", "drained")
OUTAGE = 3  # calls in a row without an answer, after which a pass gives up


@dataclass(frozen=True)
class Skipped:
    """A note that stays in the inbox, and why."""

    id: str
    reason: str


@dataclass(frozen=True)
class Result:
    """What a pass did.

    ``drained`` notes left the inbox: into new topics, into topics that there were, into rules, or ``appended`` as they
    are, because the model's merge was refused. ``waiting`` are still there, ``left_alone`` of them for good.
    """

    status: str  # organized, empty, no_model, budget, busy
    topics_created: int = 0
    topics_merged: int = 0
    rules_appended: int = 0
    appended: int = 0
    drained: int = 0
    skipped: int = 0
    left_alone: int = 0
    waiting: int = 0
    model: str | None = None
    stopped: str | None = None  # why it ended before all was done
    run: str | None = None
    problems: tuple[Skipped, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "problems": [vars(one) for one in self.problems]}


@dataclass
class Tally:
    """Counts of one pass, and what became of the notes that failed."""

    store: Store
    row: Pass
    left_alone: int
    counts: Counter[str] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)
    unanswered: list[tuple[str, str]] = field(default_factory=list)  # path and reason of notes whose call had no answer
    silent: int = 0  # calls in a row without an answer
    topics: int = 0  # files written
    once_failed: set[str] = field(default_factory=set)  # ids of notes that passes before failed with
    behind: set[str] = field(default_factory=set)  # files that the index could not take
    status: str = "organized"
    stopped: str = ""

    def trouble(self, path: str, error: Exception) -> None:
        """One note failed: whether that is the note's fault, the endpoint's, or the end of the pass."""
        match error:
            case BudgetSpent() | NoModel():
                self.status = "budget" if isinstance(error, BudgetSpent) else "no_model"
                self.stopped = error.message
            case Refused() | Cancelled():
                self.stopped = error.message
            case BadAnswer():
                self.silent = 0
                self._skip(path, f"the model's answer cannot be used: {error.reason}")
            case Unfit():
                self._skip(path, str(error))
            case Unavailable() | Busy():
                self.unanswered.append((path, error.message))
                self.silent += 1
                self.stopped = error.message if self.silent == OUTAGE else ""
            case Conflict():
                self._skip(path, "it, or its topic, is being changed by somebody else", counted=False)
            case DatabaseError():
                if db.damaged(error):
                    raise error
                log.error("pass ended store=%s error=%s", self.store.name, where(error))
                self.stopped = "Coffer's database cannot be written; free some space, or try again in a moment."
            case _:
                log.error("note failed store=%s error=%s", self.store.name, where(error))
                self._skip(path, f"something went wrong inside ({where(error)})")

    def close(self) -> dict[str, int]:
        """The counts, after judging the notes that had no answer.

        While others were answered the endpoint was there: then it is the note that it cannot answer.
        """
        answered = bool(self.counts["drained"] or self.skipped) and not self.stopped
        for path, reason in self.unanswered:
            self._skip(path, reason, counted=answered)
        return {name: self.counts[name] for name in COUNTS} | {"skipped": len(self.skipped)}

    def result(self, counts: dict[str, int], waiting: int) -> Result:
        return Result(
            self.status,
            **counts,
            left_alone=self.left_alone,
            waiting=waiting,
            model=self.row.model,
            stopped=self.stopped or None,
            run=self.row.run,
            problems=tuple(self.skipped),
        )

    def _skip(self, path: str, reason: str, *, counted: bool = True) -> None:
        """A note stays in the inbox; ``counted`` when that is its own fault."""
        ref = inbox.ref_of(self.store, path)
        self.skipped.append(Skipped(ref, reason))
        log.warning("note skipped store=%s ref=%s reason=%s", self.store.name, ref, reason)
        if counted:
            inbox.failed(self.store, path, self.row.model, reason)
