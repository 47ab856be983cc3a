"""Every sample against the values that were worked out for it."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.sessions import SAMPLES, sample, session, turns
from transcripts.readers import READERS, Session, Source
from transcripts.readers.values import from_nanos, moment

AGENTS = {"claude": "claude_code", "codex": "codex"}
ROWS = json.loads((SAMPLES / "expected.json").read_text(encoding="utf-8"))
STORES = json.loads((SAMPLES / "expected_opencode.json").read_text(encoding="utf-8"))
IMPORTED = "codex/public/caprock-external-import.jsonl"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_a_file_is_listed_as_it_was_worked_out(row: dict[str, Any]) -> None:
    path = sample(row["file"])
    found = session(AGENTS[row["agent"]], path)
    mtime = from_nanos(path.stat().st_mtime_ns)
    assert found.session_id == (row["sid"] or path.name.partition(".")[0])
    assert (found.project_path, found.title) == (row["cwd"], row["title"])
    assert found.own_title == row.get("custom")
    assert found.message_count == row["user"] + row["assistant"]
    assert found.started_at == (moment(row["first"]) or mtime)
    assert found.last_activity_at == (moment(row["last"]) or mtime)
    assert found.unread == row["bad"]
    if row["agent"] == "codex":
        assert found.subagent == ("subagent" in (row["src"] or ""))
        assert found.parent == row["fork"]
    else:
        assert found.subagent == row["sub"]


@pytest.mark.parametrize("row", [row for row in ROWS if row["file"] != IMPORTED], ids=lambda row: row["file"])
def test_the_turns_of_a_file_are_those_that_are_counted(row: dict[str, Any]) -> None:
    roles = [turn.role for turn in turns(AGENTS[row["agent"]], sample(row["file"]))]
    assert (roles.count("user"), roles.count("assistant")) == (row["user"], row["assistant"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_no_turn_holds_what_was_injected(row: dict[str, Any]) -> None:
    for turn in turns(AGENTS[row["agent"]], sample(row["file"])):
        assert "COFFER-INJECTED-MARK" not in turn.text
        assert not turn.text.startswith(("<environment_context>", "<command-name>", "<system-reminder>"))
        assert turn.text.encode()


def opencode(tmp_path: Path, name: str) -> dict[str, tuple[Session, Source]]:
    """The sessions of one sample in a home of its own."""
    folder = tmp_path / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    path = sample(f"opencode/{name}")
    if path.suffix == ".sql":
        with sqlite3.connect(folder / "opencode.db") as connection:
            connection.executescript(path.read_text(encoding="utf-8"))
        connection.close()
    else:
        shutil.copytree(path / "storage", folder / "storage")
    reader = READERS["opencode"]
    return {
        found.session_id: (found, source)
        for source in reader.sources(tmp_path, {})
        for found in reader.sessions(source)
    }  # fmt: skip


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_opencode_is_listed_as_it_was_worked_out(name: str, tmp_path: Path) -> None:
    found = opencode(tmp_path, name)
    rows = {row[1]: row for row in STORES[name]}  # of one session in two tables the later row is the newer table's
    assert found.keys() == rows.keys()
    for _, identity, directory, user, assistant, title, prompt, created, updated, parent, _ in rows.values():
        session, source = found[identity]
        roles = [turn.role for turn in READERS["opencode"].turns(source, identity)]
        assert (roles.count("user"), roles.count("assistant"), len(roles)) == (user, assistant, session.message_count)
        assert (session.project_path, session.title, session.parent) == (directory, title, parent)
        assert session.first_prompt == (" ".join(prompt.split()) if prompt else None)
        assert (session.started_at, session.last_activity_at) == (moment(created), moment(updated))
        assert session.subagent == bool(parent)
