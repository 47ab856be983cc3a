"""Who calls a tool: the working directory, the agent's name and its session, as the shim's headers say."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

CWD_META = "coffer/cwd"
_NOT_A_NAME = re.compile(r"[^a-z0-9_]+")
_NOT_AN_ID = re.compile(r"[^!-~]+")


@dataclass(frozen=True)
class Caller:
    """``cwd`` is absolute or None; ``agent`` is ``[a-z0-9_]{1,60}`` or empty; ``session`` is printable ASCII."""

    cwd: str | None = None
    agent: str = ""
    session: str = ""


def identify(headers: Mapping[str, str] | None, meta: Mapping[str, Any] | None = None, client: str = "") -> Caller:
    """Read a caller from a request; its headers win over ``_meta`` and over the name its client gave itself."""
    headers = headers or {}
    return Caller(
        cwd=_decoded(headers.get("x-coffer-cwd")) or _absolute((meta or {}).get(CWD_META)),
        agent=agent_name(headers.get("x-coffer-agent") or client),
        session=_NOT_AN_ID.sub("", headers.get("x-coffer-session", ""))[:255],
    )


def agent_name(given: str) -> str:
    """Bring a client's name into the form of our agent names: ``claude-code`` becomes ``claude_code``."""
    return _NOT_A_NAME.sub("_", given.lower()).strip("_")[:60]


def _decoded(value: str | None) -> str | None:
    """A percent-encoded UTF-8 path; anything else is no path, for a wrong one would pick the wrong project."""
    if not value or not value.isascii():
        return None
    try:
        return _absolute(unquote(value, errors="strict"))
    except UnicodeDecodeError:
        return None


def _absolute(path: object) -> str | None:
    if not isinstance(path, str) or "\0" in path or not os.path.isabs(path):
        return None
    return path
