"""Past sessions of the agents, as their files are met: what is listed, and what is read out of them.

What these cases ask of distilling comes with distillation.
"""

import json
import os
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import zstandard

from tests.cases.steps import INPUTS, fingerprint
from tests.transcripts.opencode_store import OPENCODE, Store, listed, tree
from tests.transcripts.sessions import SAMPLES, claude, codex, session, source, turns, write
from transcripts.readers import READERS, Turn, Unreadable
from transcripts.readers.values import from_nanos

CLAUDE, CODEX = READERS["claude_code"], READERS["codex"]


def handed(case: str, tmp_path: Path, repo: str = "/work/app") -> Path:
    """The inputs of a case, with a repository in place of its mark."""
    folder = tmp_path / case
    shutil.copytree(INPUTS / case, folder)
    for path in folder.rglob("*.jsonl"):
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        text = path.read_bytes().replace(b"@REPO@", repo.encode()).replace(b"@TOMORROW@", tomorrow.encode())
        path.write_bytes(text)
    return folder


def read(agent: str, path: Path) -> str:
    """Everything that would leave the reader: titles and turns."""
    found = session(agent, path)
    return "\n".join([str(found.title), str(found.own_title), *(turn.text for turn in turns(agent, path))])


def test_bc_002_half_a_pair_in_a_session_costs_one_character(tmp_path: Path) -> None:
    path = handed("BC-002", tmp_path) / "claude-lone-surrogate.jsonl"
    assert session("claude_code", path).message_count == 6
    (fact,) = [turn.text for turn in turns("claude_code", path) if "okapi" in turn.text]
    assert fact == "The release job needs the gate word okapi \N{REPLACEMENT CHARACTER}… before it runs."


def test_bc_025_line_ends_of_windows_change_nothing_in_a_session(tmp_path: Path) -> None:
    folder = handed("BC-025", tmp_path)
    crlf, lf = (folder / f"session-{name}.jsonl" for name in ("crlf", "lf"))
    assert b"\r\n" in crlf.read_bytes()
    assert turns("claude_code", crlf) == turns("claude_code", lf)
    assert session("claude_code", crlf).unread == 0


def test_bc_048_no_output_of_a_tool_is_read_as_said(tmp_path: Path) -> None:
    folder = handed("BC-048", tmp_path)
    path = folder / "claude-tools.jsonl"
    said = turns("claude_code", path)
    assert [turn.role for turn in said] == ["user", "assistant", "user", "assistant"]
    assert session("claude_code", path).message_count == 4
    assert "CANARY" not in read("claude_code", path)
    shutil.copytree(folder, tmp_path / ".claude" / "projects" / "-work-app")
    assert [found.path.name for found in CLAUDE.sources(tmp_path, {})] == [path.name]


def test_bc_049_messages_of_a_rollout_are_counted_once_and_nothing_else(tmp_path: Path) -> None:
    (path,) = handed("BC-049", tmp_path).glob("*.jsonl")
    found = session("codex", path)
    assert (found.session_id, found.project_path) == ("22222222-2222-4222-8222-000000000001", "/work/app")
    assert (found.message_count, found.notes) == (3, ())
    assert [turn.text for turn in turns("codex", path)] == [
        "Add a retry to the uploader", "Added three tries with backoff.", "Make the backoff configurable",
    ]  # fmt: skip
    assert "CANARY" not in read("codex", path)


def test_bc_064_paths_of_other_systems_are_listed_as_they_were_recorded(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    found = [session("claude_code", path) for path in sorted(handed("BC-064", tmp_path).rglob("*.jsonl"))]
    assert [one.project_path for one in found] == [
        "C:\\Users\\dev\\app",
        "c:/Users/dev/app",
        "/c/Users/dev/app",
        ".",
        None,
    ]
    assert {one.message_count for one in found} == {2}


def test_bc_096_a_session_stamped_in_the_future_is_as_old_as_its_file(tmp_path: Path) -> None:
    past = time.time_ns() - timedelta(days=10) // timedelta(microseconds=1) * 1000
    paths = sorted(handed("BC-096", tmp_path).rglob("*.jsonl"))
    for path in paths:
        os.utime(path, ns=(past, past))
    found = [session("claude_code", path) for path in paths]
    assert [one.message_count for one in found] == [2, 2, 2]
    assert found[1].last_activity_at.year == 2099
    assert {one.active_at for one in found} == {from_nanos(past)}


def test_bc_125_a_session_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "11111111-1111-4111-8111-000000000001.jsonl"
    path.touch()
    written = threading.Event()

    def append() -> None:
        for number in range(400):
            record = claude("user" if number % 2 else "assistant", f"turn {number} 部署 🚀", number)
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            inside = line.find("部".encode()) + 1
            for piece in (line[:inside], line[inside : inside + 7], line[inside + 7 :]):
                with path.open("ab") as file:
                    file.write(piece)
        written.set()

    writer = threading.Thread(target=append)
    writer.start()
    counts, state = [0], None
    while not written.is_set() or counts[-1] < 400:
        (found,), state = CLAUDE.resume(source(path), state)
        assert found.unread <= 1  # the half record
        assert found.message_count >= counts[-1]
        counts.append(found.message_count)
        assert all("部署 🚀" in turn.text for turn in turns("claude_code", path))
    writer.join()
    assert counts[-1] == 400
    for replace in (_rename, _truncate):
        replace(path, write(tmp_path / "new", claude("user", f"content of {replace.__name__}")).read_bytes())
        (found,), state = CLAUDE.resume(source(path), state)
        assert (found.message_count, found.title) == (1, f"content of {replace.__name__}")


def _rename(path: Path, data: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(data)
    other.replace(path)


def _truncate(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(data)


def _new(known: list[Turn], found: list[Turn]) -> list[str]:
    ids = {turn.uid for turn in known}
    return [turn.text for turn in found if turn.uid not in ids]


def test_bc_127_what_a_resumed_session_repeats_is_known_by_its_ids(tmp_path: Path) -> None:
    folder = handed("BC-127", tmp_path)
    original, resumed = (next((folder / name).glob("*.jsonl")) for name in ("original", "resumed"))
    first = turns("claude_code", original)
    assert len(first) == 12
    assert [text[:7] for text in _new(first, turns("claude_code", resumed))] == ["turn 12", "turn 13", "turn 14"]
    fork = next((folder / "codex").glob("*.jsonl"))
    found = session("codex", fork)
    assert (found.session_id[-1], found.parent and found.parent[-1], found.project_path) == ("3", "2", "/work/app")
    parent = write(tmp_path / "parent.jsonl", codex("user", "old question"), codex("assistant", "old answer"))
    assert _new(turns("codex", parent), turns("codex", fork)) == [
        "new question after the fork", "new answer after the fork",
    ]  # fmt: skip


def test_bc_129_titles_and_last_prompts_make_no_second_session_or_turn(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "projects"
    shutil.copytree(handed("BC-129", tmp_path), folder)
    found = [one for found in CLAUDE.sources(tmp_path, {}) for one in CLAUDE.sessions(found)]
    assert len({one.source_path for one in found}) == len(found) == 2
    for one in found:
        assert (one.shown_title, one.message_count) == ("Rename uploader and tests", 4)
        assert (one.started_at.minute, one.last_activity_at.minute, one.last_activity_at.second) == (0, 1, 30)
        said = [turn.text for turn in turns("claude_code", Path(one.source_path))]
        assert said.count("Please rename the uploader") == 1


def test_bc_131_each_store_of_an_agent_that_moved_its_sessions_is_read_or_said(tmp_path: Path) -> None:
    both = Store(tmp_path / "both")
    both.session("new")
    both.say("new", "user", "question")
    log = fingerprint(both.folder)
    assert {identity: one.message_count for identity, one in listed(both.home).items()} == {"new": 1}
    assert {name: log[name] for name in ("opencode.db", "opencode.db-wal")} == {
        name: fingerprint(both.folder)[name] for name in ("opencode.db", "opencode.db-wal")
    }
    tree(both.home)
    both.session("ses_dd3305995ffeRPNEbIQ0IRJBvq")
    assert len(listed(both.home)) == 4
    assert listed(tmp_path / "nobody") == {}
    elsewhere = {"XDG_DATA_HOME": str(both.folder.parent)}
    assert len(list(OPENCODE.sources(tmp_path / "nobody", elsewhere))) == 2
    both.db.close()
    later = Store(tmp_path / "later", "create table of_the_future (id);")
    with pytest.raises(Unreadable, match="may be newer than this version of Coffer"):
        listed(later.home)
    later.db.close()


def test_bc_132_compressed_and_archived_rollouts_are_listed_once(tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    name = "rollout-2026-09-01T08-00-00-22222222-2222-4222-8222-00000000000{}.jsonl".format
    day, archive = moved / "sessions" / "2026" / "09" / "01", moved / "archived_sessions"
    data = write(day / name(1), codex("user", "plain")).read_bytes()
    day.joinpath(name(1) + ".zst").write_bytes(zstandard.compress(data))
    day.joinpath(name(2) + ".zst").write_bytes(zstandard.compress(data))
    day.joinpath(name(3) + ".zst").write_bytes(b"no zstd")
    write(archive / name(4), codex("user", "archived"))
    write(archive / name(1), codex("user", "the same thread, archived"))
    day.joinpath(name(5)).touch()
    found = [one for found in CODEX.sources(tmp_path, {"CODEX_HOME": str(moved)}) for one in CODEX.sessions(found)]
    assert {one.session_id[-1]: one.message_count for one in found} == {"1": 1, "2": 1, "3": 0, "4": 1, "5": 0}
    assert len(found) == 5
    (unreadable,) = [one for one in found if one.notes]
    assert unreadable.session_id.endswith("3")


def test_bc_133_nothing_that_was_injected_comes_back(tmp_path: Path) -> None:
    (path,) = handed("BC-133", tmp_path).glob("*.jsonl")
    assert "CANARY" not in read("claude_code", path)
    assert [turn.text for turn in turns("claude_code", path)] == [
        "New decision: the cache lives ten minutes.", "Noted: cache ten minutes.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("agent", "path"), [("codex", "codex/gen-0.171.0"), ("claude_code", "claude/gen-2.1.332"), ("gemini_cli", "gemini")]
)
def test_bc_133_hooks_of_the_real_programs_leave_nothing_in_turns(agent: str, path: str) -> None:
    files = [file for file in (SAMPLES / path).rglob("*.jsonl") if b"COFFER-INJECTED-MARK" in file.read_bytes()]
    assert files
    for file in files:
        assert "COFFER-INJECTED-MARK" not in read(agent, file)
