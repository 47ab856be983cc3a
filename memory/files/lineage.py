"""What tells one repository from another that stands, or once stood, in the same place.

A `Mark` costs two looks at the disk and no process; it survives a move. A `History` is asked of git and survives a
copy or a new clone as well, but repositories made from one template begin with the same commit: only a later commit
of one that the other has proves that they are the same.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from coffer.errors import ScopeUnresolved
from memory.files.git import Repository, ask

_MOST_ROOTS = 20
SECOND = 1_000_000_000


class Mark(NamedTuple):
    """A git folder on this machine: device, inode, and when it was made (ns; 0 when nothing tells)."""

    device: int
    inode: int
    born: int

    def __str__(self) -> str:
        return f"{self.device:x}.{self.inode:x}.{self.born:x}"

    @classmethod
    def read(cls, text: str) -> "Mark":
        """The opposite of ``str``; a text of another form is a mark that equals no other."""
        with suppress(ValueError):
            device, inode, born = (int(part, 16) for part in text.split("."))
            return cls(device, inode, born)
        return cls(-1, -1, 0)

    def is_same(self, other: "Mark") -> bool | None:
        """Whether both are one git folder, moved or copied with its times; None when the marks alone cannot tell."""
        if self.born and other.born:
            whole = not self.born % SECOND or not other.born % SECOND  # a copy may keep whole seconds only
            same = self.born == other.born or (whole and self.born // SECOND == other.born // SECOND)
            return True if same else None
        return True if (self.device, self.inode) == (other.device, other.inode) else None


@dataclass(frozen=True)
class History:
    """The first commits of HEAD and HEAD's own; empty where git cannot say: no commit yet, shallow, very long."""

    roots: tuple[str, ...] = ()
    head: str = ""


def mark(repository: Repository) -> Mark:
    """The mark of the folder that all work trees of a repository share; ``description`` dates it, as git writes that
    file once and never again."""
    try:
        found = os.stat(repository.common_dir)
    except OSError:
        return Mark(-1, -1, 0)
    born = 0
    with suppress(OSError):
        born = os.stat(repository.common_dir / "description").st_mtime_ns
    return Mark(found.st_dev, found.st_ino, born)


def history(repository: Repository) -> History:
    """Ask git for both ends of HEAD's history: two processes, a second each at most."""
    try:
        head = ask(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head.code != 0 or (repository.common_dir / "shallow").exists():
            return History()
        roots = ask(repository, "rev-list", "--max-parents=0", "HEAD", "--")
    except ScopeUnresolved:
        return History()
    return History(tuple(sorted(roots.text.split())[:_MOST_ROOTS]) if roots.code == 0 else (), head.text)


def continues(repository: Repository, earlier: History) -> bool:
    """Whether a repository holds the last commit that was seen of an earlier one, and not just a common beginning."""
    if not earlier.head or earlier.head in earlier.roots:
        return False
    try:
        return ask(repository, "rev-parse", "--verify", "--quiet", f"{earlier.head}^{{commit}}").code == 0
    except ScopeUnresolved:
        return False
