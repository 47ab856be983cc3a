"""Claude Code: who said what, through all the layers that the program puts around it."""

from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.sessions import SAMPLES, claude, session, turns, write
from transcripts.readers import READERS, Turn

GENERATED = SAMPLES / "claude" / "gen-2.1.332" / "projects" / "-tmp-agents-proj-a"
ID = "11111111-1111-4111-8111-000000000001"


def said(path: Path) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in turns("claude_code", path)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / f"{ID}.jsonl"


def test_the_home_of_sessions_can_be_moved(tmp_path: Path) -> None:
    reader = READERS["claude_code"]
    write(tmp_path / "moved" / "projects" / "any name" / f"{ID}.jsonl", claude("user", "one"))
    (found,) = reader.sources(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "moved")})
    assert reader.sessions(found)[0].source_path == str(found.path)
    assert list(reader.sources(tmp_path, {})) == []


def test_files_of_subagents_are_no_sessions(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects" / "-work-app"
    write(folder / f"{ID}.jsonl", claude("user", "one"))
    write(folder / "agent-0a1b2c3d.jsonl", claude("user", "Warmup", isSidechain=True))
    write(folder / ID / "subagents" / "agent-1.jsonl", claude("user", "part", isSidechain=True))
    assert [found.path.name for found in READERS["claude_code"].sources(tmp_path, {})] == [f"{ID}.jsonl"]


def test_the_records_of_one_answer_are_one_turn(file: Path) -> None:
    tool = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "CANARY"}}
    write(
        file,
        claude("user", "why?"),
        claude("assistant", [{"type": "thinking", "thinking": "CANARY"}], 1),
        claude("assistant", [{"type": "text", "text": "I look."}], 1),
        claude("assistant", [tool], 1),
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "CANARY"}], 2),
        claude("assistant", [{"type": "text", "text": "\n\n"}], 1),
        claude("assistant", [{"type": "text", "text": "So it is."}], 1),
        claude("assistant", "Next.", 3),
    )
    assert said(file) == [("user", "why?"), ("assistant", "I look.\n\nSo it is."), ("assistant", "Next.")]
    assert session("claude_code", file).message_count == 3
    assert turns("claude_code", file)[1].uid == "msg-1"


@pytest.mark.parametrize(
    "record",
    [
        claude("user", "CANARY", isMeta=True),
        claude("user", "This session is being continued. CANARY", isCompactSummary=True),
        claude("user", "CANARY", isVisibleInTranscriptOnly=True),
        claude("user", "CANARY", isSidechain=True),
        claude("user", "CANARY", promptSource="system"),
        claude("user", "CANARY", origin={"kind": "task-notification"}),
        claude("user", "<task-notification>CANARY</task-notification>"),
        claude("user", "  <command-name>/init</command-name> <command-args>CANARY</command-args>"),
        claude("user", "<bash-stdout>CANARY</bash-stdout>"),
        claude("user", "[Request interrupted by user for tool use] CANARY"),
        claude("user", [{"type": "text", "text": "<system-reminder>CANARY</system-reminder>"}]),
        claude("user", [{"type": "tool_result", "content": "CANARY"}, {"type": "text", "text": "CANARY"}]),
        claude("assistant", "CANARY", isApiErrorMessage=True),
        claude("assistant", "", message={"model": "<synthetic>", "content": "CANARY"}),
        {"type": "api-request-blob", "message": {"role": "user", "content": [{"type": "text", "text": "CANARY"}]}},
        {"type": "attachment", "attachment": {"type": "hook_success", "stdout": "CANARY"}, "message": {"role": "user"}},
        {"type": "system", "subtype": "local_command", "content": "CANARY"},
        {"type": "queue-operation", "operation": "enqueue", "content": "CANARY"},
        {"type": "last-prompt", "lastPrompt": "CANARY"},
        {"type": "progress", "data": {"message": {"type": "user", "message": {"content": "CANARY"}}}},
        {"type": "summary", "summary": "CANARY", "leafUuid": "elsewhere"},
        {"type": "of a later version", "message": {"role": "user", "content": "CANARY"}},
    ],
    ids=lambda record: f"{record['type']}-{str(record.get('message', record))[:40]}",
)
def test_what_nobody_said_is_no_turn_and_no_title(file: Path, record: dict[str, Any]) -> None:
    write(file, record, claude("user", "real question", 8), claude("assistant", "real answer", 9))
    assert said(file) == [("user", "real question"), ("assistant", "real answer")]
    found = session("claude_code", file)
    assert (found.message_count, found.title) == (2, "real question")


def test_reminders_inside_a_prompt_are_cut_out_in_linear_time(file: Path) -> None:
    reminder = "<system-reminder>CANARY</system-reminder>"
    open_ones = "<system-reminder>" * 50_000
    write(file, claude("user", f"first {reminder}{reminder} last {open_ones}"))
    ((_, text),) = said(file)
    assert text == f"first  last {open_ones}"


def test_a_picture_alone_is_a_turn_but_no_title(file: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "CANARY"}}
    write(file, claude("user", [picture]), claude("user", [picture, {"type": "text", "text": "and this?"}], 1))
    assert said(file) == [("user", "[image]"), ("user", "and this?")]
    assert session("claude_code", file).title == "and this?"


def test_the_latest_titles_of_this_session_count(file: Path) -> None:
    write(
        file,
        {"type": "ai-title", "aiTitle": "first", "sessionId": ID},
        claude("user", "prompt"),
        {"type": "ai-title", "aiTitle": "  the\nlast ", "sessionId": ID},
        {"type": "ai-title", "aiTitle": "of another", "sessionId": "other"},
        {"type": "ai-title", "aiTitle": " "},
        {"type": "custom-title", "customTitle": "mine", "sessionId": ID},
        {"type": "custom-title", "customTitle": "of another", "sessionId": "other"},
    )
    found = session("claude_code", file)
    assert (found.title, found.own_title, found.first_prompt) == ("the last", "mine", "prompt")
    assert found.shown_title == "mine"


def test_the_first_working_directory_is_the_one_it_began_in(file: Path) -> None:
    write(file, claude("user", "a", cwd=""), claude("user", "b", 1, cwd="/a"), claude("user", "c", 2, cwd="/a/b"))
    assert session("claude_code", file).project_path == "/a"


def test_times_are_the_least_and_greatest_that_make_sense(file: Path) -> None:
    stamps = ["2026-09-01T10:00:00+02:00", "garbage", None, 5, True, "0001-01-01T00:00:00Z", "2026-09-01T09:00:00"]
    stamps += ["9999-12-31T23:59:59-12:00", "1970-01-01T00:00:00Z", "2026-09-01T08:30:00.123456789Z", ["x"], 1e400]
    write(file, *(claude("user", str(number), timestamp=stamp) for number, stamp in enumerate(stamps)))
    found = session("claude_code", file)
    assert found.started_at.isoformat() == "2026-09-01T08:00:00+00:00"
    assert found.last_activity_at.isoformat() == "2026-09-01T09:00:00+00:00"
    assert found.message_count == len(stamps)


def test_a_fork_repeats_the_ids_of_its_parent() -> None:
    parent = turns("claude_code", GENERATED / "11111111-1111-4111-8111-111111111111.jsonl")
    fork = turns("claude_code", GENERATED / "6f08fc59-e592-44b8-ae5b-f0d01c9668a9.jsonl")
    assert [turn.uid for turn in fork[: len(parent)]] == [turn.uid for turn in parent]
    assert len(fork) == len(parent) + 2


def test_a_copy_with_new_ids_has_equal_digests() -> None:
    folder = SAMPLES / "claude" / "gen-1.0.60" / "projects" / "-tmp-agents-proj-a"
    first = turns("claude_code", folder / "45ba4a90-f2cb-4633-b50f-bfd5818402e4.jsonl")
    resumed = turns("claude_code", folder / "6e83f77d-84fc-47f5-83ec-39a3e0793110.jsonl")
    assert [turn.digest for turn in resumed[: len(first)]] == [turn.digest for turn in first]
    assert first[0].uid != resumed[0].uid
    one, same, other = Turn("user", " a \n b", None), Turn("user", "a b", None), Turn("assistant", "a b", None)
    assert one.digest == same.digest != other.digest
