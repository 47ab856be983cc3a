"""Vectors by themselves: who makes them when, and what a person should know of it.

No write and no recall waits for any of it; until vectors are there, words alone answer.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from coffer import connections, later, paths
from coffer.errors import (
    BadAnswer,
    Busy,
    CofferError,
    ConfigInvalid,
    EngineError,
    Invalid,
    NoModel,
    StoreNotFound,
    where,
)
from coffer.models import LlmCall
from coffer.registry import Finding
from memory import retrieval, schedule
from memory.files.words import CJK
from memory.models import Document, Store
from memory.retrieval import Coverage
from memory.services import stores as store_service

log = logging.getLogger("memory.embedding")
SLICE = 60.0  # seconds after which it lets other jobs have the worker
LATER = 300.0  # seconds until an endpoint that failed is asked again
LOOKED_AFTER = 60.0  # seconds between two looks at the vectors of a store, in one process
TRIAL_SECONDS = 30.0  # that a person waits for a model
_BUDGET_MS = round(retrieval.VECTOR_SECONDS * 1000)
_SUBJECT = "vectors"
_looked: dict[tuple[str, str], float] = {}


@dataclass(frozen=True)
class Trial:
    """What the model of a store answered when it was tried, or why nothing came; ``warnings`` is what it is unfit for.

    ``ms`` is the time of one sentence; ``said`` are an endpoint's own words about a failure.
    """

    ok: bool
    message: str
    model: str
    ms: int = 0
    dimension: int = 0
    warnings: tuple[str, ...] = ()
    said: str = ""


def look_after(stores: Sequence[Store]) -> None:
    """See now and then whether vectors are missing: of a file that was lost, a model that is another one now."""
    now = time.monotonic()
    for store in stores:
        key = (str(paths.home()), store.name)
        if store.pk is not None and now >= _looked.get(key, 0.0) and store_service.searched_by_vectors(store):
            _looked[key] = now + LOOKED_AFTER
            later.write(partial(_embed_if_missing, store))


def run(name: str) -> str:
    """What the job does: a slice of the work, and an appointment for what is left. Returns how far it is, in words."""
    try:
        store = store_service.get(name)
        if not store_service.searched_by_vectors(store):
            return "off"
        done = retrieval.catch_up(store, seconds=SLICE)
    except StoreNotFound:
        return "gone"
    except Busy:
        schedule.embed_later(name, SLICE)
        return "busy"
    except EngineError as error:
        log.warning("not embedded store=%s code=%s", name, error.code)
        schedule.embed_later(name, LATER)
        return error.code
    except Exception as error:
        log.warning("embedding failed store=%s error=%s", name, where(error))
        schedule.embed_later(name, LATER)
        return "failed"
    if done.left > 0:
        schedule.embed(name)
    elif done.failed:
        schedule.embed_later(name, max(done.retry_at - time.time(), 1.0))
    return f"{done.embedded} of {done.files}"


def catch_up(store: Store, *, report: Callable[[int, int, str], None] | None = None) -> Coverage:
    """Make every vector that is missing, while somebody waits. Raises Invalid, Busy, EngineError."""
    if not store_service.searched_by_vectors(store):
        name = store_service.display_name(store)
        raise Invalid(f"{name} is searched by words alone; COFFER_RETRIEVAL=hybrid or its own setting changes that.")
    store_service.refresh(store)
    return retrieval.catch_up(store, report=report)


def trial(store: Store) -> Trial:
    """Ask the model of a store for vectors of sentences that say nothing about the person."""
    model = ""
    try:
        embedder = retrieval.embedder_of(store)
        model = embedder.model
        measure = retrieval.measure(embedder, store.name, seconds=TRIAL_SECONDS)
        began = time.monotonic()
        (vector,) = embedder.embed([retrieval.PROBE], store=store.name, seconds=TRIAL_SECONDS)
        ms = round((time.monotonic() - began) * 1000)
        if vector is None:
            raise BadAnswer("it has no usable vector for a plain sentence")
    except EngineError as error:
        return Trial(False, error.message, model, said=error.said)
    dimension = len(vector) // 4
    message = f"{model} answered in {ms} ms with a vector of {dimension} numbers."
    return Trial(True, message, model, ms, dimension, tuple(_unfit(store, measure, ms)))


def about(store: Store) -> list[Finding]:
    """The findings on one store."""
    return list(_findings([store])) if store_service.searched_by_vectors(store) else []


def findings() -> Iterator[Finding]:
    """For status, doctor and the pages' banner: nothing where no store is searched by vectors."""
    try:
        searched = [store for store in Store.objects.all() if retrieval.hybrid(store)]
    except ConfigInvalid as error:
        yield Finding("warning", _SUBJECT, error.message)
        return
    if searched:
        yield from _findings(searched)


def _findings(searched: Sequence[Store]) -> Iterator[Finding]:
    try:
        covered = [(store, retrieval.coverage(store)) for store in searched]
    except NoModel as error:
        yield Finding("warning", _SUBJECT, f"Search by vectors is on, and words alone answer: {error.message}")
        return
    except CofferError as error:
        yield Finding("warning", _SUBJECT, error.message)
        return
    files, done = sum(one.files for _, one in covered), sum(one.embedded for _, one in covered)
    failed = sum(one.failed for _, one in covered)
    models = ", ".join(dict.fromkeys(one.model for _, one in covered))
    if failed:
        yield Finding("warning", _SUBJECT, f"{failed} files could not be embedded and are tried again later.")
    if any(not one.reads_cjk and _holds_cjk(store) for store, one in covered):
        yield Finding(
            "warning", _SUBJECT, f"{models} does not tell Chinese texts apart; words alone answer those questions."
        )
    if trouble := _trouble():
        yield Finding("warning", _SUBJECT, trouble)
    yield Finding("ok", _SUBJECT, f"{done} of {files} files are embedded by {models}")


def _unfit(store: Store, measure: retrieval.Measure, ms: int) -> Iterator[str]:
    if not measure.reads_english:
        yield "It does not tell English texts apart, so it finds little by their meaning."
    if not measure.reads_cjk:
        held = ", and this store holds some" if _holds_cjk(store) else ""
        yield f"It does not tell Chinese texts apart{held}; words alone answer questions in Chinese."
    if ms > _BUDGET_MS:
        yield f"A question waits {_BUDGET_MS} ms at most for its vector, so words alone will answer most of them."


def _trouble() -> str:
    """What the last calls of the endpoint say."""
    connection = connections.embedding()
    calls = LlmCall.objects.filter(connection=connection.name, purpose__startswith="embed") if connection else None
    last = calls.exclude(outcome="started").first() if calls is not None else None
    if last is None or connection is None:
        return ""
    if last.outcome != "ok":
        outcome = last.outcome.replace("_", " ")
        return (
            f"The last call of {connection.host} failed ({outcome}), so words alone answer; "
            "`coffer memory embed global --test` says more."
        )
    if last.purpose == "embed query" and last.ms > _BUDGET_MS:
        return (
            f"{connection.host} took {last.ms} ms for the last query; one waits {_BUDGET_MS} ms, and then words alone "
            "answer."
        )
    return ""


def _embed_if_missing(store: Store) -> None:
    try:
        done = retrieval.coverage(store)
    except CofferError:
        return  # told by the findings
    if done.left > 0 or (done.failed and done.retry_at <= time.time()):
        schedule.embed(store.name)


def _holds_cjk(store: Store) -> bool:
    return Document.objects.filter(store=store, title__regex=f"[{CJK}]").exists()
