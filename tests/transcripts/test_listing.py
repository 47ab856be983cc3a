"""The list of sessions: what is found how, what is kept on disk, and what is opened again."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coffer import paths
from coffer.errors import NotFound, UnsupportedAgentType
from tests.cases.steps import read_only
from tests.transcripts import conversations as talk
from tests.transcripts.conversations import identity
from tests.transcripts.sessions import SAMPLES
from transcripts.models import KnownSession, KnownSource
from transcripts.readers import lines
from transcripts.services import catalogue, homes, listing
from transcripts.services.listing import Page, Wanted


def listed(agent: str = "claude_code", **wanted: object) -> Page:
    return listing.page([homes.of(agent)], Wanted(**wanted))  # type: ignore[arg-type]


def titles(**wanted: object) -> list[str | None]:
    return [session.shown_title for session in listed(**wanted).sessions]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that a reader has opened: noted by the one function that opens them."""
    found: list[str] = []
    really = lines._opened

    def note(path: Path) -> object:
        found.append(path.name)
        return really(path)

    monkeypatch.setattr(lines, "_opened", note)
    return found


def test_sessions_are_searched_filtered_sorted_and_paged() -> None:
    talk.claude("/work/app", "Fix the ÜBERALL parser", "done", session=identity(1), ago=timedelta(days=3))
    talk.claude("/work/app", "Rename uploader", "done", "and more", "ok", session=identity(2), ago=timedelta(days=2))
    talk.claude("/work/other", "Release notes", "done", session=identity(3), ago=timedelta(days=1))
    assert titles() == ["Release notes", "Rename uploader", "Fix the ÜBERALL parser"]
    assert titles(sort="message_count") == ["Rename uploader", "Release notes", "Fix the ÜBERALL parser"]
    assert titles(sort="started_at", order="asc")[0] == "Fix the ÜBERALL parser"
    assert titles(q="parser überall") == ["Fix the ÜBERALL parser"]
    assert titles(q="OTHER") == ["Release notes"]
    assert titles(q="100% _") == []
    assert titles(project="/work/app") == ["Rename uploader", "Fix the ÜBERALL parser"]
    assert titles(project="/work") == []
    now = datetime.now(UTC)
    assert titles(started_after=now - timedelta(days=2.5)) == ["Release notes", "Rename uploader"]
    assert titles(started_before=now - timedelta(days=2.5)) == ["Fix the ÜBERALL parser"]
    page = listed(limit=1, offset=1)
    assert ([one.session_id for one in page.sessions], page.total) == ([identity(2)], 3)
    assert listing.projects(["claude_code"]) == [("/work/app", 2), ("/work/other", 1)]


def test_a_row_says_what_rest_says() -> None:
    path = talk.claude("/work/app", "Fix the parser", "done", title="Parser")
    (session,) = listed().sessions
    assert listing.row(session) == {
        "session_id": identity(1),
        "title": "Parser",
        "project_path": "/work/app",
        "message_count": 2,
        "started_at": session.started_at,
        "last_activity_at": session.last_activity_at,
        "source_path": str(path),
    }
    assert timedelta(seconds=1) <= session.last_activity_at - session.started_at < timedelta(seconds=2)


def test_nothing_is_opened_again_while_it_stays_as_it_is(opened: list[str]) -> None:
    files = [talk.claude("/work/app", f"Prompt {number}", session=identity(number)) for number in range(5)]
    assert listed().total == 5
    assert sorted(opened) == sorted(path.name for path in files)
    opened.clear()
    connection.close()  # as in another process, all that is known is on disk
    assert listed(q="prompt").total == 5
    assert opened == []
    talk.say(files[2], "/work/app", "an answer")
    files[3].unlink()
    assert (listed().total, opened) == (4, [files[2].name])


def test_a_file_without_permission_is_no_reason_to_open_the_others(opened: list[str]) -> None:
    for number in range(3):
        talk.claude("/work/app", f"Prompt {number}", session=identity(number))
    listed()
    opened.clear()
    folder = talk.claude_file().parent
    with read_only(folder):
        for path in folder.glob("*.jsonl"):
            path.chmod(0)
        assert (listed().total, opened) == (3, [])


def test_a_growing_file_is_read_on_from_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    path = talk.claude("/work/app", "One", "two", "three")
    listed()
    read: list[object] = []
    really = lines.values.loads
    monkeypatch.setattr(lines.values, "loads", lambda data: (data and read.append(data)) or really(data))
    talk.say(path, "/work/app", "four", "five")
    (session,) = listed().sessions
    assert (session.message_count, len(read)) == (5, 2)
    path.write_text(path.read_text().partition("\n")[0] + "\n")  # cut: the state does not fit any more
    os.utime(path, (1, 1))
    (session,) = listed().sessions
    assert session.message_count == 1


def test_a_file_that_was_rewritten_to_the_same_size_is_read_anew() -> None:
    path = talk.claude("/work/app", "Mend the parser", "done")
    assert listed().sessions[0].shown_title == "Mend the parser"
    path.write_text(path.read_text().replace("Mend", "Drop"))
    os.utime(path, (1, 1))
    assert listed().sessions[0].shown_title == "Drop the parser"


def test_what_is_kept_of_files_that_grow_no_more_is_their_row_alone() -> None:
    talk.claude("/work/app", "Old", session=identity(1), ago=timedelta(days=30))
    talk.claude("/work/app", "New", session=identity(2))
    listed()
    states = dict(KnownSource.objects.values_list("place", "state"))
    assert [bool(states[str(talk.claude_file(identity(number)))]) for number in (1, 2)] == [False, True]


def test_another_version_of_the_readers_reads_everything_anew(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.claude("/work/app", "Prompt")
    listed()
    monkeypatch.setattr(catalogue, "VERSION", catalogue.VERSION + 1)
    listed()
    assert len(opened) == 2


def test_names_that_codex_keeps_elsewhere_outrank_and_follow_their_file(opened: list[str]) -> None:
    talk.codex("/work/app", "First prompt", "done")
    index = talk.person() / ".codex" / "session_index.jsonl"
    assert [one.shown_title for one in listed("codex").sessions] == ["First prompt"]
    for name in ("Uploader", "Downloader"):
        with index.open("a") as file:
            file.write(json.dumps({"id": identity(2), "thread_name": name}) + "\n")
        assert [one.shown_title for one in listed("codex", q=name.lower()).sessions] == [name]
    opened.clear()
    listed("codex")
    assert opened == []
    index.unlink()
    assert [one.shown_title for one in listed("codex", q="prompt").sessions] == ["First prompt"]


def test_subagents_are_no_sessions_and_copies_of_one_id_are_rows_of_their_own() -> None:
    path = talk.claude("/work/app", "Prompt", "answer")
    copy = talk.claude_file(folder="-work-copy")
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    agent = talk.claude_file("1234abcd")
    agent.write_text(path.read_text().replace('"sessionId"', '"isSidechain": true, "sessionId"'))
    page = listed()
    assert page.total == 2
    assert {session.session_id for session in page.sessions} == {identity(1)}
    assert listing.find(homes.of("claude_code"), identity(1)).message_count == 2


def test_what_cannot_be_read_is_said_and_looked_at_again() -> None:
    path = talk.codex("/work/app", "Prompt")
    packed = path.with_name("rollout-2026-11-01T09-00-00-11111111-1111-4111-8111-000000000009.jsonl.zst")
    packed.write_bytes(b"no zstd")
    page = listed("codex")
    assert page.total == 2
    (problem,) = page.problems
    assert problem.path == str(packed)
    assert problem.reason.startswith("the file cannot be read: not valid zstd")
    packed.unlink()
    assert listed("codex").problems == []


def test_a_folder_without_permission_is_said_and_the_others_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    talk.claude("/work/app", "Prompt")
    closed = talk.person() / ".claude" / "projects" / "-work-closed"
    closed.mkdir()
    really = os.scandir

    def scandir(folder: str) -> object:  # root, as whom tests may run, is stopped by no permission
        if folder == str(closed):
            raise PermissionError(13, "Permission denied", folder)
        return really(folder)

    with monkeypatch.context() as forbidden:
        forbidden.setattr(os, "scandir", scandir)
        page = listed()
    assert (page.total, [problem.path for problem in page.problems]) == (1, [str(closed)])
    assert "Permission denied" in page.problems[0].reason
    assert listed().problems == []


def test_a_database_of_another_version_is_said() -> None:
    folder = talk.person() / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    import sqlite3

    con = sqlite3.connect(folder / "opencode.db")
    con.execute("CREATE TABLE of_the_future (id)")
    con.commit()
    con.close()
    page = listed("opencode")
    assert (page.total, len(page.problems)) == (0, 1)
    assert "may be newer than this version of Coffer" in page.problems[0].reason


def test_a_name_that_is_no_utf8_is_listed_all_the_same() -> None:
    path = talk.claude("/work/app", "Prompt")
    odd = os.fsencode(path.parent) + b"/caf\xe9.jsonl"
    os.rename(path, odd)
    (session,) = listed().sessions
    assert session.source.place.endswith("/caf\\udce9.jsonl")
    assert catalogue.sources(homes.of("claude_code"))[session.source.place].place.encode("utf-8", "surrogateescape")


def test_secrets_are_neither_shown_in_titles_nor_kept_anywhere() -> None:
    secret = "ghp_" + "a1B2" * 9
    near = "x" * 60  # so that the title ends within the secret
    talk.claude("/work/app", f"{near} {secret}", "done", session=identity(1))
    talk.claude("/work/app", "Prompt", session=identity(2), title=f"Use {secret}")
    talk.codex("/work/app", f"Token {secret}")
    (talk.person() / ".codex" / "session_index.jsonl").write_text(
        json.dumps({"id": identity(2), "thread_name": f"All about {secret}"}) + "\n"
    )
    listed()
    listed("codex")
    assert set(titles()) == {f"{near} [github-token remov", "Use [github-token removed]"}
    connection.close()
    for path in paths.home().rglob("*"):
        assert not path.is_file() or secret[:14].encode() not in path.read_bytes()


def test_agents_live_where_their_rows_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    monkeypatch.setenv("CODEX_HOME", str(moved))
    path = talk.codex("/work/app", "Prompt")
    (talk.person() / ".codex").rename(moved)
    assert listed("codex").total == 1
    monkeypatch.delenv("CODEX_HOME")
    from coffer import later

    later.flush()
    assert listed("codex").total == 1, "the folder was learnt with the agent"
    assert not path.exists()


def test_what_is_not_read_says_why_and_nobody_s_sessions_are_an_error() -> None:
    with pytest.raises(UnsupportedAgentType, match="no working directory"):
        listed("cursor")
    with pytest.raises(UnsupportedAgentType):
        listed("nobody")
    with pytest.raises(NotFound, match=r"has no session '../../x'") as caught:
        listing.find(homes.of("claude_code"), "../../x")
    assert caught.value.code == "TRANSCRIPT_SESSION_NOT_FOUND"
    assert "cursor" not in [home.agent for home in homes.everywhere()]


def test_opencode_is_listed_from_all_its_stores() -> None:
    folder = talk.person() / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    import shutil

    shutil.copytree(SAMPLES / "opencode" / "gen-json-1.1.65" / "storage", folder / "storage")
    total = listed("opencode").total
    assert total == KnownSession.objects.filter(agent="opencode").count() > 0


def test_a_warm_list_asks_the_database_a_few_times_whatever_its_length() -> None:
    for number in range(30):
        talk.claude("/work/app", f"Prompt {number}", session=identity(number))
    listed()
    with CaptureQueriesContext(
        connection,
    ) as asked:
        listed(q="prompt", sort="message_count", limit=5)
    assert len(asked) <= 4
