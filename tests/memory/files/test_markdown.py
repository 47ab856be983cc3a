import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memory.files import blocks, markdown
from memory.files.markdown import first_sentence, parse, replace

Case = Callable[[str], Path]

# Anything a JSON string can carry: lone surrogates, controls and separators included.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)
KEYS = st.text(min_size=1, max_size=30)
VALUES = st.recursive(
    st.text(max_size=60),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=8,
)
META = st.dictionaries(KEYS, VALUES, max_size=6)


def block_of(data: bytes) -> str:
    return blocks.HANDLER.split(markdown.decode(data)[0])[0]


def fences(data: bytes) -> int:
    return sum(line.rstrip() == "---" for line in markdown.decode(data)[0].split("\n"))


# --- reading ---------------------------------------------------------------------------------------------------------


def test_bc_004_bytes_that_are_no_utf_8_are_shown_as_replacement_characters() -> None:
    page = parse(b"---\ntitle: caf\xe9\n---\nmenu du caf\xe9 okapi\n")
    assert page.meta["title"] == "caf\ufffd"
    assert page.body == "menu du caf\ufffd okapi"
    assert page.problems == ("line 2: not valid UTF-8; what could not be read is shown as \ufffd",)


def test_bc_014_a_title_with_an_unquoted_colon_is_read_and_reported(case: Case) -> None:
    data = (case("BC-014") / "colon.md").read_bytes()
    page = parse(data)
    assert markdown.title_of(page, "colon") == "Deploy: never push tags by hand"
    assert page.meta["description"] == "short"
    assert page.body == "The quokka rule: use make release."
    assert page.raw_block == "title: Deploy: never push tags by hand\ndescription: short\n"
    assert len(page.problems) == 1
    assert page.problems[0].startswith("line 2: ")


WORDS = {
    "winpath": "aardvark", "dqwin": "badger", "italic": "capybara", "wiki": "dormouse", "at": "echidna",
    "percent": "ferret", "tab": "gibbon", "unclosed": "impala", "customtag": "hyrax", "good": "jackal",
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_bc_015_every_broken_block_leaves_its_body_and_one_problem(case: Case, name: str) -> None:
    page = parse((case("BC-015") / f"{name}.md").read_bytes())
    assert WORDS[name] in page.body
    assert len(page.problems) == (0 if name == "good" else 1)
    assert all(problem.startswith("line ") for problem in page.problems)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("italic", "*Italic*"),
        ("at", "@scope/pkg"),
        ("percent", "%d items"),
        ("customtag", "!secret x"),
        ("wiki", "wiki"),
    ],
)
def test_bc_015_titles_are_read_as_well_as_they_can_be(case: Case, name: str, title: str) -> None:
    assert markdown.title_of(parse((case("BC-015") / f"{name}.md").read_bytes()), name) == title


def test_bc_015_the_sound_keys_of_a_broken_block_keep_their_structure() -> None:
    page = parse(b"---\ntitle: a: b\nmetadata:\n  actor: agent\ntags:\n- x\n- y\n# note\n---\nbody")
    assert page.meta == {"title": "a: b", "metadata": {"actor": "agent"}, "tags": ["x", "y"]}


TITLES = {
    "t01": "2026-10-24", "t02": "on", "t03": "1.10", "t04": "0123", "t05": "12:30:45", "t06": "1e3", "t07": "t07",
    "t08": "t08", "t09": "t09", "t10": "t10", "t11": "2026-10-24T10:00:00+02:00", "t12": ".inf", "t13": "thirteen",
    "t14": "fourteen",
}  # fmt: skip


@pytest.mark.parametrize("name", TITLES)
def test_bc_020_a_title_is_the_string_as_written_or_the_stem(case: Case, name: str) -> None:
    page = parse((case("BC-020") / f"{name}.md").read_bytes())
    assert markdown.title_of(page, name) == TITLES[name]
    assert page.problems == ()
    json.dumps(page.meta, allow_nan=False)


def test_bc_020_a_number_in_the_description_and_text_for_a_mapping_stay_strings(case: Case) -> None:
    assert parse((case("BC-020") / "t13.md").read_bytes()).meta["description"] == "42"
    assert parse((case("BC-020") / "t14.md").read_bytes()).meta["metadata"] == "text"


def test_a_quoted_null_is_a_title_and_a_plain_one_is_none() -> None:
    assert markdown.title_of(parse(b'---\ntitle: "null"\n---\nx'), "stem") == "null"
    assert markdown.title_of(parse(b"---\ntitle: null\n---\nx"), "stem") == "stem"
    assert parse(b"---\ntitle: ~\nmore: {a: ~, b: 1}\n---\nx").meta == {"more": {"b": "1"}}


def test_bc_023_a_byte_order_mark_does_not_hide_the_block() -> None:
    page = parse(b"\xef\xbb\xbf---\ntitle: Bom title\n---\nbody okapi\n")
    assert (page.meta, page.body, page.problems) == ({"title": "Bom title"}, "body okapi", ())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_utf_16_file_is_read(encoding: str) -> None:
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    page = parse(mark + "---\ntitle: Wide\n---\nokapi ü\n".encode(encoding))
    assert (page.meta, page.body) == ({"title": "Wide"}, "okapi ü")
    assert "UTF-16" in page.problems[0]


@pytest.mark.parametrize(("name", "title"), [("crlf", "crlf title"), ("mixed", "mixed title"), ("cr-only", "cr title")])
def test_bc_025_every_line_end_is_read(case: Case, name: str, title: str) -> None:
    page = parse((case("BC-025") / f"{name}.md").read_bytes())
    assert page.meta == {"title": title}
    assert "\r" not in page.body
    assert page.problems == ()


def test_nul_characters_are_left_out_and_reported() -> None:
    page = parse(b"a\nb\x00c\n")
    assert page.body == "a\nbc"
    assert page.problems == ("line 2: NUL characters are left out",)


GREEK = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


def test_bc_018_no_word_of_a_dropped_text_is_lost(case: Case) -> None:
    for text in json.loads((case("BC-018") / "texts.json").read_text(encoding="utf-8")):
        page = parse(text.encode())
        kept = page.body + json.dumps(page.meta)
        assert all(word in kept for word in GREEK if word in text)


@pytest.mark.parametrize(
    "text",
    [
        "---\nintro alpha\n\n---\n\nsecond part",
        "---\n- a\n- b\n---\nx",
        "---\n# Only a heading\n---\nx",
        "+++\na=1\n+++\nx",
        '{"a":1}\n\nx',
        "----\ntitle: x\n----\nbody",
        "\n---\ntitle: x\n---\nbody",
        "---\nSome prose: with a colon: twice\nand a second line of it\n---\nbody",
        "---",
        "---\n",
        "",
    ],
)
def test_bc_018_text_that_is_no_block_is_all_body(text: str) -> None:
    page = parse(text.encode())
    assert page.meta == {}
    assert page.body == text.removesuffix("\n")


def test_a_rule_on_top_is_no_unclosed_block() -> None:
    assert parse(b"---\nintro\n").problems == ()
    assert parse(b"---\nintro: x\n").problems != ()


def test_a_key_written_twice_is_reported_and_the_last_counts() -> None:
    page = parse(b"---\ntitle: a\ntitle: b\n---\nx")
    assert page.meta == {"title": "b"}
    assert page.problems[0].startswith("line 3: ")


@pytest.mark.parametrize(
    "block",
    [
        "a: &x [*x]",
        "a: &a [1,2]\nb: &b [*a,*a]\nc: [*b,*b]",
        "a: " + "[" * 50_000,
        "a: " + "{b: " * 900 + "}" * 900,
        "\n".join(" " * depth + "a:" for depth in range(990)),
        "? [a, b]\n: c",
        "a: \x07",
        "a: b\n...\nc: d",
    ],
)
def test_a_hostile_block_is_read_without_harm(block: str) -> None:
    page = parse(f"---\n{block}\n---\nbody".encode())
    assert page.body.endswith("body")
    assert len(json.dumps(page.meta)) < 200_000


@given(st.binary(max_size=400))
def test_any_bytes_can_be_read(data: bytes) -> None:
    page = parse(data)
    assert "\r" not in page.body
    (page.body + json.dumps(page.meta)).encode()


@given(st.text(alphabet="-\n: a#'\"[{&*!|>?\t\r\ufeff", max_size=60))
def test_anything_near_a_block_can_be_read_and_rewritten(text: str) -> None:
    data = text.encode()
    page = parse(data)
    again = parse(replace(data, {}, page.body))
    assert (again.body, again.meta) == (page.body, page.meta)


# --- writing ---------------------------------------------------------------------------------------------------------


def test_a_new_file_has_one_block_a_blank_line_and_the_body() -> None:
    meta = {
        "id": "X",
        "title": "Re: deploy",
        "metadata": {"actor": "agent", "origin_session_id": "s-1"},
        "tags": ["a", "b c"],
    }
    assert markdown.dump(meta, "body") == (
        b'---\nid: X\ntitle: "Re: deploy"\nmetadata:\n  actor: agent\n  origin_session_id: s-1\n'
        b'tags: [a, "b c"]\n---\n\nbody\n'
    )


def test_bc_018_texts_come_back_exactly_as_they_were_sent(case: Case) -> None:
    for text in json.loads((case("BC-018") / "texts.json").read_text(encoding="utf-8")):
        page = parse(markdown.dump({"title": "t", "metadata": {"actor": "agent"}}, text))
        assert page.body == text
        assert page.meta == {"title": "t", "metadata": {"actor": "agent"}}
        assert parse(markdown.dump({}, text)).body == text


def test_bc_022_an_independent_parser_reads_the_products_title(case: Case) -> None:
    for text in (case("BC-022") / "titles.txt").read_text(encoding="utf-8").splitlines():
        title = first_sentence(text)
        data = markdown.dump({"title": title}, text)
        assert yaml.safe_load(block_of(data)) == {"title": title}
        page = parse(data)
        assert (markdown.title_of(page, "stem"), page.body) == (title, text)


@pytest.mark.parametrize(
    "value",
    [
        "1e3", "on", "NO", "y", "null", "~", "", " ", "a ", " a", "a: b", "a #b", "a:", "#a", "- a", "0x1F", "0o17",
        "1_000", "12:30:45", "2026-11-30", ".inf", ".nan", "NaN", "Infinity", "=", "<<", "a\nb", "a\r\nb", "\t",
        "\u2028", "\u0085", "\x7f", "\x1b[31m", "\ufeff", "🎉", "C:\\new\\table", '"', "'", "%", "@", "`", "|", ">",
        "!", "&", "*", "?", "[", "{", "---", "...", "\ufffe", "é", "a" * 5000, "word " * 500, "\xa0",
    ],
)  # fmt: skip
def test_every_scalar_reads_back_as_the_same_string(value: str) -> None:
    data = markdown.dump({"title": value, "more": {"a": [value]}}, "x")
    block = block_of(data)
    assert yaml.safe_load(block) == {"title": value, "more": {"a": [value]}}
    assert yaml.load(block, Loader=yaml.SafeLoader) == yaml.load(block, Loader=yaml.CSafeLoader)
    assert parse(data).meta == {"title": value, "more": {"a": [value]}}


@given(META, st.text(max_size=200))
def test_what_is_written_is_read_back(meta: dict[str, object], body: str) -> None:
    expected = markdown.clean(body).replace("\r\n", "\n").replace("\r", "\n")
    data = markdown.dump(meta, body)
    page = parse(data)
    assert page.body == expected
    assert page.problems == ()
    cleaned = json.loads(json.dumps(meta).replace("\\u0000", ""))
    if len(cleaned) == len(meta):
        assert page.meta == cleaned
        assert list(page.meta) == list(cleaned)
        assert yaml.safe_load(block_of(data)) == cleaned if meta else True


@given(ANY_TEXT, ANY_TEXT)
def test_bc_002_anything_can_be_stored(title: str, body: str) -> None:
    page = parse(markdown.dump({"title": title}, body))
    assert page.meta == {"title": markdown.clean(title)}
    assert page.problems == ()


def test_bc_002_a_lone_half_becomes_a_replacement_character_and_a_pair_is_joined() -> None:
    assert markdown.clean("half \ud83d end") == "half \ufffd end"
    assert markdown.clean("\udf89x\ud83c") == "\ufffdx\ufffd"
    assert markdown.clean("pair \ud83c\udf89 end") == "pair 🎉 end"
    assert markdown.clean("nul\0 ") == "nul "


def test_frontmatter_holds_no_values_that_yaml_would_type() -> None:
    assert markdown.dump({"a": None, "b": True, "c": 3, "d": {}, "e": []}, "x").startswith(
        b"---\na: null\nb: true\nc: 3\nd: {}\ne: []\n---\n"
    )
    with pytest.raises(TypeError):
        markdown.dump({"a": 1.5}, "x")


# --- rewriting -------------------------------------------------------------------------------------------------------


def test_only_the_lines_of_a_changed_key_change() -> None:
    data = b"---\n# mine\ntitle:   old   # why\n\n# tags\ntags:\n  - a\nodd: 'x'\n---\nbody\n"
    changed = replace(data, {"title": "new: one", "updated_at": "now"})
    assert changed == (
        b"---\n# mine\ntitle: \"new: one\"\n\n# tags\ntags:\n  - a\nodd: 'x'\nupdated_at: now\n---\nbody\n"
    )


def test_an_update_of_none_takes_the_key_out() -> None:
    assert replace(b"---\na: 1\nb:\n  c: 2\nd: 3\n---\nx\n", {"b": None}) == b"---\na: 1\nd: 3\n---\nx\n"


def test_without_a_change_every_byte_stays() -> None:
    for data in (
        b"---\r\na: 1 # x\r\n---  \r\n\r\n\r\nx\r\n\r\n",
        b"\xef\xbb\xbf---\na: ~\n---\n",
        b"plain\n",
        b"---\na: b: c\n---\nx",
    ):
        if not data.startswith(b"---\r\n"):
            assert replace(data, {}) == data
    kept = replace(b"---\r\na: 1 # x\r\n---  \r\n\r\n\r\nx\r\n\r\n", {})
    assert kept == b"---\r\na: 1 # x\r\n---\r\n\r\n\r\nx\r\n\r\n"


@pytest.mark.parametrize(
    "block",
    [
        "{title: old, keep: yes}",
        "  title: old\n  keep: yes",
        "title: older\nkeep: yes\ntitle: old",
        "? title\n: old\nkeep: yes",
    ],
)
def test_a_block_of_another_form_is_written_anew_with_all_its_keys(block: str) -> None:
    changed = replace(f"---\n{block}\n---\nx\n".encode(), {"title": "new"}, "y")
    page = parse(changed)
    assert (page.meta, page.body, page.raw_block) == ({"title": "new", "keep": "yes"}, "y", None)
    assert fences(changed) == 2


def test_bc_016_an_unreadable_block_keeps_its_bytes_and_gets_no_second_one(case: Case) -> None:
    for name in ("BC-014", "BC-016"):
        data = (case(name) / "colon.md").read_bytes()
        changed = replace(data, {"title": "x", "updated_at": "y"}, "new body")
        assert changed == data[: data.index(b"---\n", 4) + 4] + b"new body\n"
    raw = b"---\r\ntitle: caf\xe9: x\r\n---\r\nold\r\n"
    assert replace(raw, {}, "a\nb") == b"---\r\ntitle: caf\xe9: x\r\n---\r\na\r\nb\r\n"


def test_bc_016_of_two_blocks_the_first_stays_the_only_one(case: Case) -> None:
    data = (case("BC-016") / "two-blocks.md").read_bytes()
    changed = replace(data, {"title": "t"}, "new body")
    assert changed == b"---\npermalink: p/my-note\ntitle: t\n---\n\nnew body\n"
    assert parse(parse(data).body.encode()).body == "real body kestrel"


def test_a_plain_file_gains_one_block() -> None:
    assert replace(b"old\r\ntext\r\n", {"title": "t"}, "a\nb") == b"---\r\ntitle: t\r\n---\r\n\r\na\r\nb\r\n"
    assert replace(b"---\nintro\n---\nx", {"title": "t"}) == b"---\ntitle: t\n---\n\n---\nintro\n---\nx\n"
    assert replace(b"old", {}, "---\na: b\n---\nc") == b"---\n---\n\n---\na: b\n---\nc\n"


def test_bc_023_a_byte_order_mark_stays_in_front_of_the_one_block() -> None:
    changed = replace(b"\xef\xbb\xbf---\ntitle: Bom title\n---\nbody okapi\n", {"title": "New"}, "text")
    assert changed == b"\xef\xbb\xbf---\ntitle: New\n---\ntext\n"


@pytest.mark.parametrize(("name", "end"), [("crlf", b"\r\n"), ("mixed", b"\n"), ("cr-only", b"\r")])
def test_bc_025_a_rewritten_file_has_one_kind_of_line_end(case: Case, name: str, end: bytes) -> None:
    changed = replace((case("BC-025") / f"{name}.md").read_bytes(), {"title": "new"}, "one\ntwo")
    assert changed == end.join([b"---", b"title: new", b"---", b"one", b"two", b""])


def test_a_utf_16_file_is_rewritten_as_utf_8() -> None:
    assert replace("---\ntitle: ü\n---\nx\n".encode("utf-16"), {}, "y") == "---\ntitle: ü\n---\ny\n".encode()


def test_bytes_that_are_no_utf_8_stay_in_the_lines_nobody_changed() -> None:
    assert (
        replace(b"---\nold: caf\xe9\ntitle: a\n---\nx\n", {"title": "b"}, "y")
        == b"---\nold: caf\xe9\ntitle: b\n---\ny\n"
    )


@given(META, st.text(max_size=80), META, st.text(max_size=80))
def test_a_rewrite_keeps_the_other_keys(
    meta: dict[str, object], body: str, updates: dict[str, object], new: str
) -> None:
    before = parse(markdown.dump(meta, body))
    page = parse(replace(markdown.dump(meta, body), updates, new))
    assert page.meta == {**before.meta, **parse(markdown.dump(updates, "")).meta}
    assert page.body == parse(markdown.dump({}, new)).body


# --- titles and times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("We ship with make release. Tags are signed there.", "We ship with make release."),
        ("We use `make release. Never` tags. More.", "We use `make release. Never` tags."),
        ("Pin v1.2.3 of ruff, e.g. in CI. Then run it.", "Pin v1.2.3 of ruff, e.g. in CI."),
        ("Use ruff, mypy etc. before a push. Then push.", "Use ruff, mypy etc. before a push."),
        ("Keep tabs, spaces etc. Never mix.", "Keep tabs, spaces etc."),
        ("Never push. use make", "Never push."),
        ("Why? Because tags are signed.", "Why?"),
        ("# Release rule\nUse make.", "Release rule"),
        ("- first point\n- second point", "first point"),
        ("> - [ ] **do** it", "**do** it"),
        ("1. build\n2. ship", "build"),
        ("---\nintro alpha\n\n---\n\nsecond", "intro alpha"),
        ("***\nx zeta", "x zeta"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("<!-- note -->\nThe point", "The point"),
        ("A sentence wrapped\nover two lines. And more.", "A sentence wrapped over two lines."),
        ("用 make 发布。不要打标签。", "用 make 发布。"),
        ("「終わり。」次", "「終わり。」"),
        ("wait... then go. Now", "wait... then go."),
        ("  spaced \t out  ", "spaced out"),
        ("#hash", "#hash"),
        ("C:\\Users\\dev", "C:\\Users\\dev"),
        ("---", "---"),
        ("🎉", "🎉"),
        ("", ""),
    ],
)
def test_a_title_is_the_first_sentence(text: str, title: str) -> None:
    assert first_sentence(text) == title


def test_a_long_title_is_cut_between_words() -> None:
    title = first_sentence("never push tags by hand, " * 20)
    assert len(title) <= 100
    assert title.endswith(("never…", "push…", "tags…", "by…", "hand…"))
    assert first_sentence("好" * 150) == "好" * 99 + "…"
    assert first_sentence("e\u0301" * 90)[-2:] == "\u0301…"
    assert first_sentence("x" * 100) == "x" * 100


@given(st.text(max_size=400), st.integers(10, 100))
def test_a_title_is_one_line_within_its_limit(text: str, limit: int) -> None:
    title = first_sentence(text, limit)
    assert len(title) <= limit
    assert len(title.splitlines()) <= 1
    assert bool(title) == bool(text.strip())


def test_a_title_over_several_lines_is_shown_in_one() -> None:
    assert markdown.title_of(parse(b"---\ntitle: |\n  a\n  b\n---\nx"), "s") == "a b"
    assert markdown.title_of(parse(b"---\ntitle: '  '\n---\nx"), "s") == "s"


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2026-11-30T10:00:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30T10:00:00+02:00", datetime(2026, 11, 30, 8, tzinfo=UTC)),
        ("2026-11-30 10:00:00.123456789+0000", datetime(2026, 11, 30, 10, 0, 0, 123456, tzinfo=UTC)),
        ("2026-11-30T10:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30T10:00:00", None),
        ("2026-11-30", None),
        ("2026-02-31T10:00:00Z", None),
        ("0001-01-01T00:00:00+09:00", None),
        ("20261130T100000Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_time_with_a_zone_is_a_time(value: str | None, moment: datetime | None) -> None:
    assert markdown.timestamp(value) == moment


def test_a_stamp_is_utc_and_ends_in_z() -> None:
    assert markdown.stamp(datetime(2026, 11, 30, 12, 0, 0, 5, timezone(timedelta(hours=2)))) == "2026-11-30T10:00:00Z"
    with pytest.raises(ValueError, match="zone"):
        markdown.stamp(datetime(2026, 11, 30))
