"""Sessions of agents in the test's own home, and models that answer what is asked about them."""

import json
import os
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.fake_llm import Request

Turns = Sequence[tuple[str, str]]
_SHOWN = re.compile(r"<conversation (\w+)>\n(.*)\n</conversation \1>", re.DOTALL)


def person() -> Path:
    return Path(os.environ["HOME"])


def identity(number: int) -> str:
    return f"11111111-1111-4111-8111-{number:012}"


def claude_file(session: str = identity(1), folder: str = "-work-app") -> Path:
    return person() / ".claude" / "projects" / folder / f"{session}.jsonl"


def claude(
    repo: Path | str,
    *turns: str,
    session: str = identity(1),
    ago: timedelta = timedelta(hours=1),
    title: str = "",
    folder: str = "-work-app",
) -> Path:
    """A session of Claude Code: texts by turns of the user and the agent, the last one so long ago."""
    path = claude_file(session, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    say(path, repo, *turns, session=session, ago=ago)
    if title:
        _append(path, {"type": "ai-title", "aiTitle": title, "sessionId": session}, ago)
    return path


def say(path: Path, repo: Path | str, *turns: str, session: str = "", ago: timedelta = timedelta(hours=1)) -> None:
    """Go on with a session of Claude Code."""
    session = session or path.stem
    before = path.read_text().count('"uuid"')
    for number, text in enumerate(turns, before):
        role = "assistant" if number % 2 else "user"
        at = datetime.now(UTC) - ago - timedelta(seconds=len(turns) - (number - before) - 1)
        message: dict[str, Any] = {"role": role, "content": text}
        if role == "assistant":
            message |= {"id": f"msg_{session[-6:]}_{number}", "content": [{"type": "text", "text": text}]}
        record = {
            "type": role,
            "uuid": f"{session}-{number}",
            "sessionId": session,
            "cwd": str(repo),
            "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "message": message,
        }
        _append(path, record, ago)


def codex(repo: Path | str, *turns: str, session: str = identity(2), ago: timedelta = timedelta(hours=1)) -> Path:
    """A session of Codex."""
    path = person() / ".codex" / "sessions" / "2026" / "11" / "01" / f"rollout-2026-11-01T08-00-00-{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    at = datetime.now(UTC) - ago
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    _append(path, {"timestamp": stamp, "type": "session_meta", "payload": {"id": session, "cwd": str(repo)}}, ago)
    for number, text in enumerate(turns):
        role = "assistant" if number % 2 else "user"
        payload = {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        _append(path, {"timestamp": stamp, "type": "response_item", "payload": payload}, ago)
    return path


def shown(request: Request) -> str:
    """The conversation that a model was shown."""
    found = _SHOWN.search(request.user)
    assert found is not None, request.user
    return found[2]


def spoken(request: Request) -> list[str]:
    """The same, turn by turn, without who said it."""
    return [re.sub(r"^(User|Agent): ", "", turn) for turn in re.split(r"\n\n(?=User: |Agent: )", shown(request))]


def insight(name: str, body: str = "", description: str = "") -> dict[str, str]:
    return {"name": name, "description": description, "body": body or f"{name}."}


def insights(*found: dict[str, str]) -> dict[str, Any]:
    """A well-formed answer."""
    return {"insights": list(found)}


def one_of_each_turn(request: Request) -> dict[str, Any]:
    """A model that takes every turn for an insight."""
    return insights(*(insight(f"Said: {turn}"[:90], f"It was said that {turn}.") for turn in spoken(request)))


def knowing(facts: dict[str, str]) -> Callable[[Request], dict[str, Any]]:
    """A model that notes a fact wherever its word is spoken of."""

    def answer(request: Request) -> dict[str, Any]:
        said = shown(request)
        return insights(*(insight(fact) for word, fact in facts.items() if word in said))

    return answer


def _append(path: Path, record: dict[str, Any], ago: timedelta) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")
    written = time.time() - ago.total_seconds()
    os.utime(path, (written, written))
