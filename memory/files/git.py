"""The repository facts about a working directory: root, identity, branch, and what changed since a commit.

Only commands that run nothing from a repository's own config are used. `find` is on the hot path of every call, so its
answers are kept and checked by stat signatures alone; git is asked again only when one of those files changed.
"""

import os
import re
import stat
import tempfile
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shlex import quote
from shutil import copyfile

from coffer.errors import ScopeUnresolved
from memory.files import layout
from memory.files.gitrun import Answer, git, shown
from memory.files.layout import Layout
from memory.files.remotes import normalise_remote
from memory.files.ulid import project_id

__all__ = [
    "Branch",
    "Repository",
    "ask",
    "branch",
    "branch_slug",
    "changes_since",
    "find",
    "normalise_remote",
    "project_id",
]

_CACHE_SIZE = 512
# Files that a user's git config includes are not watched, so even an unchanged answer is asked for anew after a while.
_CACHE_SECONDS = 600.0

# What makes a folder a repository: a .git file or a filled .git folder in it, or HEAD when it is a bare one itself.
_LANDMARKS = (".git", ".git/objects", "HEAD")

_PLAIN_SLUG = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,59}")
_TRAILING_HASH = re.compile(r"(?:^|[^a-z0-9])[0-9a-f]{10}$")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")  # device names on Windows, with any suffix
_COMMIT = re.compile(r"[0-9a-f]{4,64}")


@dataclass(frozen=True)
class Repository:
    """A project as git sees it: `root` is shared by all its work trees, `work_tree` is the one asked about (FR-004)."""

    root: Path
    work_tree: Path
    git_dir: Path
    common_dir: Path
    remote: str | None
    key: str
    project_id: str


@dataclass(frozen=True)
class Branch:
    """What HEAD names; `slug` is the stem of its scene's file. A detached HEAD is called HEAD and has a commit."""

    name: str
    commit: str | None
    detached: bool
    slug: str


_Signature = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class _Remembered:
    repository: Repository | None
    watched: tuple[str, ...]
    signature: _Signature
    since: float


_cache: OrderedDict[tuple[str, str, str], _Remembered] = OrderedDict()
_cache_lock = threading.Lock()


def find(cwd: str | Path, home: Path, excluded: Path) -> Repository | None:
    """The repository around `cwd`, None outside of one; ScopeUnresolved when git cannot read the one there (FR-004)."""
    folder = _resolved(cwd)
    if folder is None:
        return None
    asked = (folder, str(home), str(excluded))
    with _cache_lock:
        known = _cache.get(asked)
    if known and time.monotonic() - known.since < _CACHE_SECONDS and known.signature == _signature(known.watched):
        return known.repository
    fresh = _look(folder, os.path.realpath(home), os.path.realpath(excluded))
    with _cache_lock:
        _cache[asked] = fresh
        _cache.move_to_end(asked)
        while len(_cache) > _CACHE_SIZE:
            _cache.popitem(last=False)
    return fresh.repository


def branch(repository: Repository) -> Branch:
    """The work tree's branch, by name even before a first commit; ScopeUnresolved when HEAD is unreadable (FR-023)."""
    symbolic = ask(repository, "symbolic-ref", "--quiet", "HEAD")
    if symbolic.code not in (0, 1):
        raise _unreadable_head(repository)
    head = ask(repository, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    commit = head.text if head.code == 0 else None
    if symbolic.code == 0:
        name = symbolic.text.removeprefix("refs/heads/")
        return Branch(name, commit, False, branch_slug(name))
    if commit is None:
        raise _unreadable_head(repository)
    return Branch("HEAD", commit, True, f"detached-{_hash(str(repository.work_tree))}")


def branch_slug(name: str) -> str:
    """The file stem of a branch: no two names share one, not even on a disk that ignores case (BC-089)."""
    if _PLAIN_SLUG.fullmatch(name) and not _TRAILING_HASH.search(name) and not _RESERVED.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]", "", name)[:60].lower()
    return f"{letters or 'branch'}-{_hash(name)}"


def changes_since(repository: Repository, commit: str | None) -> tuple[int | None, int | None]:
    """Commits on HEAD since `commit`, and tracked files that differ now; None where git cannot say (FR-025)."""
    return _commits_since(repository, commit), _dirty(repository)


def ask(repository: Repository | Layout, *arguments: str, **variables: str) -> Answer:
    """Run git for a repository that was found. Raises ScopeUnresolved when git does not answer."""
    # With --git-dir git discovers nothing, so it cannot wander off to a repository further up.
    return git(f"--git-dir={repository.git_dir}", *arguments, cwd=repository.work_tree, **variables)


def _resolved(cwd: str | Path) -> str | None:
    # A relative or Windows path says nothing about this machine; resolving it would land below our own folder (BC-064).
    text = os.fspath(cwd)
    if not os.path.isabs(text):
        return None
    try:
        folder = os.path.realpath(text, strict=True)
        return folder if os.path.isdir(folder) else None
    except (OSError, ValueError):
        return None


def _look(folder: str, home: str, excluded: str) -> _Remembered:
    """Ask git, taking each file's signature before git reads it, so that a change meanwhile is noticed next time."""
    levels = _levels(folder)
    entries = [os.path.join(level, name) for level in levels for name in _LANDMARKS]
    before = dict(zip(entries, _signature(tuple(entries)), strict=True))
    since = time.monotonic()
    holder = next((level for level in levels if before[os.path.join(level, ".git")] is not None), None)
    nothing = _Remembered(None, tuple(entries), tuple(before.values()), since)
    if holder is None or _within(folder, excluded) or _same(holder, home):
        return nothing
    on_the_way = levels[: levels.index(holder) + 1]
    if all(before[os.path.join(level, "HEAD")] is None for level in on_the_way):  # else it may be a bare one
        found = _ask_once(folder, Path(holder)) or _ask_in_steps(folder, holder)
    else:
        found = _ask_in_steps(folder, holder)
    if found is None:
        return nothing
    inside = sum(_within(level, str(found.repository.work_tree)) for level in levels)
    watched = entries[: inside * len(_LANDMARKS)]
    signature = (*(before[entry] for entry in watched), *found.signature)
    repository = None if _same(str(found.repository.root), home) else found.repository
    return _Remembered(repository, (*watched, *found.settings), signature, since)


@dataclass(frozen=True)
class _Found:
    repository: Repository
    settings: tuple[str, ...]
    signature: _Signature


def _ask_once(folder: str, holder: Path) -> _Found | None:
    """An ordinary repository, for one process; None when it is unusual, or git has something to say about it."""
    place = layout.plain(holder)
    if place is None:
        return None
    settings = _settings_files(place)
    signature = _signature(settings)
    # Git discovers the repository itself here, and with that looks at whose it is.
    answer = git("remote", "get-url", "origin", cwd=Path(folder))
    if answer.code != 0 and not _has_no_origin(answer):
        return None
    remote = normalise_remote(answer.text) if answer.code == 0 else None
    root = holder if place.git_dir == place.common_dir else place.common_dir.parent
    return _Found(_repository(place, root, remote), settings, signature)


def _ask_in_steps(folder: str, holder: str) -> _Found | None:
    """Any repository: where it is, what its root is, what its origin is."""
    place = _discover(folder, holder)
    if place is None:
        return None
    settings = _settings_files(place)
    signature = _signature(settings)
    return _Found(_repository(place, _root(place), _origin(place)), settings, signature)


def _repository(place: Layout, root: Path, remote: str | None) -> Repository:
    key = str(root) if remote is None else f"remote:{remote}"
    return Repository(root, place.work_tree, place.git_dir, place.common_dir, remote, key, project_id(key))


def _discover(folder: str, holder: str) -> Layout | None:
    """The work tree around `folder`, whose nearest `.git` is in `holder`; None in a bare repository or .git folder."""
    cwd = Path(folder)
    questions = ("--is-inside-work-tree", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
    answer = git("rev-parse", *questions, cwd=cwd)
    lines = answer.text.split("\n")
    if answer.code == 0 and len(lines) != len(questions):  # a folder's name holds a line end: ask one at a time
        lines = [git("rev-parse", question, cwd=cwd).text for question in questions]
    damaged = layout.damaged(Path(holder))
    if damaged and (answer.code != 0 or Path(os.path.realpath(lines[1])) != damaged.git_dir):
        return damaged
    if lines[0] == "false":
        return None
    if answer.code == 0:
        git_dir, common_dir, work_tree = (Path(os.path.realpath(os.path.join(folder, line))) for line in lines[1:])
        return Layout(work_tree, git_dir, common_dir)
    if b"not a git repository (or any" in answer.stderr:
        return None
    raise _refused(answer, holder)


def _refused(answer: Answer, holder: str) -> ScopeUnresolved:
    if b"dubious ownership" in answer.stderr or b"safe.directory" in answer.stderr:
        return ScopeUnresolved(
            f"The repository at {shown(holder)} belongs to another user and git will not read it; "
            f"if you trust it, run `git config --global --add safe.directory {quote(shown(holder))}`."
        )
    return ScopeUnresolved(f"git cannot read the repository at {shown(holder)}; run `git status` there to see why.")


def _root(place: Layout) -> Path:
    """The work tree that all linked ones stand for; a bare hub has none and is its common dir (BC-070, BC-077)."""
    if place.git_dir == place.common_dir:
        return place.work_tree
    common = place.common_dir
    # Asked by --git-dir because `safe.bareRepository` may forbid to discover a hub by walking into it.
    answer = git(f"--git-dir={common}", "rev-parse", "--is-bare-repository", "--show-toplevel", cwd=common)
    bare, _, top = answer.text.partition("\n")
    if bare == "true":
        return common
    if answer.code == 0 and Path(os.path.realpath(top)) != common:  # core.worktree, as a submodule has it
        return Path(os.path.realpath(top))
    return common.parent if common.name == ".git" else common


def _origin(place: Layout) -> str | None:
    """origin's normalised URL as git reports it (insteadOf applied); no other remote counts (BC-087)."""
    if place.damaged:
        answer = _ask_without_head(place, "remote", "get-url", "origin")
    else:
        answer = ask(place, "remote", "get-url", "origin")
    if answer.code == 0:
        return normalise_remote(answer.text)
    if _has_no_origin(answer):
        return None
    # Falling back to the path here would split the project's memory in two.
    raise ScopeUnresolved(
        f"git could not tell the origin of {shown(place.work_tree)}; run `git remote get-url origin` there to see why."
    )


def _has_no_origin(answer: Answer) -> bool:
    return answer.code == 2 or b"No such remote" in answer.stderr


def _ask_without_head(place: Layout, *arguments: str) -> Answer:
    """Ask through a stand-in for the git dir: our own HEAD and, as in any linked work tree, the real common dir."""
    with tempfile.TemporaryDirectory(prefix="coffer-git-") as stand_in:
        Path(stand_in, "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        Path(stand_in, "commondir").write_bytes(os.fsencode(place.common_dir) + b"\n")
        return git(f"--git-dir={stand_in}", *arguments, cwd=place.work_tree)


def _unreadable_head(repository: Repository) -> ScopeUnresolved:
    return ScopeUnresolved(
        f"The HEAD of {shown(repository.work_tree)} cannot be read, so its branch is unknown; "
        "`git switch <branch>` there sets it anew."
    )


def _commits_since(repository: Repository, commit: str | None) -> int | None:
    if commit is None or not _COMMIT.fullmatch(commit):
        return None
    try:
        answer = ask(repository, "rev-list", "--count", f"{commit}..HEAD", "--")
    except ScopeUnresolved:
        return None
    return int(answer.text) if answer.code == 0 and answer.text.isdecimal() else None


def _dirty(repository: Repository) -> int | None:
    # A file as young as the index is compared by content, which runs the repository's own clean filters; a submodule is
    # asked by `git status`, which does too. A copy of the index dated far ahead and --ignore-submodules rule out both.
    names = ("--name-only", "-z", "--ignore-submodules=dirty")
    options = ("-c", "core.fsmonitor=false", f"--work-tree={repository.work_tree}")
    try:
        with tempfile.TemporaryDirectory(prefix="coffer-git-") as folder:
            index = copyfile(repository.git_dir / "index", Path(folder, "index"))
            os.utime(index, (2**31 - 2, 2**31 - 2))
            answer = ask(repository, *options, "diff-files", *names, GIT_INDEX_FILE=str(index))
    except FileNotFoundError:
        return 0  # nothing was ever added
    except (OSError, ScopeUnresolved):
        return None
    return len(set(answer.stdout.split(b"\0")) - {b""}) if answer.code == 0 else None


def _levels(folder: str) -> list[str]:
    levels = [folder]
    while (parent := os.path.dirname(levels[-1])) != levels[-1]:
        levels.append(parent)
    return levels


def _settings_files(place: Layout) -> tuple[str, ...]:
    """Every file whose change may give another answer: the repository's config, and the user's because of insteadOf."""
    user = os.environ.get("HOME", "")
    xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(user, ".config")
    own = (place.common_dir / "config", place.common_dir / "config.worktree", place.git_dir / "config.worktree")
    return (
        *map(str, own),
        str(place.git_dir),
        os.path.join(user, ".gitconfig"),
        os.path.join(xdg, "git", "config"),
        "/etc/gitconfig",
    )


def _signature(paths: tuple[str, ...]) -> _Signature:
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode):
        # Each commit changes the times of a .git folder, never what it is.
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _within(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip(os.sep) + os.sep)


def _same(one: str, other: str) -> bool:
    # By inode as well: a disk that ignores case has many spellings of one folder.
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:10]
