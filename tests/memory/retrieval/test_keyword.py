"""Full-text search finds what people type, whatever they type (FR-008, FR-032)."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.retrieval import glossary, keyword

FACTS = {
    1: "don't use agents in CI",
    2: "Downloads/transcripts is the folder",
    3: "ubuntu 20.04 image",
    4: "flag --error-on-warnings",
    5: "grammar::fa and std::vector",
    6: "C++ and C# notes",
    7: "call foo(bar) then baz",
    8: "mail dev@example.org",
    9: "50% done in $HOME/.coffer",
    10: r"path C:\Users\dev\app",
    11: "user_id=42; limit=10",
    12: "#432 was closed, see PR !17",
    13: "[tool.ruff] line-length = 100",
    14: "数据库连接池最大是 50",
    15: "the migration needs a database lock",
}


@pytest.fixture
def con() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        keyword.create(connection)
        keyword.add(connection, [(rowid, "s1", "", text, "") for rowid, text in FACTS.items()])
        yield connection


def found(con: sqlite3.Connection, text: str, *scopes: str, limit: int = 5) -> list[int]:
    return [rowid for rowid, _ in keyword.search(con, keyword.parse(text), scopes or ("s1",), limit)]


@pytest.mark.parametrize(
    ("text", "rowid"),
    [
        ("don't use agents", 1),
        ("Downloads/transcripts", 2),
        ("ubuntu 20.04", 3),
        ("--error-on-warnings", 4),
        ("std::vector", 5),
        ("C++", 6),
        ("C#", 6),
        ("foo(bar)", 7),
        ("dev@example.org", 8),
        ("50% AND NOT", 9),
        ("$HOME/.coffer", 9),
        (r"C:\Users\dev", 10),
        ("user_id=42;", 11),
        ("PR !17", 12),
        ("#432", 12),
        ("[tool.ruff]", 13),
        ("连接池", 14),
        ("池", 14),
    ],
)
def test_everyday_queries_find_their_fact_first(con: sqlite3.Connection, text: str, rowid: int) -> None:
    assert found(con, text)[:1] == [rowid]


@pytest.mark.parametrize(
    "text", ["", " ", "?", "…", "🎉", "\x00", "\ud800", "(", '"', "''", "NEAR(", "*", "{a b}:", "^", "AND"]
)
def test_no_text_is_an_error(con: sqlite3.Connection, text: str) -> None:
    assert isinstance(found(con, text), list)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_can_be_indexed_and_asked_for(con: sqlite3.Connection, text: str) -> None:
    keyword.add(con, [(99, "s9", text, text, text)])
    assert found(con, text, "s9") in ([99], [])


@pytest.mark.parametrize("text", ["a " * 20_000, "x" * 100_000, "库" * 100_000, "wrod " * 5_000, "'" * 100_000])
def test_long_queries_answer_at_once(con: sqlite3.Connection, text: str) -> None:
    started = time.perf_counter()
    found(con, text)
    assert time.perf_counter() - started < 2


def test_words_are_found_in_other_forms_of_theirs(con: sqlite3.Connection) -> None:
    assert found(con, "migrations locking")[:1] == [15]


def test_any_word_is_enough_and_more_words_rank_higher(con: sqlite3.Connection) -> None:
    keyword.add(con, [(20, "s1", "", "the cache is warm", ""), (21, "s1", "", "warm the cache before the deploy", "")])
    assert found(con, "cache deploy unheard-of")[:2] == [21, 20]


def test_title_counts_more_than_body_and_body_more_than_context(con: sqlite3.Connection) -> None:
    keyword.add(con, [(30, "s3", "x", "y", "zebra"), (31, "s3", "x", "zebra", "y"), (32, "s3", "zebra", "x", "y")])
    assert found(con, "zebra", "s3") == [32, 31, 30]


def test_scores_fall_and_a_higher_one_is_better(con: sqlite3.Connection) -> None:
    scores = [score for _, score in keyword.search(con, keyword.parse("database lock 50"), ["s1"], 10)]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0


def test_only_the_given_scopes_answer_and_their_scores_compare(con: sqlite3.Connection) -> None:
    keyword.add(con, [(40, "s2", "", "ubuntu image", ""), (41, "s12", "", "ubuntu image", "")])
    assert found(con, "ubuntu", "s2") == [40]
    assert set(found(con, "ubuntu", "s2", "s12")) == {40, 41}
    both = dict(keyword.search(con, keyword.parse("ubuntu"), ["s2", "s12"], 5))
    assert both[40] == both[41]
    assert found(con, "ubuntu", "s999") == []
    assert keyword.search(con, keyword.parse("ubuntu"), [], 5) == []


def test_the_name_of_a_scope_is_no_word_of_its_facts(con: sqlite3.Connection) -> None:
    assert found(con, "s1 +s1+ scope:s1") == []


def test_the_limit_is_kept(con: sqlite3.Connection) -> None:
    assert len(found(con, "and is the in", limit=2)) == 2
    assert found(con, "ubuntu", limit=0) == []


def test_removed_rows_are_not_found_and_replaced_ones_only_by_their_new_text(con: sqlite3.Connection) -> None:
    keyword.remove(con, [3, 777])
    assert found(con, "ubuntu") == []
    keyword.add(con, [(5, "s1", "", "rust borrow checker", "")])
    assert found(con, "std::vector") == []
    assert found(con, "borrow") == [5]
    assert keyword.count(con) == len(FACTS) - 1
    keyword.check(con)


def test_after_optimize_and_vacuum_the_file_holds_no_word_of_a_removed_row(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    with closing(sqlite3.connect(path)) as con:
        keyword.create(con)
        keyword.add(con, [(number, "s1", "", f"filler {number}", "") for number in range(500)])
        keyword.add(con, [(1_000, "s1", "", "hunter2secret", "")])
        con.commit()
        keyword.remove(con, [1_000])
        keyword.optimize(con)
        con.commit()
        con.execute("VACUUM")
    assert b"hunter2secret" not in path.read_bytes()


def test_a_damaged_index_does_not_pass_the_check(con: sqlite3.Connection) -> None:
    con.execute("UPDATE memory_fts_content SET c2 = 'something else' WHERE id = 1")
    with pytest.raises(sqlite3.DatabaseError):
        keyword.check(con)


def test_create_twice_keeps_the_rows_and_drop_forgets_them(con: sqlite3.Connection) -> None:
    keyword.create(con)
    assert found(con, "ubuntu") == [3]
    keyword.drop(con)
    keyword.drop(con)
    keyword.create(con)
    assert found(con, "ubuntu") == []


@pytest.mark.parametrize("slip", ["migraton", "migrattion", "migratiom", "imgration", "migratoin"])
def test_one_slip_in_a_word_is_forgiven(con: sqlite3.Connection, slip: str) -> None:
    assert found(con, slip) == [15]


def test_what_is_looked_for_is_told_in_words_the_guessed_ones_apart(con: sqlite3.Connection) -> None:
    def told(text: str, *scopes: str) -> tuple[list[str], list[str]]:
        reading = keyword.read(con, keyword.parse(text), scopes)
        return reading.likeliest, list(reading.translations)

    assert told("the migration nowhere", "s1") == (["migration"], [])
    assert told("migraton", "s1") == (["migration"], [])
    asked, guessed = told("数据库", "s1")
    assert asked == ["数据", "据库"]
    assert "database" in guessed
    assert told("池", "s1")[0] == ["池"]
    assert told("migration", "s2") == told("migration") == ([], [])


def test_repairs_come_from_the_searched_scopes_only(con: sqlite3.Connection) -> None:
    keyword.add(con, [(50, "s2", "", "the migrator", ""), (51, "s5", "", "migratory birds", "")])
    assert found(con, "migratorx", "s2") == [50]
    assert found(con, "ubunut", "s2") == []


def test_numbers_and_short_words_are_not_repaired(con: sqlite3.Connection) -> None:
    assert found(con, "20.05") == []
    assert found(con, "#433") == []
    assert found(con, "bax") == []


def test_what_was_asked_beats_what_was_guessed(con: sqlite3.Connection) -> None:
    keyword.add(con, [(60, "s6", "", "清理 cache", ""), (61, "s6", "", "清理 缓存", "")])
    assert found(con, "缓存", "s6") == [61, 60]
    assert found(con, "cache", "s6") == [60, 61]


def test_a_question_in_one_language_finds_a_note_in_the_other(con: sqlite3.Connection) -> None:
    assert found(con, "数据库迁移")[0] in (14, 15)
    assert 15 in found(con, "迁移为什么需要锁")
    assert 14 in found(con, "connection pool size")


def test_the_longest_glossary_entry_wins_and_an_empty_one_hides_its_parts() -> None:
    known = glossary.parse("# comment\n死锁:deadlock\n锁:lock\n进行:\n行:line\n")
    assert glossary._english_of("死锁进行", known) == ["deadlock"]
    assert glossary._english_of("锁", known) == ["lock"]
    assert known.chinese == {"deadlock": ("死锁",)}


def test_the_glossary_is_well_formed() -> None:
    known = glossary._glossary()
    assert len(known.english) > 500
    for source, targets in known.english.items():
        assert not source.isascii()
        assert all(target.isascii() and target == target.lower() and " " not in target for target in targets), source


def test_searching_stays_fast_among_ten_thousand_facts() -> None:
    words = [
        f"{head}{tail}" for head in "bcdfghklmnprst" for tail in ("aba", "ector", "ilon", "orus", "umber", "ystem")
    ]
    with closing(sqlite3.connect(":memory:")) as con:
        keyword.create(con)
        started = time.perf_counter()
        texts = [" ".join(words[number * step % len(words)] for step in range(1, 25)) for number in range(10_000)]
        keyword.add(con, [(number, "s1", f"fact {number}", text, "") for number, text in enumerate(texts)])
        assert time.perf_counter() - started < 10
        started = time.perf_counter()
        for number in range(20):
            assert found(con, f"{words[number]} fact {number}")
        assert (time.perf_counter() - started) / 20 < 0.2
