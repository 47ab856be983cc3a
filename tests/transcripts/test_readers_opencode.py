"""OpenCode: three stores that may all be there, and a database that another program holds open."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transcripts.opencode_store import AT, OPENCODE, V2, Store, source, tree
from transcripts.readers import Unreadable


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.db.close()


def test_a_database_that_is_being_written_is_read_beside_its_log(store: Store) -> None:
    store.session("s")
    store.say("s", "user", "question")
    before = source(store.home)
    data = [path.read_bytes() for path in (store.path, store.path.with_name("opencode.db-wal"))]
    assert store.listed()["s"].message_count == 1
    assert [path.read_bytes() for path in (store.path, store.path.with_name("opencode.db-wal"))] == data
    store.say("s", "assistant", "answer")
    after = source(store.home)
    assert (before.size, before.mtime_ns) != (after.size, after.mtime_ns)
    assert store.listed()["s"].message_count == 2


def test_a_database_that_is_closed_is_read_without_a_trace(store: Store) -> None:
    store.session("s")
    store.say("s", "user", "question")
    store.db.close()
    names = sorted(path.name for path in store.folder.iterdir())
    assert names == ["opencode.db"]
    temporary = set(Path(tempfile.gettempdir()).glob("coffer-*/copy.db"))
    assert store.texts("s") == ["question"]
    assert sorted(path.name for path in store.folder.iterdir()) == names
    assert set(Path(tempfile.gettempdir()).glob("coffer-*/copy.db")) <= temporary


def test_a_log_that_a_crash_left_is_read_too(store: Store, tmp_path: Path) -> None:
    store.session("s")
    store.say("s", "user", "only in the log")
    other = tmp_path / "other"
    folder = other / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    for name in ("opencode.db", "opencode.db-wal"):
        shutil.copy(store.folder / name, folder / name)
    names = sorted(path.name for path in folder.iterdir())
    assert [turn.text for turn in OPENCODE.turns(source(other), "s")] == ["only in the log"]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_only_what_was_said_is_read(store: Store) -> None:
    store.session("s")
    store.say("s", "user", {"type": "text", "text": "CANARY", "synthetic": True}, "question")
    store.say("s", "user", {"type": "text", "text": "CANARY", "ignored": True}, {"type": "file", "url": "text"})
    store.say(
        "s", "assistant", {"type": "reasoning", "text": "CANARY"}, "one",
        {"type": "tool", "state": {"output": '"text" CANARY'}}, "two",
    )  # fmt: skip
    store.say("s", "user", {"type": "compaction", "auto": False})
    store.say("s", "assistant", "CANARY summary", summary=True, mode="compaction")
    store.say("s", "assistant", " \n")
    assert store.texts("s") == ["question", "one\n\ntwo"]
    assert store.listed()["s"].message_count == 2


def test_damaged_pieces_are_counted_and_the_rest_is_read(store: Store) -> None:
    store.session("s")
    store.say("s", "user", "question")
    store.db.execute("INSERT INTO message VALUES ('msg_x', 's', 1, 1, '{\"role\"')")
    store.db.execute("INSERT INTO part VALUES ('prt_x', 'msg_0001', CAST(x'7b2274657874223aff' AS TEXT))")
    store.db.execute("INSERT INTO part VALUES ('prt_y', 'msg_0001', 'not json \"text\"')")
    store.db.execute("INSERT INTO session VALUES (x'00ff', NULL, 5, 6, 'x', 'y')")
    found = store.listed()["s"]
    assert (found.message_count, found.unread) == (1, 3)
    assert found.notes == ("3 pieces are damaged or too long: passed over",)


def test_a_session_that_called_in_another_is_its_parent(store: Store) -> None:
    store.session("main")
    store.session("part", parent_id="main")
    found = store.listed()
    assert (found["part"].parent, found["part"].subagent) == ("main", True)
    assert (found["main"].parent, found["main"].subagent) == (None, False)


def test_copied_turns_of_a_fork_have_equal_ids(store: Store) -> None:
    for session in ("first", "fork"):
        store.session(session)
        store.say(session, "user", "question")
        store.say(session, "assistant", "answer")
    first, fork = (list(OPENCODE.turns(source(store.home), session)) for session in ("first", "fork"))
    assert [turn.uid for turn in first] == [turn.uid for turn in fork]


def test_tables_of_version_2_win_over_those_of_version_1(store: Store) -> None:
    store.session("both")
    store.say("both", "user", "question")
    store.session("old")
    store.say("old", "user", "older")
    store.db.executescript(V2)
    rows = [("both", None, None), ("forked", None, "both"), ("part", "both", None)]
    for row in rows:
        store.db.execute("INSERT INTO session_v2 VALUES (?, ?, ?, '/work/app', NULL, ?, ?)", (*row, AT, AT))
    messages: list[tuple[str, Any]] = [
        ("user", {"text": "question"}), ("system", {"text": "CANARY"}), ("synthetic", {"text": "CANARY"}),
        ("assistant", {"content": [{"type": "tool", "text": "CANARY"}, {"type": "text", "text": "answer"}]}),
        ("idle", {"text": "CANARY"}), ("user", {"text": "again"}),
    ]  # fmt: skip
    for number, (kind, data) in enumerate(messages):
        row2 = (f"m{number}", "both", kind, number, AT, json.dumps(data))
        store.db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row2)
    found = store.listed()
    assert {identity: session.message_count for identity, session in found.items()} == {
        "both": 3, "forked": 0, "part": 0, "old": 1,
    }  # fmt: skip
    assert store.texts("both") == ["question", "answer", "again"]
    assert store.texts("old") == ["older"]
    assert (found["both"].title, found["both"].first_prompt) == (None, "question")
    assert [(found[name].parent, found[name].subagent) for name in ("forked", "part")] == [
        ("both", False), ("both", True),
    ]  # fmt: skip


def test_a_database_wins_over_the_tree_that_it_was_made_from(store: Store) -> None:
    tree(store.home)
    migrated = "ses_dd3308414ffeXQXqW2Q4tNTgbr"
    store.session(migrated, title="in the database")
    store.session("new")
    found = store.listed()
    assert len(found) == 4
    assert found[migrated].title == "in the database"
    assert found["ses_dd3305995ffeRPNEbIQ0IRJBvq"].source_path.endswith("storage")


def test_a_database_that_cannot_be_read_hides_nothing_of_the_tree(tmp_path: Path) -> None:
    folder = tree(tmp_path).parent
    (folder / "opencode.db").write_bytes(b"not a database, by all means" * 10)
    database, files = OPENCODE.sources(tmp_path, {})
    with pytest.raises(Unreadable, match="cannot be read"):
        OPENCODE.sessions(database)
    assert len(OPENCODE.sessions(files)) == 3


def test_a_database_of_an_unknown_version_is_said(tmp_path: Path) -> None:
    store = Store(tmp_path, "create table session_v9 (id text);")
    with pytest.raises(Unreadable, match="none of the tables of OpenCode"):
        store.listed()
    store.db.close()
    store.path.write_bytes(b"")
    assert store.listed() == {}


def test_where_its_data_lie_can_be_moved(tmp_path: Path) -> None:
    assert list(OPENCODE.sources(tmp_path, {})) == []
    store = Store(tmp_path, name="opencode-dev.db")
    elsewhere = tmp_path / "elsewhere.db"
    shutil.copy(store.path, elsewhere)
    moved = {"XDG_DATA_HOME": str(tmp_path / ".local" / "share"), "OPENCODE_DB": str(elsewhere)}
    assert [found.path for found in OPENCODE.sources(tmp_path / "nobody", moved)] == [elsewhere, store.path]
    store.db.close()


def test_a_second_look_reads_only_the_sessions_that_went_on(store: Store) -> None:
    for session in ("a", "b"):
        store.session(session)
        store.say(session, "user", f"question of {session}")
    found, state = OPENCODE.resume(source(store.home))
    # Changed without a trace in what is compared, so that a second reading would show it.
    store.db.execute("UPDATE part SET data = json_set(data, '$.text', 'changed')")
    store.say("b", "assistant", "answer")
    again, _ = OPENCODE.resume(source(store.home), json.loads(json.dumps(state)))
    assert [(session.first_prompt, session.message_count) for session in again] == [
        ("question of a", 1), ("changed", 2),
    ]  # fmt: skip
    assert again[0].mtime_ns == source(store.home).mtime_ns
    assert len(found) == 2


def test_the_tree_is_read_again_when_a_message_was_added(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    before = source(tmp_path)
    found, state = OPENCODE.resume(before)
    identity = "ses_dd3306735ffezEm9opCEtWDLhq"
    message = {"role": "user", "time": {"created": AT * 2}}
    (folder / "message" / identity / "msg_z.json").write_text(json.dumps(message), encoding="utf-8")
    (folder / "part" / "msg_z").mkdir()
    part = {"type": "text", "text": "one more"}
    (folder / "part" / "msg_z" / "prt_z.json").write_text(json.dumps(part), encoding="utf-8")
    after = source(tmp_path)
    assert after.size > before.size
    again = {session.session_id: session.message_count for session in OPENCODE.resume(after, state)[0]}
    assert again == {session.session_id: session.message_count + (session.session_id == identity) for session in found}
    assert [turn.text for turn in OPENCODE.turns(after, identity)][-1] == "one more"
    assert list(OPENCODE.turns(after, "../../../etc")) == []
