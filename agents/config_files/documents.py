"""What an edit needs of a configuration file, whatever its format. Pure."""

import json
from typing import Any, Final, Protocol

Path = tuple[str | int, ...]  # names of members and positions in lists, from the top


class Missing:
    """What stands where nothing stands."""


MISSING: Final = Missing()


class Document(Protocol):
    """A configuration text that is changed value by value, everything else kept byte for byte."""

    @property
    def text(self) -> str: ...

    def data(self, path: Path = ()) -> object:
        """The value at a place, or MISSING."""

    def raw(self, path: Path) -> str:
        """How the value at a place is written; "" for what cannot be put back as it is written."""

    def put(self, path: Path, value: object) -> None:
        """Replace a value where it stands, or add it behind its siblings; its container is there."""

    def put_raw(self, path: Path, raw: str) -> None:
        """Write a value again as ``raw`` said it."""

    def remove(self, path: Path) -> None:
        """Take a member or an item out, with what joined it to its siblings."""


class PlainDocument:
    """The same changes on plain data: what a format's edit must come to."""

    text = ""

    def __init__(self, data: object) -> None:
        self._top: dict[str, Any] = {"": data}

    def data(self, path: Path = ()) -> object:
        return found_in(self._top, ("", *path))

    def raw(self, path: Path) -> str:
        return ""

    def put(self, path: Path, value: object) -> None:
        *above, last = "", *path
        parent: Any = found_in(self._top, tuple(above))
        if isinstance(parent, list) and last == len(parent):
            parent.append(value)
        else:
            parent[last] = value

    def put_raw(self, path: Path, raw: str) -> None:
        if raw:
            self.put(path, json.loads(raw))

    def remove(self, path: Path) -> None:
        if not path:
            self._top[""] = {}
            return
        *above, last = "", *path
        parent: Any = found_in(self._top, tuple(above))
        del parent[last]


def found_in(data: object, path: Path) -> object:
    """The value at a place in plain data, or MISSING."""
    for step in path:
        known = isinstance(data, dict) and step in data
        if not known and not (isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data)):
            return MISSING
        data = data[step]  # type: ignore[index]
    return data
