"""Passes of the engine over a store: one at a time, a row for each, and what a person needs to know of the last."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, get_args

from django.utils import timezone

from coffer import fs, llm, paths
from coffer.errors import Busy
from coffer.registry import Finding
from memory.files import ulid
from memory.models import Failure, Pass, Store
from memory.services import archive, archive_lines, inbox, store_rows, trail
from memory.services import stores as store_service

Kind = Literal["organize", "reorg"]
RUNNING = "running"
INTERRUPTED = "it was interrupted"
_ENDS = {"organize": ("organized", "drained"), "reorg": ("reorganized", "written")}  # the status, and what it counts
_CHANGES = ("drained", "written", "superseded", "promoted", "rules_moved")  # counts of what could be undone
KEPT = 50  # rows of one store and kind
_SAID = {
    "drained": "filed",
    "topics_created": "in new topics",
    "topics_merged": "merged",
    "rules_appended": "made rules",
    "appended": "added as they are",
    "written": "written",
    "superseded": "superseded",
    "promoted": "promoted",
    "refused": "refused",
    "rules_moved": "rules sorted",
    "skipped": "skipped",
}


@dataclass(frozen=True)
class Overview:
    """What the page of a store shows of its organizing; ``model`` is None when none is connected."""

    left_alone: list[Failure]
    last: Pass | None
    undoable: list[Pass]
    model: str | None
    reorg: Pass | None

    @property
    def tokens(self) -> int:
        """What the last pass cost."""
        return self.last.tokens_in + self.last.tokens_out if self.last else 0

    @property
    def done(self) -> str:
        """What the last pass counted, in words, without its zeros."""
        return _said(self.last)

    @property
    def reorganized(self) -> str:
        """The same of the last reorganization."""
        return _said(self.reorg)

    @property
    def running(self) -> bool:
        return self.last is not None and self.last.status == RUNNING


def alone(store: Store, *, seconds: float = 0.0) -> AbstractContextManager[None]:
    """Hold the store's pass lock, across processes. Raises Busy when a pass is still at work after so many seconds."""
    return _locked(store.name, seconds)


def begin(store: Store, kind: Kind, actor: str, model: str) -> Pass:
    """Note that a pass has begun; its ``run`` goes beside everything that it archives.

    The caller holds the store's pass lock, so that a row which still runs is one of a process that was killed.
    """
    for killed in Pass.objects.filter(store=store.name, status=RUNNING):
        _close(killed)
    now = timezone.now()
    row = Pass(run=ulid.new(), store=store.name, kind=kind, actor=actor, status=RUNNING, model=model, started_at=now)
    trail.write(lambda: row.save(force_insert=True))
    return row


def finish(row: Pass, status: str, counts: Mapping[str, int], stopped: str = "") -> None:
    """Note how it ended, with what its calls cost; a row that could not be written before is made now."""
    row.status, row.counts, row.stopped, row.finished_at = status, dict(counts), stopped, timezone.now()
    calls, _ = llm.calls(since=row.started_at, limit=10_000, offset=0, purpose=row.kind, store=row.store)
    row.tokens_in, row.tokens_out = sum(call.tokens_in for call in calls), sum(call.tokens_out for call in calls)

    def write() -> None:
        values = {
            field.name: getattr(row, field.name) for field in Pass._meta.fields if field.name not in ("id", "run")
        }
        Pass.objects.update_or_create(run=row.run, defaults=values)
        ours = Pass.objects.filter(store=row.store, kind=row.kind)
        ours.exclude(pk__in=list(ours.values_list("pk", flat=True)[:KEPT])).delete()

    trail.write(write)


def close_killed() -> None:
    """End the rows of passes that were killed, with what the archive tells of them; undone like any other."""
    for seen in Pass.objects.filter(status=RUNNING):
        with suppress(Busy), _locked(seen.store):
            for row in Pass.objects.filter(pk=seen.pk, status=RUNNING):  # it may have ended since it was seen
                _close(row)


def last(store: Store, kind: Kind = "organize") -> Pass | None:
    return Pass.objects.filter(store=store.name, kind=kind).first()


def last_undoable(store: Store, kind: Kind | None = None) -> Pass | None:
    """The newest pass, of one kind or any, that changed something and was not taken back."""
    rows = Pass.objects.filter(store=store.name, undone=False, **({"kind": kind} if kind else {}))
    return next((row for row in rows if any(map(row.counts.get, _CHANGES))), None)


def overview(store: Store) -> Overview:
    """What was given up in the inbox, and how the last pass went."""
    close_killed()
    model = llm.model()
    given_up = list(inbox.given_up(store, model or "").values())
    undoable = [row for kind in get_args(Kind) if (row := last_undoable(store, kind))]
    return Overview(given_up, last(store), undoable, model, last(store, "reorg"))


def findings() -> Iterator[Finding]:
    """For status, doctor and the pages' banner: passes that ended early, and notes that need a person."""
    close_killed()
    for name in store_service.names_on_disk():
        row = Pass.objects.filter(store=name).first()
        if row is not None and row.stopped and not row.undone:
            store = store_rows.find(name)
            called = store_service.display_name(store) if store is not None else name
            yield Finding("warning", "organizer", f"The last pass over {called} ended early: {row.stopped}")
    left = inbox.count_given_up()
    if left:
        told = (
            "1 note that failed or was taken back is"
            if left == 1
            else f"{left} notes that failed or were taken back are"
        )
        yield Finding("warning", "organizer", f"{told} left in the inbox; the pages name them, --again tries them.")


@contextmanager
def _locked(name: str, seconds: float = 0.0) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(fs.locked(f"{name}.pass.lock", seconds=seconds))
        except Busy:
            raise Busy(f"Another pass is at work on {name}; try again when it is done.") from None
        yield


def _close(row: Pass) -> None:
    status, counted = _ENDS[row.kind]
    ours = [line for line in archive_lines.rows(paths.store(row.store)) if line.run == row.run]
    done = [line for line in ours if line.state in ("done", archive.MADE)]
    # A note that was filed has a line of its own beside that of the topic's version before.
    finish(row, status, {counted: sum(bool(line.into) or row.kind != "organize" for line in done)}, INTERRUPTED)


def _said(row: Pass | None) -> str:
    counts = row.counts if row is not None else {}
    return ", ".join(f"{counts[name]} {words}" for name, words in _SAID.items() if counts.get(name)) or "nothing done"
