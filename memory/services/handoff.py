"""Scenes: the working state of one branch, left by one agent and picked up by another (FR-023..026)."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from coffer import fs, paths, scrub
from coffer.errors import Rejected, ScopeUnresolved
from coffer.text import span
from memory.files import git, lanes, markdown
from memory.files.git import Branch
from memory.models import Store
from memory.services import archive, pages, trail
from memory.services import stores as store_service
from memory.services.pages import LanePage
from memory.services.stores import Place

MAX_CHARS = 32_768


@dataclass(frozen=True)
class Saved:
    branch: str
    scope: str
    path: Path
    masked: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Resumed:
    """The scene of the current branch, or ``found`` false; the note tells its age and what changed since."""

    found: bool
    branch: str | None = None
    body: str | None = None
    updated_at: str | None = None
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Only what there is: a scene that was not found has no body."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Waiting:
    """That the current branch has a scene, and how old it is, in a sentence."""

    branch: str
    age: str


@dataclass(frozen=True)
class Scene:
    """The scene of one branch as it stands on disk; ``updated_at`` is what is written in it, whatever that is."""

    branch: str
    slug: str
    text: str
    updated_at: str | None
    path: Path


def scenes(store: Store) -> list[Scene]:
    """One scene per branch, last written first (FR-054)."""
    found = [(page.modified, _scene(page)) for page in pages.of_lane(store, lanes.HANDOFF)]
    return [scene for _, scene in sorted(found, key=lambda pair: (-pair[0], pair[1].slug))]


def remove(store: Store, slug: str, *, actor: str = "user") -> None:
    """Move the scene of one branch to superseded/. Raises MemoryNotFound."""
    missing = f"{store.name} holds no handoff {slug[:80]!r}."
    page = next((page for page in pages.of_lane(store, lanes.HANDOFF) if page.stem == slug), None)
    pages.remove(store, page, missing)
    trail.record("handoff_deleted", store=store.name, ref=slug, actor=actor)


def save(place: Place, body: str, *, actor: str = "agent") -> Saved:
    """Write the scene of the current branch over the one before, without the secrets in what an agent says.

    Raises ScopeUnresolved, Rejected.
    """
    if place.repository is None:
        raise ScopeUnresolved(f"{place.reason} A handoff belongs to a branch of a project; there is no global one.")
    branch = git.branch(place.repository)
    body = _checked(body)
    said = scrub.redact(body) if actor == "agent" else scrub.Redacted(body, [])
    body = said.text
    store = store_service.for_writing(place, "project")
    now = timezone.now()
    meta = {"branch": branch.name, "commit": branch.commit or "", "updated_at": markdown.stamp(now)}
    relative = f"handoff/{branch.slug}.md"
    with store_service.write_lock(store, begin=True) as folder:
        path = archive.inside(folder, relative)
        fs.ensure_dir(path.parent)
        _archive_lost_lines(folder, relative, body)
        fs.write(path, markdown.dump(meta, body))
    trail.record("handoff_set", store=store.name, ref=branch.slug, actor=actor, characters=len(body))
    return Saved(branch.name, "project", path, [vars(one) for one in said.found])


def resume(place: Place) -> Resumed:
    """The scene of the current branch; ``found`` is false on a fresh branch and outside a project, never an error."""
    found = _current(place)
    if found is None:
        return Resumed(found=False)
    branch, page = found
    written = _written(page)
    commit = page.meta.get("commit")
    note = " ".join([_age(written), *_since(place, commit if isinstance(commit, str) else "")])
    return Resumed(True, branch.name, page.body, written, note)


def waiting(place: Place) -> Waiting | None:
    """Whether there is something to resume, without its body (FR-050)."""
    found = _current(place)
    if found is None:
        return None
    branch, page = found
    return Waiting(branch.name, _age(_written(page)))


def _current(place: Place) -> tuple[Branch, markdown.Page] | None:
    """The branch where the caller stands and its scene."""
    if place.repository is None or place.project is None:
        return None
    branch = git.branch(place.repository)
    page = _page_of(paths.store(place.project.store), branch)
    return (branch, page) if page is not None else None


def _written(page: markdown.Page) -> str | None:
    written = page.meta.get("updated_at")
    return written if isinstance(written, str) and written else None


def _scene(page: LanePage) -> Scene:
    return Scene(
        branch=markdown.text_of(page.page, "branch") or page.stem,
        slug=page.stem,
        text=page.text,
        updated_at=_written(page.page),
        path=page.path,
    )


def _checked(body: str) -> str:
    body = markdown.clean(body).strip("\n").rstrip()
    if not body.strip():
        raise Rejected("The handoff is empty; nothing was saved.", reason="empty", characters=0)
    if len(body) > MAX_CHARS:
        message = f"The handoff has {len(body)} characters, {MAX_CHARS} are allowed; keep what the next session needs."
        raise Rejected(message, reason="too_long", characters=len(body))
    return body


def _archive_lost_lines(folder: Path, relative: str, body: str) -> None:
    """Keep the scene before when a line of it would go."""
    try:
        data = fs.read(folder / relative)
    except FileNotFoundError:
        return
    new = {line.strip() for line in body.splitlines()}
    if any(line.strip() and line.strip() not in new for line in markdown.parse(data).body.splitlines()):
        archive.keep_copy(folder, relative, data, "replaced")


def _page_of(folder: Path, branch: Branch) -> markdown.Page | None:
    """The branch's own file, else one that names exactly this branch (kept by hand or by an older naming)."""
    own = folder / "handoff" / f"{branch.slug}.md"
    page = _read(folder, own)
    if branch.detached:
        return page
    if page is not None:
        return _newest(page, folder, branch)
    try:
        others = sorted((folder / "handoff").glob("*.md"))
    except OSError:
        return None
    for path in others:
        page = _read(folder, path)
        if page is not None and page.meta.get("branch") == branch.name:
            return page
    return None


def _newest(page: markdown.Page, folder: Path, branch: Branch) -> markdown.Page:
    """Of a branch's scenes that a merge has put side by side the one that was written last."""
    beside = (_read(folder, path) for path in sorted((folder / "handoff").glob(f"{branch.slug}-[0-9]*.md")))
    ours = [one for one in beside if one is not None and one.meta.get("branch") == branch.name]
    early = datetime.min.replace(tzinfo=UTC)
    return max([page, *ours], key=lambda one: markdown.timestamp(_written(one)) or early)


def _read(folder: Path, path: Path) -> markdown.Page | None:
    if (folder / "handoff").is_symlink():
        return None
    try:
        return markdown.parse(fs.read(path))
    except OSError:
        return None


def _age(written: str | None) -> str:
    """How old the scene is, in words; a time that cannot be or has not come yet is said to be so (BC-098)."""
    time = markdown.timestamp(written)
    if time is None or time.year < 2000:
        return "Saved at an unknown time; it may be out of date."
    age = datetime.now(UTC) - time
    if age < timedelta(seconds=-60):
        return "Saved at a time that is still to come (a clock was wrong); its age is unknown."
    return f"Saved {span(age)} ago; it may be out of date."


def _since(place: Place, commit: str) -> list[str]:
    assert place.repository is not None  # noqa: S101 - resume has looked
    made, dirty = git.changes_since(place.repository, commit or None)
    told = []
    if commit:
        told.append("The commit it was saved at is gone." if made is None else f"Commits since: {made}.")
    if dirty is not None:
        told.append(f"Files changed and not committed now: {dirty}.")
    return told
