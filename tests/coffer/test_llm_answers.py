"""The JSON object in a model's answer: found however it is wrapped, never guessed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coffer.errors import BadAnswer
from coffer.llm.answers import parse
from coffer.llm.tokens import estimate

OBJECT = {"slug": "ports", "markdown": "a `}` and\n```sh\nls\n```\nand a comma,}", "is_rule": False}
TEXT = json.dumps(OBJECT)
NEEDED = {"slug": str, "markdown": str, "is_rule": bool}


@pytest.mark.parametrize(
    "answer",
    [
        TEXT,
        json.dumps(OBJECT, indent=2),
        f"\ufeff  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```",
        f"Sure! Here it is:\n\n```json\n{TEXT}\n```\nAnything else?",
        f"Here it is: {TEXT} I hope {{that}} helps.",
        f'I use {{braces}} and 5" screens. {TEXT}',
        f"<think>Perhaps {TEXT[:20]} … no</think>\n{TEXT}",
        f'<think>A draft: {{"slug": "x", "markdown": "y", "is_rule": true}}</think>{TEXT}',
        f'first a draft {{"slug": "x", "markdown": "y", "is_rule": true}}\n</think>\n\n{TEXT}',
        f"<THINKING>hm</THINKING>```json\n{TEXT}```",
        f"[{TEXT}]",
        f"```json\n[{TEXT}]\n```",
        f"{TEXT}\n{TEXT}",
        TEXT.replace("}", "", 0)[:-1] + ",}",
        TEXT[:-1] + ' , "tags": ["a", "b",],\n}',
        TEXT.replace("\\n", "\n"),
        TEXT.replace("false", '"false"'),
        TEXT.replace("false", '" False "'),
        TEXT[:-1] + ', "slug_note": null, "n": 1e3}',
    ],
)
def test_an_object_is_found_in_whatever_is_around_it(answer: str) -> None:
    found = parse(answer, NEEDED)
    assert {key: found[key] for key in NEEDED} == OBJECT


def test_curly_quotes_around_keys_and_values_are_read() -> None:
    assert parse("{“slug”: “ports”, “is_rule”: true,}", {"slug": str, "is_rule": bool}) == {
        "slug": "ports",
        "is_rule": True,
    }


def test_curly_quotes_and_commas_inside_strings_stay() -> None:
    text = '{"a": "he said “yes”, [x,] and {y,}", "b": [1,2,],}'
    assert parse(text, {"a": str, "b": list}) == {"a": "he said “yes”, [x,] and {y,}", "b": [1, 2]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "it is empty"),
        ("   \n", "it is empty"),
        ("I cannot do that.", "no JSON object"),
        ("<think>and so on without an end, {", "no JSON object"),
        (f"<think>{TEXT}", "no JSON object"),
        (TEXT[:-1], "no JSON object"),
        (TEXT[:40], "no JSON object"),
        ("null", "no JSON object"),
        ('"text"', "no JSON object"),
        ("[]", "no JSON object"),
        (f"[{TEXT}, {TEXT}]", "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ("[" * 100_000, "no JSON object"),
        ('{"a":' * 100_000, "no JSON object"),
        ('{"slug": NaN, "markdown": "", "is_rule": true}', "no JSON object"),
        ('{"slug": ' + "9" * 10_000 + "}", "no JSON object"),
        ("{}", "slug is missing"),
        ('{"slug": "x", "is_rule": true}', "markdown is missing"),
        (TEXT.replace("false", "0"), "is_rule is not true or false"),
        (TEXT.replace("false", '"perhaps"'), "is_rule is not true or false"),
        (TEXT.replace('"ports"', "7"), "slug is not a text"),
        (TEXT.replace('"ports"', "null"), "slug is not a text"),
        (TEXT.replace('"ports"', '["ports"]'), "slug is not a text"),
        (TEXT.replace("ports", "\\ud83d"), "half a character"),
        (TEXT[:-1] + ', "more": [{"\\udc00": 1}]}', "half a character"),
        (f"{TEXT}\n{TEXT.replace('ports', 'other')}", "several different objects"),
    ],
)
def test_what_is_no_answer_is_refused_with_a_reason_and_no_content(answer: str, reason: str) -> None:
    with pytest.raises(BadAnswer, match=reason) as caught:
        parse(answer, NEEDED)
    assert "ports" not in str(caught.value)


@given(st.dictionaries(st.text(), st.text() | st.booleans() | st.lists(st.text()), max_size=5), st.text())
def test_whatever_is_valid_comes_back_as_it_was(value: dict[str, Any], around: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    halves = any("\ud800" <= one <= "\udfff" for one in text)
    if not halves:
        assert parse(text, {}) == value
        assert parse(f"```json\n{text}\n```", {}) == value


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for form in (text, f"{{{text}", f'{{"a": "{text}"}}', f"<think>{text}"):
        try:
            parse(form, {"a": str})
        except BadAnswer:
            continue


def test_tokens_are_estimated_for_latin_and_chinese_text() -> None:
    assert estimate() == 0
    assert 200 < estimate("word " * 200) < 300
    assert 900 < estimate("记忆" * 500) < 1100
    assert 200 < estimate("слово " * 100) < 350
    assert estimate("a", "b") == 2 * estimate("a")
