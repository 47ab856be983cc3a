"""What is indexed and what is asked for meet in the same words (FR-008, FR-032)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval import analyser


def indexed(text: str) -> list[str]:
    return analyser.index_text(text).split()


def test_plain_words_are_lower_cased_and_nothing_else() -> None:
    assert indexed("Deploy on Thursday, NEVER later.") == ["deploy", "on", "thursday", "never", "later"]


def test_a_compound_is_found_whole_and_by_its_parts() -> None:
    assert indexed("src/api/generated.ts") == ["src/api/generated.ts", "src", "api", "generated.ts", "generated", "ts"]
    assert indexed("idx_uid_status") == ["idx_uid_status", "idx", "uid", "status"]


def test_camel_case_is_taken_apart() -> None:
    assert indexed("computeInvoiceTotal()") == ["computeinvoicetotal", "compute", "invoice", "total"]
    assert indexed("HTTPServer") == ["httpserver", "http", "server"]


def test_a_version_is_found_whole_and_by_its_beginning_but_not_by_its_digits() -> None:
    assert indexed("v3.40.1") == ["v3.40.1", "3.40.1", "3.40"]


def test_signs_that_belong_to_a_name_stay_with_it() -> None:
    for name in ("--force", "#432", ".env", "@pytest.mark.slow", "c++", "c#", "std::vector"):
        assert name in indexed(f"see {name}: it matters"), name


def test_quotes_and_sentence_marks_do_not_stay_with_a_word() -> None:
    assert indexed("'hello' (world). so... it's") == ["hello", "world", "so", "it's", "it"]
    assert indexed("it\u2019s") == indexed("it's")


def test_chinese_is_cut_into_pairs_and_its_last_character_stands_alone() -> None:
    assert indexed("数据库pool_wait指标") == ["数据", "据库", "库", "pool_wait", "pool", "wait", "指标", "标"]
    assert analyser.query_terms("数据库") == ("数据", "据库")
    assert analyser.query_terms("库") == ("库",)


def test_kana_and_hangul_are_cut_like_chinese() -> None:
    assert analyser.query_terms("キャッシュ 데이터") == ("キャ", "ャッ", "ッシ", "シュ", "데이", "이터")


def test_full_width_and_decomposed_letters_are_the_plain_ones() -> None:
    assert indexed("ＡＰＩ") == ["api"]
    assert indexed("U\u0308berblick") == indexed("\u00dcberblick") == ["überblick"]


def test_a_query_drops_stop_words_unless_there_is_nothing_else() -> None:
    assert analyser.query_terms("how do I reset the cache?") == ("reset", "cache")
    assert analyser.query_terms("what is it") == ("what", "is", "it")


@pytest.mark.parametrize("text", ["", "  ", "?", "…", "🎉", "\x00", "\ud800", "-- ... ::", "_"])
def test_a_text_without_words_gives_none(text: str) -> None:
    assert analyser.index_text(text) == ""
    assert analyser.query_terms(text) == ()


@pytest.mark.parametrize(
    "text",
    ["a " * 20_000, "x" * 100_000, "字" * 100_000, "a/B" * 33_000, "Ab" * 50_000, "." * 100_000, "'" * 99_999 + "a"],
)
def test_no_text_makes_a_query_long_or_slow(text: str) -> None:
    started = time.perf_counter()
    terms = analyser.query_terms(text)
    assert time.perf_counter() - started < 1
    assert len(terms) <= analyser.MAX_QUERY_TERMS
    assert all(len(term) <= analyser.MAX_TERM_CHARS for term in terms)


def test_an_over_long_word_still_finds_itself() -> None:
    word = "0123456789abcdef" * 20
    assert set(analyser.query_terms(word)) & set(indexed(f"hash {word} end"))


@given(st.text())
def test_every_word_of_a_query_is_one_under_which_the_same_text_is_indexed(text: str) -> None:
    assert set(analyser.query_terms(text)) <= set(indexed(text))


@given(st.text())
def test_words_never_hold_what_full_text_queries_or_utf8_cannot(text: str) -> None:
    words = analyser.index_text(text)
    words.encode()
    assert not set(words) & set('"\x00*()^{}')
