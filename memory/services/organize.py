"""Organize: drain the inbox into topics and rules, one question to the model per note (FR-027 to FR-031, FR-036).

Nothing here trusts the model: what it answers is checked, what it replaces is archived, and a note leaves the inbox
only once another file holds it. A pass may die between any two steps; ``archive.recover`` ends what it began.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from coffer import llm
from coffer.errors import Busy, CofferError, StorageFailed, StoreNotFound
from memory.models import Store
from memory.services import archive, filing, inbox, merging, passes, rule_split, topics, trail
from memory.services import stores as store_service
from memory.services.inbox import Unfit
from memory.services.tally import Result, Tally

log = logging.getLogger("memory.organize")
Progress = Callable[[int, int, str], None]  # notes done, notes in all, and the title of the one at hand


@dataclass(frozen=True)
class Estimate:
    """What a pass would send now: a call per note, and about so many tokens; an answer is about as long."""

    notes: int
    tokens_in: int
    left_alone: int
    skipped: int


def organize(
    store: Store,
    *,
    actor: str = "user",
    seconds: float | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> Result:
    """One pass over the inbox, oldest note first; after so many ``seconds`` no second one is begun.

    ``again`` takes notes too that were given up.

    Never raises for the model: the result's status and ``stopped`` say what went wrong. Raises StorageFailed when the
    disk takes no more, StoreNotFound when the store was removed meanwhile.
    """
    model = llm.model(filing.PURPOSE)
    if model is None:
        return Result("no_model")
    with ExitStack() as held:
        try:
            held.enter_context(passes.alone(store))
        except Busy:
            return Result("busy", model=model)
        return _pass(store, actor, model, _Wish(seconds, again, progress))


def estimate(store: Store) -> Estimate:
    """What a pass would send, with nothing sent and nothing written."""
    behind = store_service.refresh(store).behind
    files = inbox.waiting(store)
    left = inbox.given_up(store, llm.model(filing.PURPOSE) or "")
    tokens = skipped = 0
    for path in (path for path in files if path not in left):
        try:
            note = inbox.read(store, path)
        except (Unfit, FileNotFoundError):
            skipped += 1
            continue
        tokens += llm.estimate(merging.SYSTEM, merging.question(note, filing.candidates(store, note, behind)))
    return Estimate(len(files) - len(left) - skipped, tokens, len(left), skipped)


@dataclass(frozen=True)
class _Wish:
    """How a pass was asked for."""

    seconds: float | None
    again: bool
    progress: Progress | None


def _pass(store: Store, actor: str, model: str, wish: _Wish) -> Result:
    if store_service.folder(store).is_dir():
        with store_service.write_lock(store) as folder:
            archive.recover(folder)
    behind = store_service.refresh(store).behind
    files = inbox.waiting(store)
    if not files:
        return Result("empty", model=model)
    left = {} if wish.again else inbox.given_up(store, model)
    row, failed = passes.begin(store, "organize", actor, model), inbox.once_failed(store)
    tally = Tally(store, row, len(left), behind=set(behind), once_failed=failed)
    failure: CofferError | None = None
    try:
        _each(tally, [path for path in files if path not in left], wish)
        _sort_rules(tally, actor)
    except (StorageFailed, StoreNotFound) as error:
        failure, tally.stopped = error, error.message
    except BaseException:
        tally.stopped = passes.INTERRUPTED
        passes.finish(tally.row, "organized", tally.close(), tally.stopped)
        raise
    return _finished(tally, actor, failure)


def _each(tally: Tally, files: Sequence[str], wish: _Wish) -> None:
    """Note by note, until all are done or something ends the pass."""
    started = time.monotonic()
    for number, path in enumerate(files):
        late = number and wish.seconds is not None and time.monotonic() - started > wish.seconds
        if tally.stopped or late:
            return
        try:
            note = inbox.read(tally.store, path)
            if wish.progress is not None:
                wish.progress(number, len(files), note.title)
            filing.file(tally, note)
            tally.silent = 0
        except FileNotFoundError:
            continue  # deleted or moved since the inbox was listed
        except (StorageFailed, StoreNotFound):
            raise
        except Exception as error:
            tally.trouble(path, error)
    if wish.progress is not None:
        wish.progress(len(files), len(files), "")


def _sort_rules(tally: Tally, actor: str) -> None:
    """Sort rules files that have grown too long by topic, when the notes are done (FR-036)."""
    if tally.stopped:
        return
    done = rule_split.split(tally.store, filing.PURPOSE, run=tally.row.run, actor=actor)
    if done.error is not None:
        tally.stopped = done.error.message


def _finished(tally: Tally, actor: str, failure: CofferError | None) -> Result:
    """Catalogue, audit row and ledger; then the result, or the error that ended the pass."""
    store, counts = tally.store, tally.close()
    try:
        if tally.topics:
            topics.write_index(store, tally.behind)
    except CofferError as error:
        log.warning("INDEX.md is behind store=%s error=%s", store.name, error.code)
        failure = failure or (error if isinstance(error, StorageFailed) else None)
    trail.record("memory_organized", store=store.name, ref=tally.row.run, actor=actor, **counts)
    passes.finish(tally.row, tally.status, counts, failure.message if failure else tally.stopped)
    if failure is not None:
        raise failure
    return tally.result(counts, len(inbox.waiting(store)))
