"""Files that are broken, huge, growing, linked or gone: what can be read is read, and the rest is said."""

import json
import os
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transcripts.sessions import claude, codex, event, session, source, turns, write
from transcripts.readers import READERS, Session, Unreadable
from transcripts.readers.lines import MAX_LINE

CLAUDE = READERS["claude_code"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".claude" / "projects" / "-work-app" / "11111111-1111-4111-8111-000000000001.jsonl"


def texts(path: Path, agent: str = "claude_code") -> list[str]:
    return [turn.text for turn in turns(agent, path)]


@pytest.mark.parametrize(
    "line",
    [
        "not json", "[1, 2]", "3", "null", '"text"', '{"type": "user", "mess', '{"type": "user"} trailing', "{'a': 1}",
        "[" * 200_000, '{"a":' * 200_000, "\ufeff\ufeff", '{"n": 1' + "0" * 5000 + "}",
    ],
    ids=lambda line: line[:20],
)  # fmt: skip
def test_a_bad_line_is_counted_and_the_others_are_read(file: Path, line: str) -> None:
    write(file, claude("user", "before"), line, claude("assistant", "after", 1))
    found = session("claude_code", file)
    assert (found.message_count, found.unread) == (2, 1)
    assert found.notes == ("1 line is no whole JSON object: passed over",)


def test_what_is_no_content_is_no_bad_line(file: Path) -> None:
    one, two = (json.dumps(claude("user", text, n)).encode() for n, text in enumerate(("one", "two")))
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xef\xbb\xbf" + one + b"\r\n\r\n\n  \n\0\0\0\n\0\0" + two + b"\0\n" + b"\0" * 4096)
    found = session("claude_code", file)
    assert (found.message_count, found.unread, found.notes) == (2, 0, ())


def test_a_byte_that_is_no_utf8_costs_its_line_alone(file: Path) -> None:
    write(file, claude("user", "one"), claude("user", "b\xe4d", 1), claude("user", "three", 2))
    file.write_bytes(file.read_bytes().replace(b"b\\u00e4d", b"b\xe4d"))
    assert session("claude_code", file).unread == 1
    assert texts(file) == ["one", "three"]


def test_half_a_surrogate_pair_and_nul_are_kept_out_of_turns_and_titles(file: Path) -> None:
    write(file, claude("user", "half \ud83d of \0 it"))
    assert texts(file) == ["half \ufffd of  it"]
    assert session("claude_code", file).title == "half ? of it"


def test_a_line_that_is_too_long_is_passed_over_in_flat_memory(file: Path) -> None:
    write(file, claude("user", "before"))
    with file.open("ab") as out:
        out.write(b'{"type":"user","toolUseResult":"')
        for _ in range(4 * MAX_LINE // 2**20):
            out.write(b"x" * 2**20)
        out.write(b'"}\n' + json.dumps(claude("assistant", "after", 1)).encode() + b"\n")
    tracemalloc.start()
    found = session("claude_code", file)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.message_count, found.unread) == (2, 0)
    assert found.notes == (f"1 line is longer than {MAX_LINE // 2**20} MiB: passed over",)
    assert most < 3 * MAX_LINE
    assert CLAUDE.resume(source(file), CLAUDE.resume(source(file))[1])[0] == [found]


def test_a_line_of_five_megabytes_is_read(file: Path) -> None:
    output = [{"type": "tool_result", "content": "x" * 5_000_000}]
    write(file, claude("user", "why?"), claude("user", output, 1), claude("assistant", "so", 2))
    found = session("claude_code", file)
    assert (found.message_count, found.notes) == (2, ())


def test_a_long_line_without_an_end_waits_for_it(file: Path) -> None:
    write(file, claude("user", "before"), "x" * (MAX_LINE + 5), end="")
    (found,), state = CLAUDE.resume(source(file))
    assert found.notes == (f"1 line is longer than {MAX_LINE // 2**20} MiB: passed over",)
    with file.open("a") as out:
        out.write("\n" + json.dumps(claude("assistant", "after", 1)) + "\n")
    assert CLAUDE.resume(source(file), state)[0][0].message_count == 2


def grown(path: Path, agent: str, lines: list[Any]) -> Iterator[tuple[Session, Session]]:
    """A file that grows by pieces of lines: the session as continued, and as read from the start."""
    reader, state = READERS[agent], None
    data = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    for end in range(0, len(data) + 1, 37):
        path.write_bytes(data[: end if end + 37 <= len(data) else len(data)])
        (continued,), state = reader.resume(source(path), state and json.loads(json.dumps(state)))
        yield continued, reader.sessions(source(path))[0]


def test_a_growing_file_is_continued_as_if_it_were_read_from_the_start(file: Path, tmp_path: Path) -> None:
    wrong = claude("user", "seen twice", 3)
    lines = [
        claude("user", "请帮我 🚀"), claude("assistant", "one", 1), claude("assistant", "two", 1), wrong, wrong,
        {"type": "ai-title", "aiTitle": "title"}, claude("assistant", "three", 4), claude("assistant", "", 5),
    ]  # fmt: skip
    counts = []
    for continued, whole in grown(file, "claude_code", lines):
        assert continued == whole
        counts.append(continued.message_count)
    assert counts == sorted(counts)
    assert counts[-1] == len(turns("claude_code", file)) == 4
    compaction = event("item_completed", turn_id="t2", item={"type": "ContextCompaction"})
    lines = [
        codex("user", "first", "t1"), codex("assistant", "answer", "t1"), codex("assistant", "summary", "t2"),
        compaction, codex("user", "second", "t3"),
    ]  # fmt: skip
    for continued, whole in grown(tmp_path / "rollout.jsonl", "codex", lines):
        assert continued == whole
    assert whole.message_count == len(turns("codex", tmp_path / "rollout.jsonl")) == 3


def test_a_continued_reading_does_not_look_at_what_it_knows(file: Path) -> None:
    write(file, claude("user", "one"), claude("assistant", "two " * 200, 1))
    state = CLAUDE.resume(source(file))[1]
    data = file.read_bytes()
    file.write_bytes(b"x" * 40 + data[40:] + json.dumps(claude("user", "three", 2)).encode() + b"\n")
    (found,), _ = CLAUDE.resume(source(file), state)
    assert (found.message_count, found.unread, found.title) == (3, 0, "one")


@pytest.mark.parametrize("content", ["shorter", "longer than what was there before, by all means, and again longer"])
def test_a_file_that_was_replaced_is_read_anew(file: Path, content: str) -> None:
    write(file, claude("user", "the first content"), claude("assistant", "answer", 1))
    state = CLAUDE.resume(source(file))[1]
    write(file.with_name("new.jsonl"), claude("user", content * 20)).replace(file)
    (found,), _ = CLAUDE.resume(source(file), state)
    assert (found.message_count, found.first_prompt) == (1, (content * 20)[:80].strip())


@pytest.mark.parametrize("state", [{}, {"position": 3}, {"position": {"offset": 10, "mark": "x"}, "summary": {}}])
def test_a_state_of_another_make_is_not_used(file: Path, state: dict[str, Any]) -> None:
    write(file, claude("user", "one"))
    assert CLAUDE.resume(source(file), state)[0][0].message_count == 1


def test_a_session_can_be_kept_and_taken_back(file: Path) -> None:
    write(file, claude("user", "one"), "bad")
    found = session("claude_code", file)
    assert Session.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_a_file_that_is_gone_has_no_session_and_no_turns(file: Path) -> None:
    write(file, claude("user", "one"))
    gone = source(file)
    file.unlink()
    assert CLAUDE.sessions(gone) == []
    with pytest.raises(Unreadable, match="cannot be read"):
        list(CLAUDE.turns(gone, ""))


def test_folders_and_links_are_looked_at_once(tmp_path: Path, file: Path) -> None:
    write(file, claude("user", "one"))
    projects = file.parents[1]
    (projects / "-work-app" / "folder.jsonl").mkdir()
    (projects / "-work-app" / "loop").symlink_to(projects)
    (projects / "same").symlink_to(file.parent)
    (projects / "-work-app" / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    os.mkfifo(projects / "-work-app" / "pipe.jsonl")
    elsewhere = write(tmp_path / "elsewhere.jsonl", claude("user", "two"))
    (projects / "-work-app" / "linked.jsonl").symlink_to(elsewhere)
    write(projects / "-work-app" / file.stem / "subagents" / "agent-1.jsonl", claude("user", "sub"))
    found = [found.path.name for found in CLAUDE.sources(tmp_path, {})]
    assert found == [file.name, "linked.jsonl"]


def test_the_folder_of_all_sessions_may_be_a_link(tmp_path: Path, file: Path) -> None:
    write(file, claude("user", "one"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".claude").symlink_to(tmp_path / ".claude")
    assert len(list(CLAUDE.sources(tmp_path / "other", {}))) == 1
    assert list(CLAUDE.sources(tmp_path / "nobody", {})) == []


@contextmanager
def stopped_by_permissions() -> Iterator[None]:
    """Nothing is closed to root: be somebody else meanwhile."""
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        yield
    finally:
        if root:
            os.seteuid(0)


def test_what_may_not_be_read_is_said() -> None:
    with tempfile.TemporaryDirectory() as home:
        closed = write(Path(home, ".claude", "projects", "open", "11111111.jsonl"), claude("user", "one"))
        folder = write(Path(home, ".claude", "projects", "closed", "x.jsonl"), claude("user", "two")).parent
        Path(home).chmod(0o755)
        closed.chmod(0)
        folder.chmod(0)
        with stopped_by_permissions():
            problem, unread = CLAUDE.sources(Path(home), {})
            with pytest.raises(Unreadable, match="closed cannot be listed"):
                CLAUDE.sessions(problem)
            (found,) = CLAUDE.sessions(unread)
            with pytest.raises(Unreadable, match="Permission denied"):
                list(CLAUDE.turns(unread, ""))
        folder.chmod(0o700)
    assert (found.session_id, found.message_count) == ("11111111", 0)
    assert found.notes == ("the file cannot be read: Permission denied",)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just("2026-09-01T08:00:00Z"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=6,
)
FIELDS = (
    "uuid", "timestamp", "cwd", "sessionId", "isSidechain", "message", "aiTitle", "customTitle", "origin",
    "payload", "metadata", "id", "role", "content", "data", "$set", "$rewindTo", "messages", "sessionId", "record_type",
)  # fmt: skip
TYPES = (
    "user", "assistant", "ai-title", "custom-title", "response_item", "event_msg", "session_meta", "compacted",
    "message", "session", "user.message", "assistant.message", "session.start", "gemini",
)  # fmt: skip
PAYLOADS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "task_started", "item_completed"]) | anything},
    optional=dict.fromkeys(
        ("role", "content", "id", "source", "turn_id", "item", "message", "context", "sessionId", "cwd",
         "internal_chat_message_metadata_passthrough"),
        anything | st.sampled_from(["user", "assistant"]),
    ),
)  # fmt: skip
RECORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES) | anything},
    optional=dict.fromkeys(FIELDS, anything) | {"payload": PAYLOADS, "message": PAYLOADS, "data": PAYLOADS},
)


@pytest.mark.parametrize("agent", ["claude_code", "codex", "gemini_cli", "copilot_cli", "openclaw"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(RECORDS, max_size=6))
def test_no_record_makes_a_reader_fail(agent: str, records: list[Any], tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "b" / "c" / "session-1.jsonl", *records)
    found, state = READERS[agent].resume(source(path))
    assert json.loads(json.dumps([one.as_dict() for one in found]))
    assert READERS[agent].resume(source(path), state and json.loads(json.dumps(state)))[0] == found
    for turn in turns(agent, path):
        assert turn.text.encode()
        assert turn.uid.encode()
