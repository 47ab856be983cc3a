"""What tests of edits share: an agent's files in the test's home, and short ways to attach and detach."""

import hashlib
from pathlib import Path

from agents import config_files
from agents.config_files import Edit, Owner
from agents.kinds import KINDS, ConfigFile

OWNER = Owner("claude_code", "claude_code", "")
LAUNCHERS = Path("/opt/coffer/bin")


def files(
    folder: Path, kind: str = "claude_code", *, launchers: Path = LAUNCHERS, prompts: bool = False
) -> list[ConfigFile]:
    """What a connection puts into the files of an agent that lives in ``folder``."""
    place = KINDS[kind].place(str(folder), folder.parent, {})
    return KINDS[kind].files(place, kind, launchers, prompt_context=prompts)


def hooks_file(
    folder: Path, kind: str = "claude_code", *, launchers: Path = LAUNCHERS, prompts: bool = False
) -> ConfigFile:
    return files(folder, kind, launchers=launchers, prompts=prompts)[0]


def attach(*found: ConfigFile) -> list[Edit]:
    """Make everything stand; the edits that were made."""
    return [config_files.apply(config_files.plan(OWNER, file)) for file in found]


def detach(*found: ConfigFile) -> list[Edit]:
    """Take everything out."""
    return [config_files.apply(edit) for edit in config_files.plan_undo(OWNER, found)]


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with its mode and hash, every link with its target, every empty folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            found[name] = f"{path.stat().st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        elif not any(path.iterdir()):
            found[name] = "empty folder"
    return found
