"""What is known of each kind of agent."""

import json
import shlex
from pathlib import Path

import pytest

from agents.kinds import KINDS, is_ours, ours_within
from agents.kinds.base import HOOK, SHIM

PERSON = Path("/home/dev")
LAUNCHERS = Path("/home/dev/My Coffer/bin")


def hook(command: object) -> dict[str, object]:
    return {"hooks": [{"type": "command", "command": command}]}


@pytest.mark.parametrize(
    ("kind", "variable", "folder"),
    [
        ("claude_code", "CLAUDE_CONFIG_DIR", ".claude"),
        ("codex", "CODEX_HOME", ".codex"),
        ("cursor", "", ".cursor"),
        ("gemini_cli", "", ".gemini"),
        ("copilot_cli", "", ".copilot"),
        ("openclaw", "OPENCLAW_STATE_DIR", ".openclaw"),
        ("hermes", "HERMES_HOME", ".hermes"),
    ],
)
def test_an_agent_lives_in_its_folder_unless_the_environment_says_otherwise(
    kind: str, variable: str, folder: str
) -> None:
    place = KINDS[kind].place("", PERSON, {})
    assert (place.folder, place.overridden) == (PERSON / folder, False)
    if variable:
        place = KINDS[kind].place("", PERSON, {variable: "/elsewhere"})
        assert (place.folder, place.overridden) == (Path("/elsewhere"), True)
    assert KINDS[kind].place("/given", PERSON, {variable: "/elsewhere"}).folder == Path("/given")


def test_opencode_follows_the_folder_for_configuration() -> None:
    assert KINDS["opencode"].place("", PERSON, {}).folder == PERSON / ".config/opencode"
    assert KINDS["opencode"].place("", PERSON, {"XDG_CONFIG_HOME": "/xdg"}).folder == Path("/xdg/opencode")


def test_claude_codes_servers_move_with_its_folder() -> None:
    kind = KINDS["claude_code"]
    assert kind.mcp(kind.place("", PERSON, {}), "claude_code", LAUNCHERS).path == PERSON / ".claude.json"
    moved = kind.place("", PERSON, {"CLAUDE_CONFIG_DIR": "/home/dev/.claude"})
    assert kind.mcp(moved, "claude_code", LAUNCHERS).path == PERSON / ".claude/.claude.json"


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_names_only_the_launchers_and_the_agents_name(kind: str) -> None:
    for file in KINDS[kind].files(KINDS[kind].place("", PERSON, {}), "mine", LAUNCHERS, prompt_context=True):
        text = file.text + json.dumps([entry.value for entry in file.entries])
        if file.about != "keeps OpenCode from waiting for npm":
            assert str(LAUNCHERS) in text
            assert "mine" in text


@pytest.mark.parametrize("kind", ["claude_code", "codex", "gemini_cli", "cursor"])
def test_hooks_have_no_matcher_and_a_time_limit(kind: str) -> None:
    hooks = KINDS[kind].files(KINDS[kind].place("", PERSON, {}), kind, LAUNCHERS, prompt_context=False)[0]
    events = [entry.keys[-1].lower() for entry in hooks.entries]
    assert events == ["sessionstart", "sessionend"]
    for entry in hooks.entries:
        assert isinstance(entry.value, dict)
        assert "matcher" not in entry.value
        one = entry.value.get("hooks", [entry.value])[0]
        assert shlex.split(one["command"])[0] == str(LAUNCHERS / HOOK)
        assert one["timeout"] == {"gemini_cli": 5000}.get(
            kind, 3 if entry.keys[-1] == "SessionEnd" and kind == "codex" else 5
        )


def test_codex_gets_nothing_but_what_its_schema_takes() -> None:
    hooks = KINDS["codex"].files(KINDS["codex"].place("", PERSON, {}), "codex", LAUNCHERS, prompt_context=True)[0]
    assert {entry.keys[0] for entry in hooks.entries} == {"hooks"}
    assert not hooks.base


def test_prompt_context_is_asked_for_only_when_it_is_switched_on() -> None:
    kind = KINDS["claude_code"]
    place = kind.place("", PERSON, {})
    on, off = (kind.files(place, "claude_code", LAUNCHERS, prompt_context=flag)[0] for flag in (True, False))
    assert {entry.keys[-1] for entry in on.entries} - {entry.keys[-1] for entry in off.entries} == {"UserPromptSubmit"}


def test_an_agent_whose_files_are_not_edited_says_what_to_do() -> None:
    for kind in ("openclaw", "hermes"):
        place = KINDS[kind].place("", PERSON, {})
        assert KINDS[kind].files(place, kind, LAUNCHERS, prompt_context=False) == []
        assert "coffer-mcp-shim" in KINDS[kind].note


@pytest.mark.parametrize(
    "value",
    [
        hook("/opt/coffer/bin/coffer-hook --agent codex --event SessionStart"),
        hook("'/home/dev/My Coffer/bin/coffer-hook' --agent codex"),
        hook("/home/dev/My Coffer/bin/coffer-hook"),
        {"command": "/x/coffer-mcp-shim", "args": []},
        {"type": "local", "command": ["/x/coffer-mcp-shim", "--agent", "opencode"]},
        {"matcher": "startup", "hooks": [{"command": "coffer-hook"}, {"command": "/old/coffer-hook --agent x"}]},
    ],
)
def test_an_entry_is_ours_by_the_name_of_its_command(value: object) -> None:
    assert is_ours(value)
    assert ours_within(value) == []


@pytest.mark.parametrize(
    "value",
    [
        hook("/home/dev/src/coffer-hook-notes/run.sh"),
        hook("echo coffer-hook"),
        hook("bash -c '/opt/coffer/bin/coffer-hook'"),
        hook("unbalanced 'quote coffer-hook"),
        hook(None),
        {"hooks": []},
        {"hooks": "coffer-hook"},
        {"command": ["echo", "coffer-mcp-shim"]},
        {"command": []},
        "coffer-hook",
        None,
    ],
)
def test_a_look_alike_is_not_ours(value: object) -> None:
    assert not is_ours(value)


def test_our_hook_in_a_group_of_somebody_else_is_only_that_hook() -> None:
    group = {"hooks": [{"command": "echo"}, {"command": f"/x/{HOOK} --agent a"}, {"command": f"/x/{SHIM}"}]}
    assert not is_ours(group)
    assert ours_within(group) == [1, 2]
