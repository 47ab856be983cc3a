"""Codex: its generations, what it adds under the person's name, compactions, forks, names and compressed files."""

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.transcripts.sessions import SAMPLES, codex, event, session, source, turns, write
from transcripts.readers import READERS, Unreadable

CODEX = READERS["codex"]
HOME = SAMPLES / "codex" / "gen-0.171.0"
NAME = "rollout-2026-09-01T08-00-00-22222222-2222-4222-8222-000000000001.jsonl"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".codex" / "sessions" / "2026" / "09" / "01" / NAME


def said(path: Path) -> list[str]:
    return [turn.text for turn in turns("codex", path)]


def meta(**fields: Any) -> dict[str, Any]:
    payload = {"id": "own", "cwd": "/work/app", **fields}
    return {"timestamp": "2026-09-01T08:00:00.000Z", "type": "session_meta", "payload": payload}


def compressed(path: Path, data: bytes) -> Path:
    path = path.with_name(f"{path.name}.zst")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.compress(data))
    return path


def test_live_and_archived_threads_are_listed_and_a_file_and_its_compressed_twin_once(
    tmp_path: Path, file: Path
) -> None:
    write(file, meta(), codex("user", "plain"))
    compressed(file, b"{}")
    alone = compressed(file.with_name(NAME.replace("01.jsonl", "02.jsonl")), (HOME / "history.jsonl").read_bytes())
    archive = tmp_path / ".codex" / "archived_sessions"
    archived = write(archive / NAME.replace("01.jsonl", "03.jsonl"), meta())
    write(archive / NAME, meta())
    assert [found.path for found in CODEX.sources(tmp_path, {})] == [file, alone, archived]
    assert list(CODEX.sources(tmp_path, {"CODEX_HOME": str(tmp_path / "moved")})) == []


def test_a_compressed_file_is_read_in_frames_and_not_continued(file: Path) -> None:
    one = json.dumps(codex("user", "one")).encode() + b"\n"
    two = json.dumps(codex("assistant", "two")).encode() + b"\n"
    path = compressed(file, one)
    path.write_bytes(path.read_bytes() + zstandard.compress(two))
    assert said(path) == ["one", "two"]
    (found,), state = CODEX.resume(source(path))
    assert CODEX.resume(source(path), state)[0] == [found]
    assert found.session_id == "22222222-2222-4222-8222-000000000001"


@pytest.mark.parametrize("data", [b"not zstd at all", b"", zstandard.compress(b"{}" * 500)[:12]])
def test_what_is_no_zstd_is_said(file: Path, data: bytes) -> None:
    path = compressed(file, b"")
    path.write_bytes(data)
    found = session("codex", path)
    assert found.message_count == 0
    assert "zstd" in found.notes[0]
    with pytest.raises(Unreadable, match="zstd"):
        said(path)


def test_a_thread_without_a_head_is_named_by_its_file(file: Path) -> None:
    write(file, codex("user", "question"))
    found = session("codex", file)
    assert (found.session_id, found.project_path) == ("22222222-2222-4222-8222-000000000001", None)
    file.write_bytes(b"")
    found = session("codex", file)
    assert (found.message_count, found.title, found.notes) == (0, None, ())


def test_before_envelopes_the_directory_stands_in_the_environment(file: Path) -> None:
    write(
        file,
        {"id": "old", "timestamp": "2025-09-01T08:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        codex("user", "<environment_context>\n<cwd>/work/old</cwd>\n</environment_context>")["payload"],
        codex("user", "question")["payload"],
        codex("assistant", "answer")["payload"],
    )
    found = session("codex", file)
    assert (found.session_id, found.project_path, found.message_count) == ("old", "/work/old", 2)
    assert [turn.at for turn in turns("codex", file)] == [None, None]


def test_only_items_that_a_person_made_are_read_where_kinds_are_told(file: Path) -> None:
    record = codex("user", "CANARY", "t")
    content = [{"type": "input_text", "text": text} for text in ("CANARY", "# AGENTS.md instructions of mine")]
    record["payload"]["content"] = content
    passed = record["payload"]["internal_chat_message_metadata_passthrough"]
    passed["content_item_kinds"] = ["environments.environment_context", "user.text"]
    injected = json.loads(json.dumps(record))
    injected["payload"]["internal_chat_message_metadata_passthrough"]["content_item_kinds"] = ["a.b", "hooks.x"]
    write(file, record, injected)
    assert said(file) == ["# AGENTS.md instructions of mine"]


def test_what_the_screen_shows_and_what_tools_say_is_never_counted(file: Path) -> None:
    write(
        file,
        meta(base_instructions={"text": "CANARY"}),
        codex("developer", "CANARY"),
        codex("user", "# AGENTS.md instructions for /work\n\nCANARY"),
        codex("user", "question"),
        event("user_message", message="question"),
        {"type": "response_item", "payload": {"type": "function_call_output", "output": "CANARY"}},
        {"type": "response_item", "payload": {"type": "reasoning", "summary": [{"text": "CANARY"}]}},
        {"type": "response_item", "payload": {"type": "agent_message", "content": [{"text": "CANARY"}]}},
        {"type": "response_item", "payload": {"role": "user", "content": [{"type": "input_text", "text": "CANARY"}]}},
        {"type": "world_state", "payload": {"type": "message", "role": "user", "content": "CANARY"}},
        event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": "answer"}]}),
        codex("assistant", "answer"),
        event("agent_message", message="answer"),
    )
    assert said(file) == ["question", "answer"]
    assert session("codex", file).message_count == 2


def test_a_summary_that_compaction_made_is_taken_back(file: Path) -> None:
    write(
        file,
        event("task_started", turn_id="t1"),
        codex("user", "first", "t1"),
        codex("assistant", "answer one", "t1"),
        codex("assistant", "answer two", "t1"),
        event("task_started", turn_id="t2"),
        codex("assistant", "CANARY", "t2"),
        {"type": "compacted", "payload": {"message": "", "replacement_history": [codex("user", "CANARY")["payload"]]}},
        event("item_completed", turn_id="t2", item={"type": "ContextCompaction"}),
        codex("user", "second", "t3"),
    )
    assert said(file) == ["first", "answer one", "answer two", "second"]
    assert session("codex", file).message_count == 4


def test_an_older_compaction_is_known_by_the_summary_that_it_repeats(file: Path) -> None:
    compacted = {"type": "compacted", "payload": {"message": "Another model left this:\nCANARY summary\n"}}
    write(
        file,
        codex("user", "first"),
        codex("assistant", "answer"),
        codex("assistant", "CANARY summary"),
        compacted,
        codex("user", "second"),
        codex("assistant", "last"),
        compacted,
    )
    assert said(file) == ["first", "answer", "second", "last"]
    assert session("codex", file).message_count == 4


def test_a_compaction_in_the_middle_of_a_turn_costs_no_answer(file: Path) -> None:
    write(
        file,
        codex("user", "first", "t1"),
        codex("assistant", "answer", "t1"),
        codex("assistant", "CANARY", "t1", metadata={"compaction_output": True}),
        event("item_completed", turn_id="t1", item={"type": "ContextCompaction"}),
        codex("assistant", "after", "t1"),
    )
    assert said(file) == ["first", "answer", "after"]
    assert session("codex", file).message_count == 3


def test_a_fork_by_pointer_holds_its_own_turns_and_names_its_parent() -> None:
    folder = HOME / "sessions" / "2026" / "11" / "30"
    path = folder / "rollout-2026-11-30T14-13-03-01a22ccd-526a-7db0-b9fd-5173ba14b65b.jsonl"
    assert session("codex", path).parent == "01a22cc9-f30d-7de0-9cc9-1091e1dd7a11"
    assert said(path) == ["forked question2", "mock reply to: forked question2"]


def test_an_older_fork_repeats_its_parent_with_equal_ids(tmp_path: Path, file: Path) -> None:
    history = [codex("user", "old question"), codex("assistant", "old answer")]
    parent = write(tmp_path / "parent.jsonl", meta(id="parent"), *history)
    write(file, meta(forked_from_id="parent"), meta(id="parent", cwd="/other"), *history, codex("user", "new"))
    found = session("codex", file)
    assert (found.session_id, found.parent, found.project_path) == ("own", "parent", "/work/app")
    known = {turn.uid for turn in turns("codex", parent)}
    assert [turn.text for turn in turns("codex", file) if turn.uid not in known] == ["new"]


def test_threads_of_subagents_say_so(file: Path) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "root"}}}
    for fields in ({"source": spawned}, {"source": {"subagent": "review"}}, {"thread_source": "subagent"}):
        write(file, meta(**fields), codex("user", "part"))
        found = session("codex", file)
        assert found.subagent
        assert found.parent == ("root" if fields.get("source") == spawned else None)


def test_turns_imported_from_another_agent_are_counted_but_not_told_again(file: Path) -> None:
    write(
        file,
        meta(),
        event("task_started", turn_id="external-import-turn-1"),
        codex("user", "old question"),
        codex("assistant", "[external_agent_tool_call: Bash] CANARY"),
        event("task_started", turn_id="own"),
        codex("user", "new question"),
    )
    found = session("codex", file)
    assert (found.message_count, found.title) == (3, "old question")
    assert found.notes == ("2 messages were imported from another agent, whose own sessions have them",)
    assert said(file) == ["new question"]


def test_the_last_name_of_a_thread_counts(tmp_path: Path) -> None:
    names = CODEX.names(tmp_path, {"CODEX_HOME": str(HOME)})
    assert names["01a22cca-6927-7f21-8eaf-85c303ec4ed5"] == "my codex title"
    assert len(names) == 4
    assert CODEX.names(tmp_path, {}) == {}
