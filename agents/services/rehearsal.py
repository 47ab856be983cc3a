"""One start of a session, played for an agent: the command in its configuration, run as the agent runs it.

Nothing of it is a delivery: the source of the session is ``check``, and the daemon then only shows what one would begin
with, and the session's id at its end. Whoever finds that id has got all of it.
"""

import json
import os
import secrets
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.kinds.base import hook_command
from agents.models import Agent
from agents.services.places import kind_of, place_of
from coffer import paths

PROMISED = 2.0  # seconds that a hook takes at most
_PATIENCE = 10.0


@dataclass(frozen=True)
class Rehearsal:
    """What came of it: seconds, the first thing that went wrong ("" for none), the context without its marker."""

    seconds: float
    fault: str = ""
    text: str = ""
    whole: bool = False


def play(agent: Agent, cwd: str) -> Rehearsal:
    """Run the agent's SessionStart hook for a session in ``cwd``."""
    marker = f"doctor-{secrets.token_hex(8)}"
    command = f"{hook_command(paths.launchers(), agent.name, 'SessionStart')} --check"
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(_told(agent, cwd, marker)).encode(),
            env=_environment(agent, cwd),
            cwd=_folder(agent, cwd),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Rehearsal(time.monotonic() - began, f"it did not end within {_PATIENCE:.0f} s")
    seconds = time.monotonic() - began
    if done.returncode or done.stderr:
        return Rehearsal(seconds, f"it ended with code {done.returncode} and {len(done.stderr)} bytes on stderr")
    if not done.stdout:
        return Rehearsal(seconds, "it stayed silent")
    text = taken(agent, done.stdout)
    if text is None:
        return Rehearsal(seconds, f"its answer is none that {kind_of(agent.type).title} takes")
    return Rehearsal(seconds, "", text.removesuffix(marker).rstrip(), text.endswith(marker))


def taken(agent: Agent, stdout: bytes) -> str | None:
    """The text that the agent takes from a hook's output; None when that is not in its form."""
    try:
        answer: dict[str, Any] = json.loads(stdout)
        if agent.type == "cursor":
            text = answer.pop("additional_context")
        else:
            inner = answer.pop("hookSpecificOutput")
            text = inner["additionalContext"] if inner["hookEventName"] == "SessionStart" else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return text if isinstance(text, str) and text and not answer else None


def _told(agent: Agent, cwd: str, marker: str) -> dict[str, object]:
    """What the agent says on stdin."""
    if agent.type == "cursor":
        return {
            "conversation_id": marker,
            "session_id": marker,
            "hook_event_name": "sessionStart",
            "workspace_roots": [cwd],
            "cursor_version": "",
            "source": "check",
        }
    return {
        "session_id": marker,
        "transcript_path": "",
        "cwd": cwd,
        "hook_event_name": "SessionStart",
        "source": "check",
    }


def _environment(agent: Agent, cwd: str) -> dict[str, str]:
    kind, place = kind_of(agent.type), place_of(agent)
    moved = {kind.variable: str(place.folder)} if kind.variable and place.overridden else {}
    own = {"CLAUDE_PROJECT_DIR": cwd} if agent.type == "claude_code" else {}
    return {**os.environ, **moved, **own}


def _folder(agent: Agent, cwd: str) -> Path:
    """Where the agent runs its hooks: Cursor in its own folder, the others in the session's."""
    folder = place_of(agent).folder if agent.type == "cursor" else Path(cwd)
    return folder if folder.is_dir() else Path("/")
