"""Our entries in a configuration: made to stand, and taken out so that everything else is as it was. Pure.

What stood at a place before is recorded when it is changed: None for nothing, else how it was written. Taking out goes
by what is there, not by the record alone: an entry is ours when its command is one of our launchers, whoever put it
there and wherever; the record decides about what else had to be made, and about earlier values.
"""

import json
from collections.abc import Mapping
from typing import Any

from agents.config_files.documents import MISSING, Document, Path
from agents.kinds.base import ConfigFile, Entry, is_ours, ours_within

Records = dict[Path, str | None]
Recorded = Mapping[Path, str | None]


class Refused(Exception):
    """Why our entries cannot be put where they belong."""


def make(document: Document, file: ConfigFile, earlier: Recorded) -> Records:
    """Make every entry stand, and no other hook of ours beside them; what stood there before. Raises Refused."""
    records: Records = {}
    for entry in file.base:
        if document.data(entry.keys) is MISSING:
            _contain(document, entry, records)
            _put(document, entry.keys, entry.value, records)
    for entry in file.entries:
        _contain(document, entry, records)
        if entry.item:
            _stand_in_list(document, entry)
        else:
            _stand_as_member(document, entry, records)
    wanted = {entry.keys for entry in file.entries}
    for path in _lists(document, file):
        if path not in wanted and _drop(document, path):
            _tidy(document, path, earlier)
    return records


def unmake(document: Document, file: ConfigFile, members: Recorded, containers: Recorded) -> None:
    """Take every entry out; ``members`` has the values to give back, ``containers`` what was made to hold ours."""
    emptied = {path for path in _lists(document, file) if _drop(document, path)}
    emptied |= {entry.keys for entry in file.entries if not entry.item and _take_back(document, entry, members)}
    for keys in file.leftovers:
        if document.data(keys) is not MISSING:
            document.remove(keys)
            emptied.add(keys)
    for path in emptied | {path for path in containers if document.data(path) in ({}, [])}:
        _tidy(document, path, containers)
    for entry in _needless(document, file, containers):
        document.remove(entry.keys)
    _tidy(document, (), containers)


def _contain(document: Document, entry: Entry, records: Records) -> None:
    """Make the containers of an entry where they are missing or null."""
    depth = len(entry.keys) if entry.item else len(entry.keys) - 1
    for path in (entry.keys[:end] for end in range(depth + 1)):
        fresh: object = [] if entry.item and path == entry.keys else {}
        found = document.data(path)
        if found is MISSING or found is None:
            _put(document, path, fresh, records)
        elif type(found) is not type(fresh):
            kind = "a list" if fresh == [] else "an object"
            raise Refused(f"{'.'.join(path) or 'its top level'} is not {kind}; correct it first.")
        elif not found:
            records.setdefault(path, document.raw(path))


def _put(document: Document, path: Path, value: object, records: Records) -> None:
    """Write a value and note what stood there; text that is blank is something, no file at all is nothing."""
    nothing = document.data(path) is MISSING and (path or not document.text)
    records.setdefault(path, None if nothing else document.raw(path))
    document.put(path, value)


def _stand_as_member(document: Document, entry: Entry, records: Records) -> None:
    found = document.data(entry.keys)
    if _same(found, entry.value):
        return
    if is_ours(found):
        document.put(entry.keys, entry.value)
        return
    if isinstance(entry.value, dict) and found is not MISSING:
        raise Refused(f"{'.'.join(entry.keys)} is another program's; rename or remove it first.")
    if isinstance(found, dict | list):
        raise Refused(f"{'.'.join(entry.keys)} is no switch there but holds more; correct it first.")
    _put(document, entry.keys, entry.value, records)


def _stand_in_list(document: Document, entry: Entry) -> None:
    """One item of ours: the first where it stands, else behind the others; any more go."""
    items = _items(document, entry.keys)
    own = [place for place, item in enumerate(items) if is_ours(item)]
    shared = [(place, hook) for place, item in enumerate(items) for hook in ours_within(item)]
    unmatched = [spot for spot in shared if not own and _matches_all(items[spot[0]])]
    if own:
        if not _same(items[own[0]], entry.value):
            document.put((*entry.keys, own[0]), entry.value)
    elif unmatched:
        place, hook = unmatched[0]
        written, wanted = items[place]["hooks"][hook], _hook(entry.value)
        if not _same(written, wanted):
            document.put((*entry.keys, place, "hooks", hook), wanted)
    else:
        document.put((*entry.keys, len(items)), entry.value)
    _drop(document, entry.keys, but=(own[0],) if own else unmatched[0] if unmatched else (len(items),))


def _drop(document: Document, path: Path, *, but: tuple[int, ...] = ()) -> bool:
    """Remove our items and our hooks in shared groups from a list, last first; whether there were any."""
    spots: list[tuple[int, ...]] = []
    for place, item in enumerate(_items(document, path)):
        spots += [(place,)] if is_ours(item) else [(place, hook) for hook in ours_within(item)]
    gone = [spot for spot in spots if spot != but]
    for place, *hook in reversed(gone):
        document.remove((*path, place, "hooks", hook[0]) if hook else (*path, place))
    return bool(gone)


def _take_back(document: Document, entry: Entry, members: Recorded) -> bool:
    """Remove a member of ours, or give it its earlier value; whether it was ours."""
    found = document.data(entry.keys)
    if not is_ours(found) and not (entry.keys in members and _same(found, entry.value)):
        return False
    earlier = members.get(entry.keys)
    if earlier is None:
        document.remove(entry.keys)
    else:
        document.put_raw(entry.keys, earlier)
    return True


def _tidy(document: Document, path: Path, containers: Recorded) -> None:
    """Bring a place and what it lies in back to what they were, as far as nothing is left in them.

    Without a record a container that our removal emptied goes, but never the top of a file.
    """
    for end in range(len(path), -1, -1):
        place = path[:end]
        found = document.data(place)
        if found is MISSING:
            continue
        if found not in ({}, []) or (not place and place not in containers):
            return
        earlier = containers.get(place)
        if earlier is None:
            document.remove(place)
        else:
            document.put_raw(place, earlier)
            return


def _needless(document: Document, file: ConfigFile, containers: Recorded) -> list[Entry]:
    """The members that were made beside ours, once nothing else is there."""
    top = document.data()
    made = [entry for entry in file.base if containers.get(entry.keys, "") is None]
    alone = isinstance(top, dict) and top and top == {entry.keys[0]: entry.value for entry in made}
    return made if alone else []


def _lists(document: Document, file: ConfigFile) -> list[Path]:
    """Every list that hooks of ours may stand in: those of our entries and their siblings."""
    found: dict[Path, None] = {}
    for above in dict.fromkeys(entry.keys[:-1] for entry in file.entries if entry.item):
        members = document.data(above)
        if isinstance(members, dict):
            found |= {(*above, name): None for name, value in members.items() if isinstance(value, list)}
    return list(found)


def _items(document: Document, path: Path) -> list[Any]:
    found = document.data(path)
    return found if isinstance(found, list) else []


def _hook(value: object) -> object:
    """The one hook of a group."""
    return value["hooks"][0] if isinstance(value, dict) and "hooks" in value else value


def _matches_all(group: object) -> bool:
    return isinstance(group, dict) and group.get("matcher") in (None, "", "*")


def _same(one: object, other: object) -> bool:
    """Equal as JSON: true is not 1."""
    return one is not MISSING and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
