"""What ``coffer-hook`` asks the daemon, from what the agent says on stdin, and the answer in the agent's own form.

What agents say is not relied upon: the JSON may be missing, broken, huge or without an end. Standard library only.
"""

import json
import os
import re
import select
import time
from urllib.parse import quote, urlencode

from agents import link

_PAUSE = 0.3  # after which no more is expected on stdin: agents write at once, but some never close it
_STDIN_LIMIT = 1024 * 1024  # of what is kept; more is read, so that the agent can write it, and dropped
_PROMPT_CHARS, _PATH_CHARS, _ID_CHARS = 8000, 4096, 255
_LEAST = 0.05
_FOLDERS = {"claude_code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}  # where the environment moves an agent to
# A member of an object that cannot be parsed. Inside of a string quotes are escaped, so nothing there looks like one.
_MEMBER = re.compile(
    r'"(session_id|conversation_id|cwd|source|cursor_version|prompt)"\s*:\s*("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL
)
_OK = 200

Request = tuple[str, str, bytes | None]  # method, path with query, body


class NoAnswer(Exception):
    """The daemon refused; the message says how."""


def answer(agent: str, event: str, deadline: float) -> str:
    """The line to print, empty for silence; NoDaemon, NoAnswer or link.FAILURES when there is none."""
    connection = link.ensure(deadline - time.monotonic())
    given = _given()
    speaker = _speaker(agent, given)
    request = _request(speaker, event, given)
    if request is None:
        return ""
    try:
        text = _ask(connection, request, deadline)
    except link.FAILURES:  # a daemon that is replaced just now hangs up; asking twice changes nothing
        text = _ask(link.ensure(deadline - time.monotonic()), request, deadline)
    return json.dumps(_envelope(speaker, event, text, given), ensure_ascii=False) if text else ""


def _ask(connection: link.Connection, request: Request, deadline: float) -> str:
    headers = {"Content-Type": "application/json", "X-Coffer-Hook": "1"}  # without it this is a look, and no delivery
    status, _, body = connection.request(*request, headers, max(deadline - time.monotonic(), _LEAST))
    if status != _OK:
        raise NoAnswer(f"the daemon answered with status {status}")
    text = json.loads(body).get("additional_context")
    return text if isinstance(text, str) else ""


def _given() -> dict[str, object]:
    """The agent's JSON object; of a broken one the texts that are needed, as far as they came."""
    text = _read().decode("utf-8-sig", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return dict(reversed([(one[1], _string(one[2])) for one in _MEMBER.finditer(text)]))
    return found if isinstance(found, dict) else {}


def _read() -> bytes:
    """Stdin up to its end, to the end of an object, or to a pause; nothing of a terminal, where a person may type."""
    kept = bytearray()
    if os.isatty(0):
        return b""
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while poll.poll(_PAUSE * 1000):
        chunk = os.read(0, 65536)
        if not chunk:
            break
        room = _STDIN_LIMIT - len(kept)
        kept += chunk[:room]
        if room >= len(chunk) and chunk.rstrip().endswith(b"}") and _is_whole(kept):
            break
    return bytes(kept)


def _is_whole(data: bytearray) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _string(literal: str) -> str:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        return ""


def _speaker(agent: str, given: dict[str, object]) -> str:
    """Whose hook this really is: Cursor also runs those of Claude Code; empty where its own one speaks for it."""
    if agent != "claude_code" or "cursor_version" not in given:
        return agent
    try:
        with open(os.path.expanduser("~/.cursor/hooks.json"), "rb") as file:
            return "" if b"coffer-hook" in file.read(_STDIN_LIMIT) else "cursor"
    except OSError:
        return "cursor"


def _request(agent: str, event: str, given: dict[str, object]) -> Request | None:
    """The question; None when there is nothing to ask."""
    cwd = _clean(_cwd(given), _PATH_CHARS)
    session = _clean(given.get("session_id") or given.get("conversation_id"), _ID_CHARS)
    path = f"/api/v1/agents/{quote(agent, safe='')}"
    if not agent:
        return None
    if event == "SessionStart":
        source = _clean(given.get("source"), _ID_CHARS)
        folder = _clean(os.environ.get(_FOLDERS.get(agent, "")), _PATH_CHARS)
        query = {"cwd": cwd, "session_id": session, "source": source, "folder": folder}
        return "GET", f"{path}/session-context?{urlencode({name: text for name, text in query.items() if text})}", None
    if event == "UserPromptSubmit":
        prompt = _clean(given.get("prompt"), _PROMPT_CHARS)
        return "POST", f"{path}/prompt-context", _body(prompt=prompt, cwd=cwd, session_id=session)
    return ("POST", f"{path}/sessions/{quote(session, safe='')}/end", _body(cwd=cwd)) if session else None


def _cwd(given: dict[str, object]) -> str:
    """Where the agent stands: Cursor names the roots of its workspace, others their directory, some nothing."""
    roots = given.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else None
    for path in (root, given.get("cwd"), os.environ.get("CLAUDE_PROJECT_DIR")):
        if isinstance(path, str) and os.path.isabs(path):
            return path
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.environ.get("PWD", "")


def _clean(value: object, limit: int) -> str:
    """A text as it can be sent; empty for anything else."""
    return value[:limit].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _body(**members: str) -> bytes:
    return json.dumps(members).encode()


def _envelope(agent: str, event: str, text: str, given: dict[str, object]) -> dict[str, object]:
    """The form in which the agent takes a context."""
    if agent == "cursor" or "cursor_version" in given:
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
