"""The path rules of a store: which lane a path lies in, what recall may see, how a new file is named."""

import os
import re
import stat as modes
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

KNOWLEDGE = "knowledge"
INBOX = "knowledge/inbox"
INDEX = "knowledge/INDEX.md"
RULES = "rules"
JOURNAL = "journal"
HANDOFF = "handoff"
SUPERSEDED = "superseded"
LOG = "consolidation-log.md"
STORE_FILE = "store.yaml"

_SUFFIXES = frozenset({".md", ".MD", ".Md", ".mD"})
_LEFTOVER_STARTS = ".#~"  # hidden and AppleDouble files, emacs locks and autosaves, syncthing's temporary ones
# What Python's tempfile and its like call a file that was never renamed into place.
_TEMPORARY = re.compile(r"tmp[a-z0-9_]{3,8}\.md", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\.md", re.IGNORECASE)

_SLUG_LENGTH = 50
_SHORTEST_TAIL = 6
# Names that are devices on Windows, or files of ours.
_RESERVED = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]|index|tmp[a-z0-9_]{3,8}")
_CHOSEN = re.compile(r"[^\W_][\w -]*")  # letters and digits of any script, never a dot, a slash or a sign
_LONGEST_CHOICE = 100

_LINK = "it is a link, and links inside a store are not served"
_ENCODING = "its name is not valid UTF-8"
_NO_FILE = "it is not a regular file"
_TEMPORARY_NAME = "it is named like a temporary file; rename it to have it served"
_NO_DAY = "its name is not a day (YYYY-MM-DD.md)"


class Kind(StrEnum):
    """What a file that recall may return is."""

    FACT = "fact"
    TOPIC = "topic"
    JOURNAL = "journal"


class Stat(NamedTuple):
    """The signature by which a changed file is noticed without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Listing:
    """What a walk found: recallable files by their path within the store, and what it left out with the reason."""

    files: dict[str, Stat] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    kinds: Counter[Kind] = field(default_factory=Counter)  # how many of the files are of each


def recallable(relative: str) -> Kind | None:
    """What a file is to recall, judged by its path in the store alone; None: never seen (FR-024, FR-030, FR-043)."""
    *folders, name = relative.split("/")
    if not folders or any(not folder or folder.startswith(".") for folder in folders) or not _is_page(name):
        return None
    if folders == [JOURNAL]:
        return Kind.JOURNAL if _is_day(name) else None
    if folders[0] != KNOWLEDGE or _TEMPORARY.fullmatch(name) or relative.lower() == INDEX.lower():
        return None
    return Kind.FACT if folders[1:2] == ["inbox"] else Kind.TOPIC


def walk(store_dir: str | Path, known: Mapping[str, Stat] | None = None) -> Listing:
    """List the recallable files of a store, in no order, without following a link below its root (FR-010).

    Signatures that equal those in ``known`` are the same objects: at 10,000 files making them anew costs a fifth of
    the whole walk.
    """
    listing = Listing()
    for lane in _scan(os.fspath(store_dir), "", listing):
        if lane.name not in (KNOWLEDGE, JOURNAL, RULES, HANDOFF):
            continue
        if lane.is_symlink():
            listing.skipped.append((lane.name, _LINK))
        elif not lane.is_dir(follow_symlinks=False):
            listing.skipped.append((lane.name, "it is not a folder"))
        elif lane.name == KNOWLEDGE:
            _walk_knowledge(lane.path, KNOWLEDGE + "/", listing, known or {})
        elif lane.name == JOURNAL:
            _walk_journal(lane.path, listing)
        else:
            _find_links(lane, listing)
    return listing


def inbox(store_dir: str | Path) -> dict[str, Stat]:
    """The files of the inbox alone, as ``walk`` finds them."""
    listing = Listing()
    if is_plain(store_dir, INBOX):
        _walk_knowledge(os.path.join(store_dir, INBOX), f"{INBOX}/", listing, {})
    return listing.files


def stat(store_dir: str | Path, relative: str) -> Stat | None:
    """The signature of one recallable file; None when it is gone, no regular file, or behind a link."""
    if recallable(relative) is None or not is_plain(store_dir, relative):
        return None
    try:
        found = os.stat(os.path.join(store_dir, relative), follow_symlinks=False)
    except (OSError, ValueError):
        return None
    if not modes.S_ISREG(found.st_mode):
        return None
    return Stat(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def is_plain(store_dir: str | Path, relative: str) -> bool:
    """Whether the path stays inside the store and no part below the root is a link; parts may be missing (BC-067)."""
    path = os.fspath(store_dir)
    for part in relative.split("/"):
        if part in ("", ".", "..") or "\0" in part:
            return False
        path = os.path.join(path, part)
        if os.path.islink(path):
            return False
    return True


def pages(store_dir: str | Path, lane: str) -> list[str]:
    """The names of the regular pages directly in a lane, in order; none when a link lies there. Raises OSError."""
    if not is_plain(store_dir, lane):
        return []
    try:
        with os.scandir(os.path.join(store_dir, lane)) as entries:
            found = [entry.name for entry in entries if _is_page(entry.name) and entry.is_file(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in found if _printable(name) == name)


def fact_names(title: str, fact_id: str) -> Iterator[str]:
    """File names for a new fact, best first; take the first that can be made, as each has a longer tail of the id."""
    slug = _slug(title) or "fact"
    tail = fact_id.lower()
    for length in range(_SHORTEST_TAIL, len(tail) + 1):
        yield f"{slug}-{tail[-length:]}.md"


def topic_slug(text: str) -> str:
    """A file stem for a topic's title that every file system takes and that is never one of our own names."""
    slug = _slug(text)
    if slug and not any(char.isalnum() and not char.isascii() for char in unicodedata.normalize("NFKD", text)):
        return f"{slug}-topic" if _RESERVED.fullmatch(slug) else slug
    # Letters that no slug holds: the hash keeps two such titles apart.
    return f"{slug or 'topic'}-{sha256(text.encode('utf-8', 'replace')).hexdigest()[:6]}"


def chosen_slug(text: str) -> str | None:
    """The file stem for a slug that a model chose; None for one that is no plain name of its own (BC-135)."""
    name = text.strip()
    plain = _CHOSEN.fullmatch(name) is not None and len(name) <= _LONGEST_CHOICE
    taken = name.casefold() == "inbox" or _RESERVED.fullmatch(name.casefold())
    return topic_slug(name) if plain and not taken else None


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text[:1000])
    words = re.findall(r"[a-z0-9]+", "".join(char for char in plain if not unicodedata.combining(char)).lower())
    slug = ""
    for word in words:
        longer = f"{slug}-{word}" if slug else word
        if len(longer) > _SLUG_LENGTH:
            return slug or word[:_SLUG_LENGTH]
        slug = longer
    return slug


def _is_page(name: str) -> bool:
    return name[-3:] in _SUFFIXES and name[0] not in _LEFTOVER_STARTS


def _is_day(name: str) -> bool:
    try:
        return _DAY.fullmatch(name) is not None and bool(date.fromisoformat(name[:-3]))
    except ValueError:
        return False


def _walk_knowledge(folder: str, prefix: str, listing: Listing, known: Mapping[str, Stat]) -> None:
    # The hot path at 10,000 files: the rules of `recallable` are spelled out here, per entry instead of per path; and
    # a stat within an open folder is cheaper than through an entry's path.
    names, handle = _names(folder, prefix, listing)
    files, suffixes, make, stat_in = listing.files, _SUFFIXES, tuple.__new__, os.stat
    count = 0
    for name in names:
        if name[-3:] in suffixes and name[0] not in _LEFTOVER_STARTS:
            try:
                found = stat_in(name, dir_fd=handle, follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if found.st_mode & 0o170000 == 0o100000:
                # Only these can be a temporary name, INDEX.md or undecodable.
                doubtful = name[0] in "tTiI" or not name.isascii()
                if not doubtful or _is_served(prefix + name, listing):
                    path = prefix + name
                    signature = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
                    before = known.get(path)
                    files[path] = before if before == signature else make(Stat, signature)
                    count += 1
                continue
        _enter_or_skip(os.path.join(folder, name), prefix + name, listing, known)
    listing.kinds[Kind.FACT if prefix.startswith(f"{INBOX}/") else Kind.TOPIC] += count
    if handle is not None:
        os.close(handle)


def _is_served(relative: str, listing: Listing) -> bool:
    shown = _printable(relative)
    if shown != relative:
        listing.skipped.append((shown, _ENCODING))
    elif _TEMPORARY.fullmatch(relative.rpartition("/")[2]):
        listing.skipped.append((relative, _TEMPORARY_NAME))
    else:
        return recallable(relative) is not None
    return False


def _enter_or_skip(place: str, relative: str, listing: Listing, known: Mapping[str, Stat]) -> None:
    """An entry that is no page: a folder is walked, anything a person may take for memory is reported."""
    name = relative.rpartition("/")[2]
    if name[0] in _LEFTOVER_STARTS and (name[0] == "." or not os.path.isdir(place)):
        return
    shown = _printable(relative)
    if os.path.islink(place):
        listing.skipped.append((shown, _LINK))
    elif os.path.isdir(place):
        if shown != relative:
            listing.skipped.append((shown, _ENCODING))
        else:
            _walk_knowledge(place, relative + "/", listing, known)
    elif _is_page(name):
        listing.skipped.append((shown, _NO_FILE))


def _names(folder: str, prefix: str, listing: Listing) -> tuple[list[str], int | None]:
    """What a folder holds, and a handle on it that the caller closes; no link is opened."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return [], None
    except OSError as error:
        listing.skipped.append((_printable(prefix.rstrip("/")), f"it cannot be read: {error.strerror}"))
        return [], None
    return os.listdir(handle), handle


def _walk_journal(folder: str, listing: Listing) -> None:
    for entry in _scan(folder, JOURNAL + "/", listing):
        relative = f"{JOURNAL}/{entry.name}"
        if entry.is_symlink() or not _is_page(entry.name):
            _report_link(entry, relative, listing)
        elif not _is_day(entry.name):
            listing.skipped.append((_printable(relative), _NO_DAY))
        elif not entry.is_file(follow_symlinks=False):
            listing.skipped.append((relative, _NO_FILE))
        else:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            listing.files[relative] = Stat(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            listing.kinds[Kind.JOURNAL] += 1


def _find_links(lane: os.DirEntry[str], listing: Listing) -> None:
    # Recall never looks into this lane, its own reader does; only the report of links is made here, once for all lanes.
    for entry in _scan(lane.path, lane.name + "/", listing):
        _report_link(entry, f"{lane.name}/{entry.name}", listing)


def _report_link(entry: os.DirEntry[str], relative: str, listing: Listing) -> None:
    if entry.is_symlink() and entry.name[0] not in _LEFTOVER_STARTS:
        listing.skipped.append((_printable(relative), _LINK))


def _scan(folder: str, prefix: str, listing: Listing) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
    except OSError as error:
        listing.skipped.append((_printable(prefix.rstrip("/")) or ".", f"it cannot be read: {error.strerror}"))
        return []


def _printable(relative: str) -> str:
    return relative.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
