"""The vector of a query, in time or not at all: a model that is slow, down or not there costs a recall nothing.

It is asked for while the words are searched. An embedder that did not answer in time rests for a while, longer each
time, so that not every recall pays for it. What has to be loaded first is loaded beside the questions.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from django.db import connection

from coffer.errors import CofferError, ConfigInvalid, NoModel, where
from coffer.llm import Embedder, Vector
from memory.models import Store
from memory.retrieval import spaces, vectors
from memory.retrieval.analyser import cjk_runs
from memory.retrieval.vectors import Space

log = logging.getLogger("memory.embedding")
SECONDS = 0.15  # that a query may wait for its vector
_LATE_SECONDS = 5.0  # after which an answer that comes too late for this query is of no use for the next one either
_PATIENCE = 3600.0
_REST, _LONGEST_REST = 10.0, 300.0
_REMEMBERED = 256
_MOST_CHARS = 2_000  # of a query: further down stands what was pasted


@dataclass(frozen=True)
class Meaning:
    """The vector of a query, and the stores whose passages have vectors of the same space."""

    space: Space
    vector: Vector
    stores: tuple[str, ...]


@dataclass(frozen=True)
class _Pending:
    embedder: Embedder
    stores: tuple[str, ...]
    vector: "Future[tuple[Space, Vector] | None]"


@dataclass
class Asked:
    """Vectors of one query under way; ``notes`` say in a sentence why there is none for some stores."""

    query: str
    deadline: float
    pending: list[_Pending] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def meanings(self) -> list[Meaning]:
        """What has come, waiting for as much of the time as is left."""
        found = []
        for one in self.pending:
            try:
                answer = one.vector.result(max(self.deadline - time.monotonic(), 0.0))
            except TimeoutError:
                _rest(one.embedder)
                self.notes.append(f"{one.embedder.model} did not answer in time.")
                continue
            except Exception as error:
                _rest(one.embedder)
                self.notes.append(
                    error.message if isinstance(error, CofferError) else "The vectors cannot be read now."
                )
                log.info("no query vector error=%s", where(error))
                continue
            _resting.pop(one.embedder.model, None)
            if answer is None:
                self.notes.append(f"Nothing is embedded yet by {one.embedder.model} as it answers now.")
            elif not answer[0].reads_cjk and cjk_runs(self.query):
                self.notes.append(f"{one.embedder.model} does not tell Chinese texts apart, so it is not asked.")
            else:
                found.append(Meaning(*answer, one.stores))
        return found


_resting: dict[str, tuple[float, float]] = {}  # by model: until when, and how long the next rest is
_remembered: "OrderedDict[tuple[str, str], tuple[Space, Vector]]" = OrderedDict()
_loading: set[Embedder] = set()
_lock = threading.Lock()


def ask(stores: Sequence[Store], query: str, seconds: float | None = SECONDS) -> Asked:
    """Begin to embed a query for those of the stores that are searched by vectors.

    ``seconds`` is how long its vector is waited for; 0 asks for none, None waits as long as it takes.
    """
    patient, hurried, query = seconds is None, seconds is not None and seconds <= SECONDS, query[:_MOST_CHARS]
    asked = Asked(query, time.monotonic() + (_PATIENCE if seconds is None else seconds))
    if seconds == 0:
        return asked
    by_embedder: dict[Embedder, list[str]] = {}
    for store in stores:
        try:
            if spaces.hybrid(store):
                by_embedder.setdefault(spaces.embedder_of(store), []).append(store.name)
        except (ConfigInvalid, NoModel) as error:
            asked.notes.append(error.message)
    for embedder, names in by_embedder.items():
        kept = _recollection(embedder, query)
        if kept is None and not patient and (note := _unfit(embedder, hurried=hurried)):
            asked.notes.append(note)
        else:
            vector = _done(kept) if kept else _begin(partial(_embedded, embedder, query, patient))
            asked.pending.append(_Pending(embedder, tuple(names), vector))
    return asked


def embed_queries(store: Store, queries: Sequence[str]) -> None:
    """Ask for the vectors of many queries at once, so that none of them has to be waited for. Raises EngineError."""
    embedder = spaces.embedder_of(store)
    queries = [query[:_MOST_CHARS] for query in queries]
    probe, *answered = embedder.embed([spaces.PROBE, *queries], store=store.name)
    space = spaces.find(embedder, probe)
    for query, vector in zip(queries, answered, strict=True):
        _remember(embedder, query, space, vector)


def forget() -> None:
    """Forget every query and every rest."""
    with _lock:
        _remembered.clear()
        _resting.clear()


def _unfit(embedder: Embedder, *, hurried: bool) -> str:
    if not embedder.at_hand:
        return "The local model is not loaded in this process; the daemon has it."
    until, _ = _resting.get(embedder.model, (0.0, 0.0))
    if time.monotonic() < until:
        return f"{embedder.model} rests after it failed or was slow."
    if hurried and not embedder.ready:
        _load(embedder)
        return f"{embedder.model} is being loaded."
    return ""


def _load(embedder: Embedder) -> None:
    with _lock:
        if embedder in _loading:
            return
        _loading.add(embedder)

    def load() -> None:
        try:
            embedder.prepare()
        except Exception as error:
            _rest(embedder)
            log.warning("the embedding model cannot be loaded error=%s", where(error))
        finally:
            with _lock:
                _loading.discard(embedder)

    threading.Thread(target=load, name="coffer-load-model", daemon=True).start()


def _recollection(embedder: Embedder, query: str) -> tuple[Space, Vector] | None:
    with _lock:
        kept = _remembered.get((embedder.model, query))
    try:
        return kept if kept is not None and kept[0] in vectors.spaces(embedder.model) else None
    except vectors.FAILURES:
        return None


def _embedded(embedder: Embedder, query: str, patient: bool) -> tuple[Space, Vector] | None:
    """Runs in a thread of its own; what comes too late for this query is there for the next one like it."""
    if not vectors.spaces(embedder.model):
        return None
    probe, vector = embedder.embed([spaces.PROBE, query], seconds=None if patient else _LATE_SECONDS)
    return _remember(embedder, query, spaces.find(embedder, probe), vector)


def _remember(
    embedder: Embedder, query: str, space: Space | None, vector: Vector | None
) -> tuple[Space, Vector] | None:
    if space is None or vector is None or len(vector) != len(space.probe):
        return None
    with _lock:
        _remembered[(embedder.model, query)] = (space, vector)
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
    return space, vector


def _rest(embedder: Embedder) -> None:
    _, pause = _resting.get(embedder.model, (0.0, _REST))
    _resting[embedder.model] = (time.monotonic() + pause, min(pause * 2, _LONGEST_REST))


def _done(answer: tuple[Space, Vector]) -> "Future[tuple[Space, Vector] | None]":
    future: Future[tuple[Space, Vector] | None] = Future()
    future.set_result(answer)
    return future


def _begin(work: Callable[[], tuple[Space, Vector] | None]) -> "Future[tuple[Space, Vector] | None]":
    """Not an executor's thread: the end of a process would wait for those."""
    future: Future[tuple[Space, Vector] | None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        finally:
            connection.close()

    threading.Thread(target=run, name="coffer-query-vector", daemon=True).start()
    return future
