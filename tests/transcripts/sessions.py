"""Files of sessions for tests: the committed samples, those that lie elsewhere, and lines as agents write them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from transcripts.readers import READERS, Session, Source, Turn

SAMPLES = Path(__file__).parent / "samples"
SHARED = os.environ.get("COFFER_SHARED", "")


def sample(relative: str) -> Path:
    """A sample by its path; those of other people's repositories are not part of this one."""
    if "public" not in relative:
        return SAMPLES / relative
    if not SHARED:
        pytest.skip("COFFER_SHARED does not name the folder with the public samples")
    return Path(SHARED, "samples", relative)


def source(path: Path) -> Source:
    about = path.stat()
    return Source(str(path), about.st_size, about.st_mtime_ns)


def session(agent: str, path: Path) -> Session:
    """The one session of a file."""
    (found,) = READERS[agent].sessions(source(path))
    return found


def turns(agent: str, path: Path, session_id: str = "") -> list[Turn]:
    return list(READERS[agent].turns(source(path), session_id))


def write(path: Path, *records: Any, end: str = "\n") -> Path:
    """A JSONL file of these records; a string is a line as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def claude(role: str, content: Any, number: int = 0, **fields: Any) -> dict[str, Any]:
    """A record of Claude Code; the id of an answer's message is its number."""
    return {
        "type": role,
        "uuid": f"uuid-{role}-{number}-{content!r:.40}",
        "sessionId": "s",
        "cwd": "/work/app",
        "timestamp": f"2026-09-01T08:00:{number:02}.000Z",
        "message": {"role": role, "content": content} | ({"id": f"msg-{number}"} if role == "assistant" else {}),
        **fields,
    }


def codex(role: str, text: str, turn: str = "", **fields: Any) -> dict[str, Any]:
    """A message of Codex, of a turn when one is named."""
    message: dict[str, Any] = {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    if turn:
        message["internal_chat_message_metadata_passthrough"] = {"turn_id": turn}
    return {"timestamp": "2026-09-01T08:00:00.000Z", "type": "response_item", "payload": message, **fields}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-09-01T08:00:00.000Z", "type": "event_msg", "payload": {"type": kind, **fields}}
