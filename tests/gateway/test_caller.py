"""Who calls: read from headers that anybody may have written."""

from urllib.parse import quote

import pytest

from gateway.caller import Caller, agent_name, identify


def test_the_shims_headers_say_who_calls() -> None:
    headers = {"x-coffer-cwd": quote("/home/me/Übung 1"), "x-coffer-agent": "codex", "x-coffer-session": "s-1"}
    assert identify(headers) == Caller("/home/me/Übung 1", "codex", "s-1")


def test_without_headers_nothing_is_known() -> None:
    assert identify(None) == identify({}) == Caller(None, "", "")


@pytest.mark.parametrize(
    "value",
    ["", "work/here", "%2e%2e/x", "/a%00b", "/caf%E9", "/caf\u00e9", "C:\\work"],
    ids=["empty", "relative", "relative, escaped", "null byte", "latin-1, escaped", "not escaped", "another system"],
)
def test_a_directory_that_cannot_be_one_counts_as_unknown(value: str) -> None:
    assert identify({"x-coffer-cwd": value}).cwd is None


def test_the_requests_meta_is_taken_when_there_is_no_header() -> None:
    assert identify({}, {"coffer/cwd": "/from/meta"}).cwd == "/from/meta"
    assert identify({"x-coffer-cwd": "/from/header"}, {"coffer/cwd": "/from/meta"}).cwd == "/from/header"
    assert identify({}, {"coffer/cwd": ["/no", "text"]}).cwd is None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("claude-code", "claude_code"),
        ("Gemini CLI", "gemini_cli"),
        ("<b>x</b>\n", "b_x_b"),
        ("é", ""),
        ("a" * 100, "a" * 60),
    ],
)
def test_an_agents_name_is_brought_into_form(given: str, name: str) -> None:
    assert agent_name(given) == name


def test_the_clients_own_name_stands_in_for_the_header() -> None:
    assert identify({}, client="opencode").agent == "opencode"
    assert identify({"x-coffer-agent": "codex"}, client="opencode").agent == "codex"


def test_a_session_id_is_printable_and_short() -> None:
    assert identify({"x-coffer-session": "a b\x01\u00e9c" + "d" * 300}).session == "abc" + "d" * 252
