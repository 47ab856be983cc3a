"""The bytes of a configuration file as a document that can be changed, and back. Pure."""

import json
from collections.abc import Callable
from pathlib import Path

from agents.config_files.documents import Document, PlainDocument
from agents.config_files.entries import Refused
from agents.config_files.json_document import JsonDocument
from agents.config_files.json_text import Unreadable
from agents.config_files.toml_document import TomlDocument
from agents.kinds.base import ConfigFile
from coffer.errors import Invalid

BOM = b"\xef\xbb\xbf"


def changed(
    file: ConfigFile, path: Path, before: bytes | None, change: Callable[[Document], None], *, strict: bool
) -> bytes:
    """A file's bytes after a change of its document. Raises Invalid when they cannot be read or changed."""
    bom, text = _decoded(path, before or b"")
    document = _document(file, path, text, strict=strict)
    data = document.data()
    try:
        change(document)
        if file.format == "toml":
            _check(data, document, change)
    except Refused as error:
        raise Invalid(f"{path}: {error}") from error
    except (Unreadable, LookupError, TypeError) as error:  # a fault of the library that writes TOML
        raise Invalid(f"{path} is written in a way that cannot be edited safely; nothing was changed in it.") from error
    return bom + document.text.encode("utf-8", "surrogatepass")


def _document(file: ConfigFile, path: Path, text: str, *, strict: bool) -> Document:
    try:
        if file.format == "toml":
            return TomlDocument(text)
        document = JsonDocument(text)
        if strict and file.format == "json" and document.scan.not_strict is not None:
            raise document.scan.not_strict
    except Unreadable as error:
        raise Invalid(f"{path}, {error}; correct it first: the agent cannot read it either.") from error
    return document


def _check(before: object, document: Document, change: Callable[[Document], None]) -> None:
    """Raises TypeError when the text does not say what the same change of plain data comes to."""
    expected = PlainDocument(json.loads(json.dumps(before, default=str)))
    change(expected)
    if json.loads(json.dumps(document.data(), default=str)) != expected.data():
        raise TypeError


def _decoded(path: Path, data: bytes) -> tuple[bytes, str]:
    bom = BOM if data.startswith(BOM) else b""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:200]:
        raise Invalid(f"{path} is UTF-16, which no agent reads; save it as UTF-8 first.")
    try:
        return bom, data.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise Invalid(f"{path}, line {line}, column {column}: this is not UTF-8; save it as UTF-8 first.") from error
