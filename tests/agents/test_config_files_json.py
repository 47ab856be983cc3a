"""The JSON editor: every byte that is not ours stays, and taking out gives back what was there."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.config_files import entries
from agents.config_files.documents import MISSING
from agents.config_files.entries import Refused
from agents.config_files.json_document import JsonDocument
from agents.config_files.json_text import MOST_LEVELS, Scan, Unreadable
from agents.kinds import KINDS, ConfigFile
from tests.agents.json_texts import Style, texts

LAUNCHERS = Path("/opt/coffer/bin")
PLACE = KINDS["claude_code"].place("", Path("/home/dev"), {})


def hooks_file(name: str = "claude_code", launchers: Path = LAUNCHERS, *, prompts: bool = False) -> ConfigFile:
    kind = KINDS["claude_code"]
    return next(file for file in kind.files(PLACE, name, launchers, prompt_context=prompts) if file.purpose == "hooks")


def mcp_file() -> ConfigFile:
    return KINDS["claude_code"].files(PLACE, "claude_code", LAUNCHERS, prompt_context=False)[1]


def added(text: str, file: ConfigFile) -> tuple[str, entries.Records]:
    document = JsonDocument(text)
    records = entries.make(document, file, {})
    return document.text, records


def removed(text: str, file: ConfigFile, records: entries.Records) -> str:
    document = JsonDocument(text)
    entries.unmake(document, file, records, records)
    return document.text


def without_ours(data: Any) -> Any:
    """The data as the user had it: containers that are empty then were made for our entries."""
    if isinstance(data, dict):
        return {key: without_ours(value) for key, value in data.items()}
    if isinstance(data, list):
        return [without_ours(value) for value in data if not entries.is_ours(value)]
    return data


@settings(max_examples=200, deadline=None)
@given(texts(hooks=True), st.sampled_from([hooks_file(), mcp_file(), hooks_file(prompts=True)]))
def test_what_was_added_is_removed_without_a_trace(made: tuple[str, Style], file: ConfigFile) -> None:
    text, _ = made
    try:
        after, records = added(text, file)
    except Refused:
        return  # mcpServers is something else
    assert removed(after, file, records) == text
    again, nothing = added(after, file)
    assert again == after
    assert nothing == {}


@settings(max_examples=150, deadline=None)
@given(texts(hooks=True))
def test_the_users_values_are_equal_as_data_and_in_order(made: tuple[str, Style]) -> None:
    text, _ = made
    before = JsonDocument(text).data()
    after = JsonDocument(added(text, hooks_file())[0]).data()
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert [key for key in after if key in before] == list(before)
    for key, value in before.items():
        if key != "hooks":
            assert after[key] == value
    for event, groups in before.get("hooks", {}).items():
        assert without_ours(after["hooks"][event]) == groups
    for event in ("SessionStart", "SessionEnd"):
        assert entries.is_ours(after["hooks"][event][-1])


@settings(max_examples=150, deadline=None)
@given(texts(hooks=True))
def test_strict_json_stays_strict_json(made: tuple[str, Style]) -> None:
    text, style = made
    if style.strict:
        json.loads(added(text, hooks_file())[0])


@settings(max_examples=150, deadline=None)
@given(texts())
def test_the_scanner_reads_what_json_reads(made: tuple[str, Style]) -> None:
    text, style = made
    scan = Scan(text)
    assert (scan.not_strict is None) == (_loads(text) is not MISSING)
    if style.strict:
        assert scan.root is not None
        assert scan.data(scan.root) == json.loads(text)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:/*\\ntrue1e.-\n', max_size=30))
def test_the_scanner_refuses_what_json_refuses(text: str) -> None:
    try:
        scan = Scan(text)
    except Unreadable:
        assert _loads(text) is MISSING
        return
    strict = scan.root is not None and scan.not_strict is None
    assert strict == (_loads(text) is not MISSING)


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ('{"a": 1 "b": 2}', (1, 9), "expected a comma or }"),
        ('{\r\n  "a": tru\r\n}', (2, 8), "expected a value"),
        ('{"a": "x\ny"}', (1, 7), "expected a value"),
        ("{a: 1}", (1, 2), "expected a name in double quotes"),
        ('{"a" 1}', (1, 6), "expected a colon"),
        ("{}\n{}", (2, 1), "there is more text behind the end of the value"),
        ("[", (1, 2), "expected a value"),
        ("[" * 300, (1, MOST_LEVELS + 1), f"values are nested deeper than {MOST_LEVELS} levels"),
    ],
)
def test_what_cannot_be_read_is_named_by_line_and_column(text: str, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        Scan(text)
    assert ((caught.value.line, caught.value.column), caught.value.reason) == (place, reason)


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: pytest.fail("no constant is JSON"))
    except (ValueError, RecursionError):
        return MISSING
