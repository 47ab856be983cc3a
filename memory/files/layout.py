"""What the files of a repository say of themselves, read without asking git.

An ordinary layout needs no process to be understood; whatever is unusual about it (bare, submodule, included or
per-tree settings) is left to git, and `damaged` is for a repository that git denies though its identity is still good.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

# Settings that move the work tree, or may come from a file that is not looked at here.
_UNUSUAL = re.compile(rb"worktree|include|bare[ \t]*=(?![ \t]*false\b)|bare[ \t]*$", re.IGNORECASE | re.MULTILINE)
_HEAD = re.compile(r"(?:ref:\s*)?refs/|[0-9a-f]{40}")


@dataclass(frozen=True)
class Layout:
    """Where a work tree keeps what: its own git dir, and the one it shares with all its sisters."""

    work_tree: Path
    git_dir: Path
    common_dir: Path
    damaged: bool = False


def plain(holder: Path) -> Layout | None:
    """The work tree at `holder` when its layout is an ordinary one, linked work trees included; None when in doubt."""
    try:
        git_dir, common = _dirs(holder)
        linked = git_dir != common
        if (linked and common.name != ".git") or not _is_repository(git_dir, common):
            return None
        if _UNUSUAL.search((common / "config").read_bytes()):
            return None
    except (OSError, ValueError):
        return None
    return Layout(holder, git_dir, common)


def damaged(holder: Path) -> Layout | None:
    """The repository in `holder` if only its HEAD is broken: git denies it, but its identity is still good (BC-092)."""
    try:
        git_dir, common = _dirs(holder)
        if not _has_parts(common) or _has_head(git_dir):
            return None
    except (OSError, ValueError):
        return None
    return Layout(holder, git_dir, common, damaged=True)


def _dirs(holder: Path) -> tuple[Path, Path]:
    """The git dir that `holder/.git` is or names, and its common dir. Raises OSError, ValueError."""
    git_dir = holder / ".git"
    if git_dir.is_file():
        git_dir = holder / os.fsdecode(git_dir.read_bytes()).removeprefix("gitdir:").strip()
    git_dir = Path(os.path.realpath(git_dir))
    pointer = git_dir / "commondir"
    common = git_dir / os.fsdecode(pointer.read_bytes()).strip() if pointer.is_file() else git_dir
    return git_dir, Path(os.path.realpath(common))


def _is_repository(git_dir: Path, common: Path) -> bool:
    """What git itself asks of a folder before it calls it a repository."""
    return _has_head(git_dir) and _has_parts(common)


def _has_parts(common: Path) -> bool:
    return (common / "objects").is_dir() and (common / "refs").is_dir()


def _has_head(git_dir: Path) -> bool:
    try:
        path = git_dir / "HEAD"
        head = os.readlink(path) if path.is_symlink() else path.read_bytes().decode("latin-1")
    except FileNotFoundError:
        return False
    return _HEAD.match(head) is not None
