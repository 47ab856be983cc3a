"""Undo a pass: its notes back in the inbox, its topics as they were, wherever nobody changed them since (promise 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coffer import fs
from coffer.errors import MemoryNotFound
from memory.files import markdown
from memory.models import Pass, Store
from memory.services import archive, archive_lines, changelog, inbox, passes, rules, topics, trail, writes
from memory.services import stores as store_service
from memory.services.archive import Superseded


@dataclass(frozen=True)
class Undone:
    """How many notes came back, and how many stay where they went because a topic changed since."""

    notes: int
    kept: int


def undo(store: Store, run: str, *, actor: str = "user") -> Undone:
    """Take a pass back, its last step first; what comes back is left alone until it or the model changes.

    Raises MemoryNotFound for a pass that archived nothing here, Busy while another is at work.
    """
    with passes.alone(store):
        lines = {line.file: line for line in archive_lines.rows(store_service.folder(store))}
        steps = [line for line in lines.values() if line.run == run and line.into and line.state == "done"]
        if not steps:
            raise MemoryNotFound(f"{store.name} has nothing left of a pass {run[:40]!r} to undo.", store=store.name)
        back = [line for line in reversed(steps) if _undo(store, line, lines)]
    if back:
        topics.write_index(store, store_service.refresh(store).behind)
    changelog.append(store, f"undone: {len(back)} notes are back in the inbox, {len(steps) - len(back)} stay")
    trail.record("memory_organize_undone", store=store.name, ref=run, actor=actor, notes=len(back))
    trail.write(lambda: Pass.objects.filter(run=run).update(undone=True))
    return Undone(len(back), len(steps) - len(back))


def _undo(store: Store, line: Superseded, lines: Mapping[str, Superseded]) -> bool:
    """One note; it comes back before its topic loses it, so that a kill in between doubles it and loses nothing."""
    try:
        with store_service.write_lock(store) as folder:
            if line.result and _hash(folder / line.into) != line.result:
                return False
            archive.restore(folder, line)
            if line.over:
                archive.restore(folder, lines[line.over])
            elif line.result:
                archive.remove(folder, line.into, "the pass that made it was undone")
    except (FileNotFoundError, KeyError):
        return False  # erased since, or the index was cut
    if line.into == rules.FILE:
        _take_rule_back(store, store_service.folder(store) / line.path)
    writes.index(store, [line.path, line.into] if line.result else [line.path])
    inbox.leave_alone(store, line.path, "a person took its last pass back")
    return True


def _take_rule_back(store: Store, note: Path) -> None:
    page = markdown.parse(fs.read(note))
    origin = markdown.text_of(page, "id") or note.stem
    for rule in rules.listing(store):
        if rule.new and rule.origin == origin:
            rules.remove(store, rule.id)


def _hash(path: Path) -> str:
    try:
        return archive.sha256(fs.read(path))
    except OSError:
        return ""
