"""The folder of OpenCode in a person's home, as its versions fill it."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.transcripts.sessions import SAMPLES
from transcripts.readers import READERS, Session, Source

OPENCODE = READERS["opencode"]
V1 = """
create table session (id text primary key, parent_id text, directory text, title text, time_created, time_updated);
create table message (id text primary key, session_id text, time_created, time_updated, data text);
create table part (id text primary key, message_id text, data text);
"""
V2 = """
create table session_v2 (id text, parent_id text, fork_session_id text, directory text, title text, time_created,
    time_updated);
create table session_message (id text, session_id text, type text, seq integer, time_updated, data text);
"""
AT = 1796048797000


class Store:
    """The folder of OpenCode in a person's home, with a database as its versions fill it."""

    def __init__(self, home: Path, schema: str = V1, name: str = "opencode.db") -> None:
        self.home = home
        self.folder = home / ".local" / "share" / "opencode"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / name
        self.db = sqlite3.connect(self.path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = wal")
        self.db.executescript(schema)
        self.count = 0

    def session(self, identity: str, title: str = "title", **fields: Any) -> None:
        values = (identity, fields.get("parent_id"), "/work/app", title, AT, AT)
        self.db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)", values)

    def say(self, session: str, role: str, *parts: Any, **message: Any) -> None:
        """A message of 1.x; a part that is a string is a text."""
        self.count += 1
        data = json.dumps({"role": role, "time": {"created": AT + self.count}, **message})
        identity = f"msg_{self.count:04}"
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", (identity, session, AT, AT + self.count, data))
        for number, part in enumerate(parts):
            content = part if isinstance(part, dict) else {"type": "text", "text": part}
            row = (f"prt_{self.count:04}_{number}", identity, json.dumps(content))
            self.db.execute("INSERT INTO part VALUES (?, ?, ?)", row)

    def listed(self) -> dict[str, Session]:
        return listed(self.home)

    def texts(self, session: str) -> list[str]:
        return [turn.text for turn in OPENCODE.turns(source(self.home), session)]


def source(home: Path) -> Source:
    return next(OPENCODE.sources(home, {}))


def listed(home: Path) -> dict[str, Session]:
    found = [session for source in OPENCODE.sources(home, {}) for session in OPENCODE.sessions(source)]
    assert len({session.session_id for session in found}) == len(found)
    return {session.session_id: session for session in found}


def tree(home: Path) -> Path:
    folder = home / ".local" / "share" / "opencode"
    shutil.copytree(SAMPLES / "opencode" / "gen-json-1.1.65" / "storage", folder / "storage")
    return folder / "storage"
