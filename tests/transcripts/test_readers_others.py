"""The agents whose sessions are fewer: Gemini CLI, Copilot CLI, OpenClaw, Hermes; and Cursor, which is not read."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.transcripts.sessions import SAMPLES, sample, session, turns, write
from transcripts.readers import READERS, Session, Unreadable

GEMINI = {"id": "m1", "timestamp": "2026-09-01T08:00:00Z", "type": "user", "content": [{"text": "question"}]}
ANSWER = {**GEMINI, "id": "m2", "type": "gemini", "content": "answer", "thoughts": [{"text": "CANARY"}]}
HEAD = {"sessionId": "own", "startTime": "2026-09-01T07:00:00Z", "kind": "main"}


def only(agent: str, home: Path) -> Session:
    reader = READERS[agent]
    (found,) = [session for source in reader.sources(home, {}) for session in reader.sessions(source)]
    return found


def said(agent: str, home: Path) -> list[tuple[str, str]]:
    reader = READERS[agent]
    (source,) = reader.sources(home, {})
    return [(turn.role, turn.text) for turn in reader.turns(source, reader.sessions(source)[0].session_id)]


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return tmp_path / ".gemini" / "tmp" / "app" / "chats" / "session-1.jsonl"


def test_every_agent_has_a_reader_under_its_own_name() -> None:
    assert {name: reader.agent for name, reader in READERS.items()} == {name: name for name in READERS}
    assert [name for name, reader in READERS.items() if reader.unsupported] == ["cursor"]


def test_cursor_is_answered_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / ".cursor" / "projects" / "a" / "agent-transcripts" / "x.jsonl", {"role": "user"})
    reader = READERS["cursor"]
    assert list(reader.sources(tmp_path, {})) == []
    assert "no working directory" in reader.unsupported
    with pytest.raises(Unreadable, match="no working directory"):
        reader.sessions(next(READERS["gemini_cli"].sources(_gemini(tmp_path), {})))


def _gemini(home: Path) -> Path:
    folder = home / ".gemini"
    (folder / "tmp" / "proj-a" / "chats").mkdir(parents=True)
    generated = SAMPLES / "gemini" / "gen-0.61.0"
    shutil.copy(generated / "projects.json", folder)
    shutil.copy(generated / "session-2026-11-30T14-24-30ff7208.jsonl", folder / "tmp" / "proj-a" / "chats")
    return home


def test_gemini_a_session_without_what_hooks_and_the_program_added(tmp_path: Path) -> None:
    found = only("gemini_cli", _gemini(tmp_path))
    assert (found.session_id, found.project_path) == ("30ff7208-e083-4a19-8281-cbae89b306b4", "/tmp/agents/proj_a")
    assert (found.title, found.message_count) == ("hello gemini", 2)
    assert said("gemini_cli", tmp_path) == [("user", "hello gemini"), ("assistant", "mock reply to: hello gemini")]
    assert found.last_activity_at.isoformat() == "2026-11-30T14:24:32.589000+00:00"


def test_gemini_a_conversation_can_be_replaced_and_taken_back(tmp_path: Path, chat: Path) -> None:
    third = {**GEMINI, "id": "m3", "content": "taken back"}
    write(chat, HEAD, third, {"$set": {"messages": [GEMINI, {"type": "info", "id": "i", "content": "CANARY"}]}})
    assert said("gemini_cli", tmp_path) == [("user", "question")]
    write(chat, HEAD, GEMINI, ANSWER, third, {"$rewindTo": "m3"}, {"$rewindTo": "unknown"}, {"$set": 3}, "bad")
    found = only("gemini_cli", tmp_path)
    assert (found.message_count, found.unread, found.subagent) == (2, 1, False)
    write(chat, HEAD, GEMINI, {**GEMINI, "content": "question, corrected"})
    assert said("gemini_cli", tmp_path) == [("user", "question, corrected")]


def test_gemini_an_older_session_is_one_object(tmp_path: Path, chat: Path) -> None:
    whole = {**HEAD, "messages": [GEMINI, ANSWER]}
    chat.parent.mkdir(parents=True)
    chat.with_suffix(".json").write_text(json.dumps(whole, indent=2), encoding="utf-8")
    assert only("gemini_cli", tmp_path).message_count == 2
    write(chat, HEAD, GEMINI, ANSWER, {**GEMINI, "id": "m3"})
    assert only("gemini_cli", tmp_path).message_count == 3
    chat.unlink()
    chat.with_suffix(".json").write_text('{"sessionId": ', encoding="utf-8")
    assert only("gemini_cli", tmp_path).notes == ("1 line is no whole JSON object: passed over",)


def test_gemini_the_directory_stands_beside_the_sessions(tmp_path: Path, chat: Path) -> None:
    write(chat, HEAD, GEMINI)
    assert only("gemini_cli", tmp_path).project_path is None
    listing = tmp_path / ".gemini" / "projects.json"
    listing.write_text(json.dumps({"projects": {"/work/other": "other", "/work/listed": "app"}}), encoding="utf-8")
    assert only("gemini_cli", tmp_path).project_path == "/work/listed"
    (chat.parents[1] / ".project_root").write_text("/work/app\n", encoding="utf-8")
    assert only("gemini_cli", tmp_path).project_path == "/work/app"
    hashed = chat.parents[2] / hashlib.sha256(b"/work/listed").hexdigest()
    (chat.parents[1] / ".project_root").unlink()
    chat.parents[1].rename(hashed)
    assert only("gemini_cli", tmp_path).project_path == "/work/listed"


def test_copilot_prompts_are_read_as_they_were_typed(tmp_path: Path) -> None:
    folder = tmp_path / ".copilot" / "session-state" / "folder-id"

    def record(kind: str, number: int, **data: object) -> dict[str, object]:
        return {"type": kind, "id": f"e{number}", "timestamp": f"2026-09-01T08:00:0{number}Z", "data": data}

    write(
        folder / "events.jsonl",
        record("session.start", 1, sessionId="own", context={"cwd": "/work/app"}),
        record("system.message", 2, content="CANARY"),
        record("user.message", 3, content="question", transformedContent="CANARY"),
        record("assistant.message", 4, content="", toolRequests=[{"arguments": "CANARY"}]),
        record("tool.execution_complete", 5, content="CANARY"),
        record("assistant.message", 6, content="CANARY", parentToolCallId="call"),
        record("assistant.message", 7, content="answer"),
    )
    write(folder / "other.jsonl", record("user.message", 1, content="CANARY"))
    assert said("copilot_cli", tmp_path) == [("user", "question"), ("assistant", "answer")]
    found = only("copilot_cli", tmp_path)
    assert (found.session_id, found.project_path, found.title) == ("own", "/work/app", "question")


def test_openclaw_copies_of_sessions_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / ".openclaw" / "agents" / "main" / "sessions"
    head = {"type": "session", "version": 3, "id": "own", "timestamp": "2026-09-01T08:00:00Z", "cwd": "/work/app"}
    messages = [
        {"type": "message", "id": "1", "message": {"role": "user", "content": [{"type": "text", "text": "question"}]}},
        {"type": "message", "id": "2", "message": {"role": "toolResult", "content": "CANARY"}},
        {"type": "custom_message", "content": "CANARY"},
        {"type": "message", "id": "3", "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "CANARY"}, {"type": "text", "text": "answer"}]}},
    ]  # fmt: skip
    for name in ("own", "own.checkpoint.1", "own.trajectory", "own.jsonl.reset"):
        write(folder / f"{name}.jsonl", head, *messages)
    write(folder / "own.jsonl.bak", head)
    assert said("openclaw", tmp_path) == [("user", "question"), ("assistant", "answer")]
    found = only("openclaw", tmp_path)
    assert (found.session_id, found.project_path, found.message_count) == ("own", "/work/app", 2)


def test_hermes_sessions_of_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / ".hermes" / "profiles" / "work" / "state.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            create table sessions (id text, source text, title text, parent_session_id text, started_at real, cwd text);
            create table messages (id integer primary key, session_id text, role text, content text, active integer,
                compacted integer, timestamp real);
            insert into sessions values ('own', 'cli', null, 'before', 1785015600.25, '/work/app'),
                ('chat', 'telegram', null, null, 1785015600, null);
            insert into messages (session_id, role, content, active, compacted, timestamp) values
                ('own', 'user', 'question', 0, 1, 1785015601.5), ('own', 'assistant', 'taken back', 0, 0, 1785015602),
                ('own', 'user', '[CONTEXT COMPACTION] CANARY', 1, 0, 1785015603), ('own', 'tool', 'CANARY', 1, 0, 4),
                ('own', 'assistant', 'answer', 1, 0, 1785015604), ('chat', 'user', 'CANARY', 1, 0, 5);
        """)
    connection.close()
    assert said("hermes", tmp_path) == [("user", "question"), ("assistant", "answer")]
    found = only("hermes", tmp_path)
    assert (found.session_id, found.project_path, found.parent) == ("own", "/work/app", "before")
    assert found.started_at.isoformat() == "2026-07-25T21:40:00.250000+00:00"
    assert found.last_activity_at.isoformat() == "2026-07-25T21:40:04+00:00"


def test_hermes_a_database_of_another_kind_is_said(tmp_path: Path) -> None:
    (tmp_path / ".hermes").mkdir()
    with sqlite3.connect(tmp_path / ".hermes" / "state.db") as connection:
        connection.execute("create table other (id)")
    connection.close()
    with pytest.raises(Unreadable, match="no messages as Coffer knows them"):
        only("hermes", tmp_path)


@pytest.mark.parametrize(
    ("agent", "name", "count", "directory"),
    [
        ("gemini_cli", "gemini/public/deja-session.jsonl", 2, None),
        ("gemini_cli", "gemini/public/deja-set-snapshot.jsonl", 2, None),
        ("gemini_cli", "gemini/public/jazzy-jsonl_v040.jsonl", 2, None),
        ("copilot_cli", "copilot/public/deja-events.jsonl", 2, "/Users/x/coding/gateway"),
        ("copilot_cli", "copilot/public/jazzy-events.jsonl", 2, "/tmp/project"),
        ("openclaw", "openclaw/public/deja-a1b2c3d4.jsonl", 2, "/workspace/registry-demo"),
        ("openclaw", "openclaw/public/jazzy-large.jsonl", 3, "/tmp/large"),
    ],
)
def test_files_that_others_published_are_read(agent: str, name: str, count: int, directory: str | None) -> None:
    path = sample(name)
    found = session(agent, path)
    assert (found.message_count, found.project_path) == (count, directory)
    assert len(turns(agent, path)) == count


def test_hermes_a_published_database_without_sessions_is_read(tmp_path: Path) -> None:
    script = sample("hermes/public/deja-hermes.sql").read_text(encoding="utf-8")
    (tmp_path / ".hermes").mkdir()
    with sqlite3.connect(tmp_path / ".hermes" / "state.db") as connection:
        connection.executescript(script)
    connection.close()
    reader = READERS["hermes"]
    (source,) = reader.sources(tmp_path, {})
    assert [(found.session_id, found.message_count) for found in reader.sessions(source)] == [
        ("01JCH1", 2), ("01JCH2", 2),
    ]  # fmt: skip
