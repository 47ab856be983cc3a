"""What a merge did, file by file, written before it is done: so that a merge that was killed goes on, and one that was
done can be undone. It lies in the folder of the store that is merged away and goes to retired/ with it.

``merge.json`` says of which stores and how far it came, ``files.jsonl`` what became of each file (the last line of a
file counts), ``before/`` holds what joined files of the survivor were before.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from coffer import fs, paths
from memory.files import lanes
from memory.services import archive, carry
from memory.services.carry import Did

State = Literal["begun", "retiring", "done", "undoing"]
_ABOUT, _FILES, _BEFORE = "merge.json", "files.jsonl", "before"


@dataclass(frozen=True)
class Entry:
    """One file: where it went, how, the hash of what was written, and the name in ``before/`` of what stood there."""

    path: str
    to: str
    did: Did
    sha256: str = ""
    before: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether the merge made the file in the survivor."""
        return self.did in ("added", "renamed")


@dataclass(frozen=True)
class About:
    """Which stores, since when, how far; and what the survivor and its rows were like before."""

    source: str
    target: str
    started_at: str
    state: State = "begun"
    target_file: str = ""  # its store.yaml before, as text
    merged_file: str = ""  # and after; blank until the merge comes to it
    source_root: str = ""
    target_root: str = ""
    checkouts: list[tuple[str, str]] = field(default_factory=list)  # (root, remote) of the source


class Record:
    """The record in one folder; its lines are read once and kept by path."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.folder = store / carry.RECORD
        self.entries: dict[str, Entry] = {entry.path: entry for entry in _entries(self.folder / _FILES)}

    @property
    def about(self) -> About:
        """Raises OSError, ValueError for a record that is not there or cannot be read."""
        values = json.loads((self.folder / _ABOUT).read_text(encoding="utf-8"))
        known = {key: value for key, value in values.items() if key in About.__dataclass_fields__}
        return About(**{**known, "checkouts": [tuple(pair) for pair in known.get("checkouts", [])]})

    def begin(self, about: About) -> None:
        """Start anew; what an earlier record left of itself goes first."""
        self.remove()
        fs.ensure_dir(self.folder)
        self._write(about)

    def remove(self) -> None:
        """Take the record away; cut off, what is left of it is a record of nothing."""
        (self.folder / _FILES).unlink(missing_ok=True)
        shutil.rmtree(self.folder / _BEFORE, ignore_errors=True)
        (self.folder / _ABOUT).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.entries = {}

    def change(self, **changes: Any) -> About:
        """Note how far it came; durable before this returns."""
        about = replace(self.about, **changes)
        self._write(about)
        return about

    def add(self, entries: Sequence[Entry]) -> None:
        """Announce what is about to be done."""
        if entries:
            lines = "\n".join(json.dumps(asdict(entry), ensure_ascii=False) for entry in entries)
            fs.append_line(self.folder / _FILES, lines.encode("utf-8", "surrogateescape"))
            self.entries.update({entry.path: entry for entry in entries})

    def keep(self, relative: str, data: bytes) -> str:
        """Keep what a file of the survivor was before it was first joined; returns its name."""
        name = self.entries[relative].before if relative in self.entries else ""
        if not name:
            name = f"{archive.sha256(relative.encode('utf-8', 'surrogateescape'))[:16]}"
            fs.ensure_dir(self.folder / _BEFORE)
            fs.write(self.folder / _BEFORE / name, data)
        return name

    def kept(self, entry: Entry) -> bytes:
        return fs.read(self.folder / _BEFORE / entry.before)

    def _write(self, about: About) -> None:
        fs.write(self.folder / _ABOUT, json.dumps(asdict(about), indent=1).encode())


def open_in(store: Path) -> Record | None:
    """The record in a store's folder, if it has one that can be read."""
    with suppress(OSError, ValueError, TypeError):
        record = Record(store)
        _ = record.about
        return record
    return None


def retired(wanted: Callable[[About], bool]) -> list[Record]:
    """Records of stores in retired/, the latest merge first."""
    try:
        folders = sorted(path for path in paths.retired().iterdir() if (path / carry.RECORD / _ABOUT).is_file())
    except FileNotFoundError:
        return []
    found = [record for folder in folders if (record := open_in(folder)) is not None and wanted(record.about)]
    return sorted(found, key=lambda record: record.about.started_at, reverse=True)


def erase(store: str, relative: str, identity: str) -> None:
    """Remove a fact for good from the folders in retired/ too, where merges and removals keep whole stores.

    Found by its id there, or as the file that a merge made ``relative`` of ``store`` from.
    """
    try:
        folders = [path for path in paths.retired().iterdir() if path.is_dir()]
    except FileNotFoundError:
        return
    for folder in folders:
        found = {path for path in lanes.walk(folder).files if archive.claims(folder / path, identity)}
        found |= {path for path in _archived(folder, identity) if not (folder / path).exists()}
        record = open_in(folder)
        if record is not None and record.about.target == store:
            found |= {entry.path for entry in record.entries.values() if entry.to == relative}
        for path in sorted(found):
            archive.erase(folder, path, identity)


def _archived(folder: Path, identity: str) -> set[str]:
    """Where archived versions of a fact stood."""
    lines = archive.listing(folder) if identity else []
    return {line.path for line in lines if line.path and archive.claims(folder / archive.FOLDER / line.file, identity)}


def _entries(path: Path) -> Iterator[Entry]:
    """Lines that can be read, as they come; one that a crash cut off announced nothing that was done."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                with suppress(ValueError, TypeError):
                    yield Entry(**json.loads(line.decode("utf-8", "surrogateescape")))
    except FileNotFoundError:
        return
