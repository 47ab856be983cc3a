"""Undo a pass: notes, topics and rules as they were before it, wherever nobody changed them since (promise 6).

Step by step, the last one first: what is there in between is what the pass went through, or holds a line twice, so
that a kill loses nothing. What the pass wrote goes to the archive like anything that is replaced.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from coffer import fs
from coffer.errors import MemoryNotFound
from memory.files import acceptance, lanes, markdown
from memory.files.lanes import Kind
from memory.models import Pass, Store
from memory.services import (
    archive,
    archive_lines,
    changelog,
    consolidation,
    inbox,
    passes,
    rule_split,
    rules,
    topics,
    trail,
    writes,
)
from memory.services import stores as store_service
from memory.services.archive import Superseded
from memory.services.topics import Topic

_WHY = "the pass that made it was undone"
_WORDS = {
    "notes": (
        "note is back in the inbox, and left alone until it changes",
        "notes are back in the inbox, and left alone until they change",
    ),
    "topics": ("topic is as it was before", "topics are as they were before"),
    "rules": ("rule is as it was before", "rules are as they were before"),
    "kept": ("thing stays as it is, because it changed since", "things stay as they are, because they changed since"),
}


@dataclass(frozen=True)
class Undone:
    """What is as it was before the pass: ``notes`` in the inbox, ``topics``, ``rules``; ``kept`` changed since."""

    notes: int = 0
    topics: int = 0
    rules: int = 0
    kept: int = 0

    @property
    def sentence(self) -> str:
        """What a person is told."""
        told = [f"{count} {_WORDS[name][count != 1]}." for name, count in vars(self).items() if count]
        return " ".join(told) or "Nothing of it was left."


def undo(store: Store, run: str, *, actor: str = "user") -> Undone:
    """Take a pass back, its last step first; a note that comes back is left alone until it changes.

    What somebody changed since stays, and so does a topic that alone holds lines from before the pass. Raises
    MemoryNotFound for a pass that has left nothing here, Busy while another is at work.
    """
    with passes.alone(store):
        if store_service.folder(store).is_dir():
            with store_service.write_lock(store) as folder:
                archive.recover(folder)
        undoing = _Undoing(store, run, actor)
        if not undoing.steps:
            raise MemoryNotFound(f"{store.name} has nothing left of a pass {run[:40]!r} to undo.", store=store.name)
        done = undoing.all_steps()
        if done.notes or done.topics:
            topics.write_index(store, store_service.refresh(store).behind)
    changelog.append(store, f"undone: {done.sentence}")
    filed = any(line.into for line in undoing.steps)
    trail.record(
        f"memory_{'organize' if filed else 'reorg'}_undone", store=store.name, ref=run, actor=actor, **vars(done)
    )
    trail.write(lambda: Pass.objects.filter(run=run).update(undone=True))
    return done


def undo_last(store: Store, kind: passes.Kind | None = None, *, actor: str = "user") -> tuple[Pass, Undone]:
    """Take back the newest pass, of one kind or any, that changed something. Raises MemoryNotFound, Busy."""
    passes.close_killed()
    last = passes.last_undoable(store, kind)
    if last is None:
        name = store_service.display_name(store)
        raise MemoryNotFound(f"{name} has no pass that could be undone.", store=store.name)
    return last, undo(store, last.run, actor=actor)


class _Undoing:
    """One pass being undone; ``steps`` are the lines of the archive's index that stand for what it did, in order."""

    def __init__(self, store: Store, run: str, actor: str) -> None:
        self._store, self._actor = store, actor
        rows = archive_lines.rows(store_service.folder(store))
        self._lines = {line.file: line for line in rows}
        part_of_another = {line.over for line in rows}
        ours = [line for line in rows if run and line.run == run and line.file not in part_of_another]
        self.steps = [line for line in ours if line.state in ("done", archive.MADE)]
        self._before = self._said_before()
        self._counts: Counter[str] = Counter()
        self._topics: dict[str, bool] = {}  # whether they are as before the pass, as far as is known by now

    def all_steps(self) -> Undone:
        for line in reversed(self.steps):
            if line.into:
                self._counts["notes" if self._note(line) else "kept"] += 1
            elif line.lane == lanes.RULES:
                self._promoted(line) if line.state == archive.MADE else self._sorted(line)
            elif line.state != archive.MADE or os.path.lexists(store_service.folder(self._store) / line.path):
                self._topics[line.path] = self._topic(line)
        back = sum(self._topics.values())
        return Undone(
            self._counts["notes"], back, self._counts["rules"], self._counts["kept"] + len(self._topics) - back
        )

    def _note(self, line: Superseded) -> bool:
        """A note comes back before its topic loses it."""
        store = self._store
        try:
            with store_service.write_lock(store) as folder:
                if line.result and not _is_as_left(folder, line.into, line.result):
                    return False
                archive.restore(folder, line)
                if line.over:
                    archive.restore(folder, self._lines[line.over])
                elif line.result:
                    archive.remove(folder, line.into, _WHY)
        except (FileNotFoundError, KeyError):
            return False  # erased since, or the index was cut
        if line.into == rules.FILE:
            _take_rule_back(store, store_service.folder(store) / line.path)
        writes.index(store, [line.path, line.into] if line.result else [line.path])
        inbox.leave_alone(store, line.path, "a person took its last pass back")
        return True

    def _topic(self, line: Superseded) -> bool:
        """A topic that was made goes, one that was replaced or retired comes back."""
        with store_service.write_lock(self._store) as folder:
            if not _is_as_left(folder, line.path, line.result):
                return False
            before = _archived(folder, line) if line.state != archive.MADE else None
            if line.state != archive.MADE and before is None:
                return False  # erased since
            if line.result and self._is_needed(folder, line.path, before):
                return False
            if before is not None:
                archive.restore(folder, line)
            else:
                archive.remove(folder, line.path, _WHY)
                archive_lines.close(folder, line.file, "undone")
        writes.index(self._store, [line.path])
        return True

    def _promoted(self, line: Superseded) -> None:
        """A rule that rests on the journal goes, unless a person kept it or took it away."""
        found = [rule for rule in rules.listing(self._store) if archive.sha256(rule.text.encode()) == line.result]
        rule = next((rule for rule in found if rule.new), None)
        if rule is None:
            self._counts["kept"] += bool(found)
            return
        rules.remove(self._store, rule.id, actor=self._actor)
        with store_service.write_lock(self._store) as folder:
            archive_lines.close(folder, line.file, "undone")
        self._counts["rules"] += 1

    def _sorted(self, line: Superseded) -> None:
        """Rules that were sorted into other files go back into theirs."""
        before = _archived(store_service.folder(self._store), line)
        if before is None:
            return  # erased since
        back, changed = rule_split.join(self._store, line.path, before.data)
        with store_service.write_lock(self._store) as folder:
            archive_lines.close(folder, line.file, "restored")
        self._counts["rules"] += back
        self._counts["kept"] += changed

    def _is_needed(self, folder: Path, path: str, before: Topic | None) -> bool:
        """Whether a topic holds what stood here before the pass and would be in no topic without it."""
        now = topics.read(self._store, path)
        lost = (_said(now) if now else set()) & self._before - (_said(before) if before else set())
        others = (
            other for other in lanes.walk(folder).files if lanes.recallable(other) is Kind.TOPIC and other != path
        )
        for other in others if lost else ():
            topic = topics.read(self._store, other)
            lost -= _said(topic) if topic else set()
        return bool(lost)

    def _said_before(self) -> set[str]:
        """What the topics said that the pass replaced or retired, but for what it had written itself."""
        folder = store_service.folder(self._store)
        replaced = [line for line in self.steps if line.lane == lanes.KNOWLEDGE and not line.into]
        written = {line.result for line in replaced}
        found = (_archived(folder, line) for line in replaced if line.state != archive.MADE)
        return {unit for topic in found if topic and topic.sha256 not in written for unit in _said(topic)}


def _is_as_left(folder: Path, path: str, result: str) -> bool:
    """Whether a file is what the pass wrote there; without a result: whether none is there, as it left it."""
    if not lanes.is_plain(folder, path):
        return False
    if not result:
        return not os.path.lexists(folder / path)
    try:
        return archive.sha256(fs.read(folder / path)) == result
    except OSError:
        return False


def _archived(folder: Path, line: Superseded) -> Topic | None:
    try:
        data = fs.read(folder / archive.FOLDER / line.file)
    except OSError:
        return None
    return Topic(Path(line.path).stem, line.path, data, markdown.parse(data))


def _said(topic: Topic) -> set[str]:
    """The lines of a topic, and what its frontmatter says."""
    about = (topic.title, markdown.text_of(topic.page, "description"), consolidation.details(topic))
    return {unit for text in (topic.body, *about) for unit in acceptance.units(text)}


def _take_rule_back(store: Store, note: Path) -> None:
    page = markdown.parse(fs.read(note))
    origin = markdown.text_of(page, "id") or note.stem
    for rule in rules.listing(store):
        if rule.new and rule.origin == origin:
            rules.remove(store, rule.id)
