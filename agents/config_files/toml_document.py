"""A TOML text edited through tomlkit, which keeps comments and order; checked against the standard library. Pure."""

import json
import re
import tomllib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from agents.config_files.documents import Document, Path, found_in
from agents.config_files.json_text import Unreadable

_PLACE = re.compile(r"at line (\d+),? col(?:umn)? (\d+)")  # in the messages of both readers


class TomlDocument(Document):
    """A table appears with its first member and goes with its last; see ``documents.Document``. Raises Unreadable."""

    def __init__(self, text: str) -> None:
        # tomlkit writes new lines with \n; a text that uses \r\n throughout gets it back.
        self._crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
        self._read(text.replace("\r\n", "\n") if self._crlf else text)

    @property
    def text(self) -> str:
        return self._text.replace("\n", "\r\n") if self._crlf else self._text

    def data(self, path: Path = ()) -> object:
        return found_in(self._data, path)

    def raw(self, path: Path) -> str:
        value = self.data(path)
        return "" if isinstance(value, dict) else json.dumps(value, default=str)

    def put(self, path: Path, value: object) -> None:
        if value == {}:
            return
        table, missing = self._deepest(path[:-1])
        is_inline = isinstance(table, InlineTable)
        if not is_inline and (missing or (isinstance(value, dict) and path[-1] not in table)):
            self._append(path, value)  # where a library would put a table, the lines behind it might fall into it
            return
        with _faults():
            for step in missing:
                table[step] = tomlkit.inline_table()
                table = table[step]
            table[str(path[-1])] = value
            self._read(tomlkit.dumps(self._document))

    def put_raw(self, path: Path, raw: str) -> None:
        if raw:
            self.put(path, json.loads(raw))

    def remove(self, path: Path) -> None:
        if not path:
            self._read(self._text if self._text.strip() else "")
            return
        with _faults():
            table, _ = self._deepest(path[:-1])
            del table[str(path[-1])]
            text = tomlkit.dumps(self._document)
        # The blank line before a new table at the end belongs to what stands above it.
        self._read(text[:-1] if text.endswith("\n\n") and not self._text.endswith("\n\n") else text)

    def _read(self, text: str) -> None:
        try:
            self._document = tomlkit.parse(text)
            self._data = tomllib.loads(text)
        except (TOMLKitError, tomllib.TOMLDecodeError) as error:
            found = _PLACE.search(str(error))
            line, column = (int(found[1]), int(found[2])) if found else (1, 1)
            raise Unreadable(line, column, "this is no valid TOML") from error
        self._text = text

    def _deepest(self, path: Path) -> tuple[MutableMapping[str, Any], list[str]]:
        """The innermost table on the way to a place that is there, and the names of those that are not."""
        table: MutableMapping[str, Any] = self._document
        for place, step in enumerate(path):
            if step not in table:
                return table, [str(one) for one in path[place:]]
            table = table[str(step)]
        return table, []

    def _append(self, path: Path, value: object) -> None:
        """Write a table with one member, or a table as a whole, at the end."""
        block: Any = value
        for step in reversed(path):
            block = {str(step): block}
        gap = "" if not self._text or self._text.endswith("\n\n") else "\n" if self._text.endswith("\n") else "\n\n"
        self._read(f"{self._text}{gap}{tomlkit.dumps(block)}")


@contextmanager
def _faults() -> Iterator[None]:
    """What tomlkit raises of texts that it reads but cannot edit, as TypeError."""
    try:
        yield
    except TOMLKitError as error:
        raise TypeError from error
