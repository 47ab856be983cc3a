"""How plans and outcomes of connecting are shown: in a few lines, and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.config_files import Edit
from agents.kinds import ConfigFile
from agents.services.connections import AgentPlan
from agents.services.places import person
from coffer.text import visible, visible_line


def lines(plan: AgentPlan) -> Iterator[str]:
    """One agent: what changes in which of its files, and what a person should know."""
    yield visible_line(plan.title)
    if plan.refused:
        yield f"  ✗ {visible_line(plan.refused)}"
    changes = by_path(plan)
    width = max((len(short(edit.path)) for edit in changes), default=0)
    for edit in changes:
        yield f"  {short(edit.path):<{width}}  {summary(edit)}"
    if plan.edits and not changes:
        yield "  nothing to change"
    for note in plan.notes:
        yield f"  {visible_line(note)}"


def diffs(plans: Sequence[AgentPlan]) -> Iterator[str]:
    """The changes of all agents as unified diffs."""
    for plan in plans:
        for edit in by_path(plan):
            yield edit.diff()


def by_path(plan: AgentPlan) -> list[Edit]:
    """The changes of a plan, those of one file as one."""
    found: dict[Path, Edit] = {}
    for edit in plan.changes:
        first = found.get(edit.path, edit)
        files = first.files if first is edit else (*first.files, *edit.files)
        found[edit.path] = replace(first, files=files, after=edit.after)
    return list(found.values())


def visible_diff(diff: str) -> str:
    """A diff for a terminal."""
    return visible(diff.replace("\r\n", "\n"))


def summary(edit: Edit) -> str:
    """An edit in a few words."""
    if edit.undo:
        return (
            "take Coffer's entries out" if edit.after is not None else "remove the file: nothing but Coffer's is in it"
        )
    what = "; ".join(dict.fromkeys(_what(file) for file in edit.files))
    return f"{what} (new file)" if edit.before is None else what


def as_dict(plan: AgentPlan) -> dict[str, Any]:
    """A plan for a script."""
    changes = [
        {"path": str(edit.path), "summary": summary(edit), "new_file": edit.before is None, "diff": edit.diff()}
        for edit in by_path(plan)
    ]
    return {
        "name": plan.agent.name,
        "title": plan.title,
        "folder": plan.agent.folder,
        "changes": changes,
        "notes": plan.notes,
        "refused": plan.refused,
    }


def short(path: Path) -> str:
    """A path as people write it, the home folder as ``~``."""
    home = person()
    text = f"~/{path.relative_to(home)}" if home in path.parents else str(path)
    return visible_line(text)


def _what(file: ConfigFile) -> str:
    if file.purpose == "hooks":
        events = [entry.keys[-1] for entry in file.entries]
        return f"hooks {', '.join(events)}" if events else file.about
    return "MCP server coffer" if file.purpose == "mcp" else "its own memory off"
