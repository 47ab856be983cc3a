"""Passages: sections each, long ones in windows, and no line lost (FR-030)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.retrieval import chunking
from memory.retrieval.chunking import Passage, chunk_markdown, context

NESTED = """# Top

jerboa

````md
```js
kinkajou()
```
# still code loris
````

## Two

```text
margay
``` not a close
# still code nutria
```

## Three

    ```
    indented, no fence: olingo

## Four

~~~
```
tilde fence: fossa
~~~~

```sh
never closed quokka

## Five

raccoon

## Six
serval
"""

_MARKUP = ["# A", "## B", "###### f ##", "#", "- item", "> quote", "a | b", "--- | ---", "Title", "===", "---", "\ttab"]
_FENCES = ["```", "````py", "~~~", "``` x", "    ```"]
_WORDS = ["text", "long word " * 30, "字" * 300, "\x0b", "\u2028x", "", "", "  "]
_pieces = st.sampled_from([*_MARKUP, *_FENCES, *_WORDS])


def headings(text: str) -> list[str]:
    return [passage.heading for passage in chunk_markdown(text)]


def test_a_short_fact_is_one_passage() -> None:
    assert chunk_markdown("Use uv.\n\n- never pip\n- never conda\n") == [
        Passage("", "Use uv.\n\n- never pip\n- never conda")
    ]
    assert chunk_markdown("# Pool\n\nThe pool holds 50.") == [Passage("Pool", "# Pool\n\nThe pool holds 50.")]


def test_a_blank_text_has_no_passage() -> None:
    assert chunk_markdown("") == chunk_markdown(" \n\t\r\n") == []


def test_each_section_is_a_passage_under_the_path_of_its_headings() -> None:
    text = "# A\none\n## B\ntwo\n### C #\nthree\n## D\nfour\n# E\nfive"
    assert headings(text) == ["A", "A > B", "A > B > C", "A > D", "E"]


def test_a_heading_without_text_rides_on_the_next_section() -> None:
    assert chunk_markdown("# A\n\n## B\n\ntext") == [Passage("A > B", "# A\n\n## B\n\ntext")]


def test_underlined_titles_are_headings_and_rules_and_tables_are_not() -> None:
    assert headings("Big\n===\none\n\nSmall\n---\ntwo") == ["Big", "Big > Small"]
    assert headings("- item\n---\ntext\n\n---\n\n> q\n---\n\n|a|\n|---|\n") == [""]


def test_code_fences_follow_commonmark() -> None:
    found = {passage.heading: passage.text for passage in chunk_markdown(NESTED)}
    assert list(found) == ["Top"] + [f"Top > {name}" for name in ("Two", "Three", "Four", "Five", "Six")]
    assert "loris" in found["Top"]
    assert "nutria" in found["Top > Two"]
    assert "olingo" in found["Top > Three"]
    assert "fossa" in found["Top > Four"]


def test_a_fence_that_is_never_closed_does_not_swallow_the_sections_after_it() -> None:
    found = {passage.heading: passage.text for passage in chunk_markdown(NESTED)}
    assert "quokka" in found["Top > Four"]
    assert found["Top > Six"] == "## Six\nserval"


def test_line_ends_make_no_difference() -> None:
    assert chunk_markdown(NESTED) == chunk_markdown(NESTED.replace("\n", "\r\n")) == chunk_markdown("\ufeff" + NESTED)


def test_code_and_tables_that_fit_a_window_stay_whole() -> None:
    paragraph = "word " * 150
    code = "```\n" + "call()\n\n" * 60 + "```"
    table = "| a | b |\n| --- | --- |\n" + "| cell | cell |\n" * 40
    texts = [passage.text for passage in chunk_markdown(f"{paragraph}\n\n{code}\n\n{paragraph}\n\n{table}")]
    assert any(code in text for text in texts)
    assert any(table.strip() in text for text in texts)


def test_a_block_that_no_window_holds_is_cut_between_lines_or_words() -> None:
    lines = [f"line {number} of a long log" for number in range(200)]
    sentence = " ".join(f"word{number}" for number in range(1_000))
    passages = chunk_markdown("# Log\n```\n" + "\n".join(lines) + "\n```\n\n" + sentence)
    assert {passage.heading for passage in passages} == {"Log"}
    assert max(len(passage.text) for passage in passages) <= chunking.WINDOW_CHARS + chunking.CARRIED_CHARS
    found = "\n".join(passage.text for passage in passages).split()
    assert found.count("word567") == 1
    assert {line.split()[1] for line in lines} <= set(found)


@given(st.lists(_pieces | st.text(max_size=30), max_size=30))
def test_every_line_is_in_some_passage(parts: list[str]) -> None:
    text = "\n".join(parts)
    held = "\n".join(passage.text for passage in chunk_markdown(text))
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert all(line in held for line in plain.split("\n") if line.strip())


@given(st.lists(_pieces, max_size=30))
def test_both_kinds_of_line_end_give_the_same_passages(parts: list[str]) -> None:
    assert chunk_markdown("\n".join(parts)) == chunk_markdown("\r\n".join(parts))


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "word " * 200_000,
        "# a\n" * 100_000,
        "# a\nb\n" * 50_000,
        "```\n" * 100_000,
        "```x\n" * 100_000 + "~~~",
        "".join("`" * (3_000 - length) + "\n" for length in range(2_990)),
        "# " + "#" * 1_000_000 + "x",
        "a\n" + "=" * 1_000_000 + "x",
        " " * 1_000_000 + "x",
    ],
    ids=lambda text: f"{text[:8]!r}…{len(text)}",
)
def test_odd_and_huge_texts_take_time_in_proportion(text: str) -> None:
    started = time.perf_counter()
    assert chunk_markdown(text)
    assert time.perf_counter() - started < 10  # what is quadratic takes minutes


def test_context_is_the_beginnings_of_the_two_passages_on_each_side() -> None:
    passages = [Passage("", f"{number} " + "x" * 1_000) for number in range(6)]
    around = context(passages, 2).split("\n")
    assert [line[0] for line in around] == ["0", "1", "3", "4"]
    assert max(map(len, around)) == chunking.CONTEXT_CHARS
    assert context(passages[:1], 0) == ""
