"""Bring the vectors in line with the index, in the background and a few files at a time; nobody waits for it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256

from coffer import fs, paths
from coffer.errors import BadAnswer, Busy, NoModel
from coffer.llm import Embedder
from memory.files import lanes
from memory.models import Document, Store
from memory.retrieval import spaces, vectors
from memory.retrieval.entries import Entry, read_entry
from memory.retrieval.vectors import Embedded, Space, State

log = logging.getLogger("memory.embedding")
Report = Callable[[int, int, str], None]  # done, in all, the title at hand
_GROUP = 256  # texts that are asked for and kept together
_PAUSE, _LONGEST_PAUSE = 60.0, 86_400.0  # seconds until a file that failed is tried again; four times as long each time
_MOVES = 3  # a model may be another one that often while it is at work


@dataclass(frozen=True)
class Coverage:
    """How far the vectors of a store are: files in the index, those embedded, and those that failed for now."""

    model: str = ""
    files: int = 0
    embedded: int = 0
    failed: int = 0
    retry_at: float = 0.0  # when the first of the failed is tried again, as time.time()
    reads_cjk: bool = True

    @property
    def left(self) -> int:
        return self.files - self.embedded - self.failed


def coverage(store: Store) -> Coverage:
    """What is embedded now; no model is asked. Raises NoModel, Busy."""
    with _usable():
        return _coverage(store, None)


def catch_up(store: Store, *, seconds: float = float("inf"), report: Report | None = None) -> Coverage:
    """Embed what is not embedded yet, for about so many seconds; what could not be done is in the answer.

    Raises Busy when another process is at it, or the file of vectors cannot be used; EngineError when the model cannot
    be asked now; NoModel also when the store's settings ask for another one, or none, by then.
    """
    deadline = time.monotonic() + seconds
    with _alone(store), _usable():
        embedder = spaces.embedder_of(store)
        for _ in range(_MOVES):
            space = spaces.settle(embedder, store.name)
            try:
                done = _embed_all(store, embedder, space, deadline, report)
            except _Moved:
                log.warning("the model has changed store=%s", store.name)
                continue
            if done:
                vectors.retain_space(space, store.name)
                vectors.retain_stores(Store.objects.values_list("name", flat=True))
            return _coverage(store, space)
    raise BadAnswer("the model behind the address changes all the time")


def tidy(store: Store) -> None:
    """Drop, without a trace, the vectors of files that are not in the index and of stores that are no more.

    Raises Busy.
    """
    if not paths.vectors().exists():
        return
    try:
        with _usable():
            vectors.retain(store.name, _indexed(store))
            vectors.retain_stores(Store.objects.values_list("name", flat=True))
            vectors.compact()
    except NoModel:
        vectors.discard()  # what cannot be opened cannot be trimmed, and is made anew


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(fs.locked(f"{store.name}.embed.lock", seconds=0.0))
        except Busy as error:
            raise Busy("Its vectors are being made already; `coffer status` tells how far that is.") from error
        yield


@contextmanager
def _usable() -> Iterator[None]:
    """Raises Busy for a file of vectors that cannot be used now: locked, just found damaged, on a full disk.

    Raises NoModel where sqlite-vec is missing, or is not for this machine.
    """
    try:
        yield
    except vectors.FAILURES as error:
        if isinstance(error, Busy):
            raise
        if isinstance(error, vectors.NOT_LOADABLE):
            raise NoModel("sqlite-vec cannot be loaded here; install the package sqlite-vec anew.") from error
        raise Busy("The file of vectors cannot be used now; try again in a moment.") from error


class _Moved(Exception):
    """The embedder answers in another space than before."""


def _embed_all(store: Store, embedder: Embedder, space: Space, deadline: float, report: Report | None) -> bool:
    """Whether nothing is left but what failed."""
    indexed = _indexed(store)
    vectors.retain(store.name, indexed)
    states = vectors.states(space, store.name)
    now = time.time()
    wanted = [
        path
        for path, hashed in indexed.items()
        if path not in states
        or states[path].sha256 != hashed
        or (states[path].failures and states[path].retry_at <= now)
    ]
    done = len(indexed) - len(wanted)
    for group in _groups(store, wanted, indexed):
        if time.monotonic() > deadline:
            return False
        if report is not None:
            report(done, len(indexed), group[0].title)
        _embed_group(store, embedder, space, group, states)
        done += len(group)
        _check_still_wanted(store, embedder)
    if report is not None:
        report(len(indexed), len(indexed), "")
    return True


def _embed_group(
    store: Store, embedder: Embedder, space: Space, group: Sequence[Entry], states: Mapping[str, State]
) -> None:
    texts = {path: [_text(entry, position) for position in range(len(entry.passages))] for path, entry in _paths(group)}
    by_digest = {_digest(text): text for parts in texts.values() for text in parts}
    found = vectors.known(space, by_digest)
    missing = [digest for digest in by_digest if digest not in found]
    if missing:
        probe, *answers = embedder.embed([spaces.PROBE, *map(by_digest.__getitem__, missing)], store=store.name)
        if spaces.find(embedder, probe) != space:
            raise _Moved
        made = {digest: vector for digest, vector in zip(missing, answers, strict=True) if vector is not None}
        found |= {digest: vector for digest, vector in made.items() if len(vector) == len(space.probe)}
    files = []
    for path, entry in _paths(group):
        digests = [_digest(text) for text in texts[path]]
        have = [(position, digest, found[digest]) for position, digest in enumerate(digests) if digest in found]
        files.append(Embedded(path, _state(entry, states.get(path), complete=len(have) == len(digests)), have))
    vectors.keep(space, store.name, files, lambda: _indexed(store, list(texts)))


def _state(entry: Entry, before: State | None, *, complete: bool) -> State:
    if complete:
        return State(entry.sha256, 0, 0.0)
    failures = 1 + (before.failures if before is not None and before.sha256 == entry.sha256 else 0)
    pause = min(_PAUSE * 4 ** min(failures - 1, 10), _LONGEST_PAUSE)
    return State(entry.sha256, failures, time.time() + pause)


def _groups(store: Store, wanted: Sequence[str], indexed: Mapping[str, str]) -> Iterator[list[Entry]]:
    """Files as they are indexed, read one by one; one that changed since comes when it is indexed anew."""
    folder = paths.store(store.name)
    group: list[Entry] = []
    size = 0
    for path in wanted:
        stat = lanes.stat(folder, path)
        try:
            entry = read_entry(folder, path, stat, None) if stat is not None else None
        except OSError:
            continue  # the index will tell why it cannot be read
        if entry is None or entry.sha256 != indexed[path]:
            continue
        if group and size + len(entry.passages) > _GROUP:
            yield group
            group, size = [], 0
        group.append(entry)
        size += len(entry.passages)
    if group:
        yield group


def _check_still_wanted(store: Store, embedder: Embedder) -> None:
    """Raises NoModel when the settings were changed while it was at work."""
    store.refresh_from_db(fields=["config"])
    if not spaces.hybrid(store) or spaces.embedder_of(store) != embedder:
        raise NoModel("The settings of the search were changed while vectors were made.")


def _indexed(store: Store, paths: Sequence[str] | None = None) -> dict[str, str]:
    """The hash of every file in the index, or of some, the newest first."""
    found = Document.objects.filter(store_id=store.pk).order_by("-time")
    return dict((found if paths is None else found.filter(path__in=paths)).values_list("path", "sha256"))


def _paths(group: Sequence[Entry]) -> list[tuple[str, Entry]]:
    return [(entry.path, entry) for entry in group]


def _text(entry: Entry, position: int) -> str:
    """A passage with its title and what stands around it, as measured: without them it is found less."""
    return "\n".join(part for part in entry.columns(position) if part.strip())


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _coverage(store: Store, space: Space | None) -> Coverage:
    embedder = spaces.embedder_of(store)
    model = embedder.model
    space = space or next(iter(vectors.spaces(model)), None)
    indexed = _indexed(store)
    if space is None or spaces.moved(embedder):
        return Coverage(model, len(indexed))
    states = vectors.states(space, store.name)
    current = [state for path, state in states.items() if indexed.get(path) == state.sha256]
    failed = [state for state in current if state.failures]
    retry_at = min((state.retry_at for state in failed), default=0.0)
    return Coverage(model, len(indexed), len(current) - len(failed), len(failed), retry_at, space.reads_cjk)
