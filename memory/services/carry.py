"""The files of one store into another: additive, and the same result when it is done again (FR-057).

Bytes that are there already stay once; journal days, rules and logs are joined; whatever else collides is kept beside
the other under the first free number. ``decide`` only looks, ``do`` writes; both expect the target's write lock.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coffer import fs
from memory.files import journal, lanes, markdown, rules
from memory.files.lanes import Kind
from memory.services import archive

Did = Literal["added", "same", "renamed", "joined", "left"]
RECORD = "merge"  # the folder of a store that is being merged away in which `merge_record` keeps what it did
_LEFTOVER = re.compile(r"\..{1,40}\.[0-9a-f]{12}\.tmp")  # as `fs` names what a killed writer may leave
ARCHIVE_INDEX = f"{archive.FOLDER}/{archive.INDEX}"
_LOGS = (lanes.LOG, ARCHIVE_INDEX)
_DERIVED = (lanes.STORE_FILE, lanes.INDEX)


@dataclass(frozen=True)
class Step:
    """What becomes of one file: where it goes, and what is written there when it is not the file's own bytes."""

    path: str
    to: str
    did: Did
    why: str = ""
    data: bytes | None = None


def plan(source: Path, target: Path) -> Iterator[Step]:
    """What becomes of each file of a store, derived ones left out; nothing is written."""
    for relative in walk(source):
        yield decide(source, target, relative)
    for relative in passed_over(source):
        yield Step(relative, "", "left", "a link, a folder of another program, or no regular file")


def everything(source: Path, target: Path) -> Counter[Did]:
    """Carry every file over; may be repeated after a crash. Returns what became of how many."""
    done: Counter[Did] = Counter()
    for relative in walk(source):
        step = decide(source, target, relative)
        do(source, target, step)
        done[step.did] += 1
    return done


def walk(source: Path) -> Iterator[str]:
    """The files to carry, relative to the store; the logs last, as they name what went before."""
    for relative, entry in _entries(source):
        if entry.is_file(follow_symlinks=False) and relative not in (*_DERIVED, *_LOGS):
            yield relative
    yield from (relative for relative in _LOGS if lanes.is_plain(source, relative) and (source / relative).is_file())


def walk_lanes(store: Path) -> Iterator[str]:
    """The files of a store that are memory: without logs and archive."""
    own = (lanes.KNOWLEDGE, lanes.RULES, lanes.JOURNAL, lanes.HANDOFF)
    return (relative for relative in walk(store) if relative.partition("/")[0] in own)


def passed_over(source: Path) -> Iterator[str]:
    """What stays in the old folder: links, which lead elsewhere, and the folders of other programs."""
    for relative, entry in _entries(source):
        if not entry.is_file(follow_symlinks=False):
            yield relative


def decide(source: Path, target: Path, relative: str) -> Step:
    """What becomes of one file, judged by what stands in the target now. Raises FileNotFoundError when it has gone."""
    data = fs.read(source / relative)
    place = archive.inside(target, relative)
    joined = _joined(source, target, relative, data)
    if joined is not None:
        there = fs.read(place) if place.is_file() else None
        if joined in (there, b""):
            return Step(relative, relative, "same")
        return Step(relative, relative, "added" if there is None else "joined", data=joined)
    if not os.path.lexists(place):
        return Step(relative, relative, "added")
    if _has(place, data):
        return Step(relative, relative, "same")
    return _beside(relative, place, data)


def do(source: Path, target: Path, step: Step) -> None:
    """Write what was decided. Raises FileExistsError when another program took the place meanwhile."""
    place = target / step.to
    if step.did in ("same", "left"):
        return
    fs.ensure_dir(place.parent)
    if step.did == "joined":
        _keep_what_goes(target, step)
        fs.write(place, step.data or b"")
        return
    fs.create(place, fs.read(source / step.path) if step.data is None else step.data)
    found = (source / step.path).stat()
    os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))  # for a file without stamps they are its age


def taken_out(relative: str, now: bytes, more: bytes, before: bytes) -> bytes:
    """A joined file without what came from ``more``; what was written since stays."""
    if _is_day(relative):
        return journal.part(now, more, before)
    if _is_rules(relative):
        bodies = [markdown.parse(data).body for data in (now, more, before)]
        body = rules.part(*bodies)
        return before if body == bodies[2] else markdown.replace(now, {}, body)
    brought = set(more.splitlines()) - set(before.splitlines())
    kept = [line for line in now.splitlines() if line not in brought]
    return before if kept == before.splitlines() else b"".join(line + b"\n" for line in kept)


def is_joined(relative: str) -> bool:
    """Whether a file is made one with its counterpart, rather than kept beside it."""
    return _is_day(relative) or _is_rules(relative) or relative in _LOGS


def archived_as(source: Path, target: Path) -> dict[str, str]:
    """How archived files of the source are called in the target, where that differs."""
    folder = f"{archive.FOLDER}/"
    steps = (decide(source, target, folder + name) for name in lanes.pages(source, archive.FOLDER))
    return {step.path.removeprefix(folder): step.to.removeprefix(folder) for step in steps if step.to != step.path}


def renamed_lines(data: bytes, names: dict[str, str]) -> bytes:
    """An archive's index with other names of its files; a line that cannot be read stays as it is."""
    return b"".join(_renamed(line, names) + b"\n" for line in data.splitlines()) if names else data


def _entries(source: Path) -> Iterator[tuple[str, "os.DirEntry[str]"]]:
    """Files and links, and folders that nothing of ours lies in; leftovers of killed writers are nobody's."""
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry in sorted(os.scandir(source / folder), key=lambda entry: entry.name):
            relative = f"{folder}{entry.name}"
            if relative == RECORD or _LEFTOVER.fullmatch(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                folders.append(f"{relative}/")
            else:
                yield relative, entry


def _joined(source: Path, target: Path, relative: str, data: bytes) -> bytes | None:
    """What stands at the place when both versions are one there; None for a file that is kept as it is."""
    place = target / relative
    there = fs.read(place) if place.is_file() else None
    if _is_rules(relative) and not markdown.decode(data)[1]:
        return _joined_rules(target, there, data)
    if there is None or there == data:
        return None
    if relative == ARCHIVE_INDEX:
        return _union(there, renamed_lines(data, archived_as(source, target)))
    if relative == lanes.LOG:
        return _union(there, data)
    return journal.join(there, data) if _is_day(relative) else None


def _joined_rules(target: Path, there: bytes | None, data: bytes) -> bytes | None:
    """A rules file without the rules that the target has in any of its own; None to take it as it is."""
    known = {
        rules.normalised(bullet.text)
        for name in lanes.pages(target, lanes.RULES)
        for bullet in rules.bullets(name, markdown.parse(fs.read(target / lanes.RULES / name)).body)
    }
    more = markdown.parse(data).body
    if there is None:
        if known.isdisjoint(rules.normalised(bullet.text) for bullet in rules.bullets("", more)):
            return None
        new = rules.beyond("", more, known)
        return markdown.replace(data, {}, new) if new else b""
    before = markdown.parse(there).body
    body = rules.join(before, more, known)
    return there if body == before else markdown.replace(there, {}, body)


def _keep_what_goes(target: Path, step: Step) -> None:
    """Archive the version before when it held bytes that are no text: a joined file cannot hold them."""
    before = fs.read(target / step.to)
    if step.to not in _LOGS and markdown.decode(before)[1]:
        archive.keep_copy(target, step.to, before, "joined")


def _beside(relative: str, place: Path, data: bytes) -> Step:
    """Keep both: the newcomer gets the first free number, unless the same bytes stand there already."""
    for count in range(2, 10_000):
        other = place.with_name(f"{place.stem}-{count}{place.suffix}")
        to = f"{relative[: -len(place.name)]}{other.name}"
        if not os.path.lexists(other):
            return Step(relative, to, "renamed")
        if _has(other, data):
            return Step(relative, to, "same")
    raise FileExistsError(place)


def _has(place: Path, data: bytes) -> bool:
    return place.is_file() and not place.is_symlink() and place.stat().st_size == len(data) and fs.read(place) == data


def _union(there: bytes, more: bytes) -> bytes:
    """The lines of both, those that are new at the end."""
    lines = there.splitlines()
    known = set(lines)
    return b"".join(line + b"\n" for line in [*lines, *(line for line in more.splitlines() if line not in known)])


def _is_day(relative: str) -> bool:
    return lanes.recallable(relative) is Kind.JOURNAL


def _is_rules(relative: str) -> bool:
    return relative.rpartition("/")[0] == lanes.RULES and relative.lower().endswith(".md")


def _renamed(line: bytes, names: dict[str, str]) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    if not isinstance(value, dict):
        return line
    changed = {key: names.get(value[key], value[key]) for key in ("file", "over") if isinstance(value.get(key), str)}
    return json.dumps({**value, **changed}, ensure_ascii=False).encode()
