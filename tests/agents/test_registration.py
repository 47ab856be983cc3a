"""Agents register themselves, are added by hand, switched, removed, and come back after a lost database."""

from pathlib import Path

import pytest

from agents.models import Agent
from agents.services import connections, hooks, registration
from agents.services.places import folder_of_environment, kind_of, person, place_of
from coffer import later
from coffer.errors import Conflict, Invalid, NotFound, UnsupportedAgentType


@pytest.fixture(autouse=True)
def machine_with_agents(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with the folder of Claude Code and of Codex, and no agent's program on PATH."""
    person_home = home.parent / "person"
    for name in (".claude", ".codex"):
        (person_home / name).mkdir()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return person_home


def test_a_known_kind_registers_itself_once() -> None:
    agent = registration.ensure("codex", folder="/elsewhere/.codex")
    assert (agent.name, agent.type, agent.folder) == ("codex", "codex", "/elsewhere/.codex")
    later.flush()
    registration.ensure("codex", folder="/another")
    later.flush()
    assert [row.folder for row in Agent.objects.all()] == ["/elsewhere/.codex"]


def test_a_name_that_is_no_kind_registers_nothing() -> None:
    with pytest.raises(
        UnsupportedAgentType, match="'emacs' is no kind of agent that Coffer knows; it knows claude_code"
    ):
        registration.ensure("emacs")
    later.flush()
    assert not Agent.objects.exists()


def test_a_second_agent_of_a_kind_has_a_name_and_a_folder_of_its_own() -> None:
    (person() / ".claude-work").mkdir()
    (person() / "third").mkdir()
    registration.add("claude_code")
    work = registration.add("claude_code", name="claude_work", folder="~/.claude-work")
    assert place_of(work).folder == person() / ".claude-work"
    assert [agent.name for agent in registration.listing()] == ["claude_code", "claude_work"]
    with pytest.raises(Conflict, match="There is an agent claude_work already"):
        registration.add("claude_code", name="claude_work", folder="~/third")
    with pytest.raises(Conflict, match="claude_work is the agent of"):
        registration.add("claude_code", name="claude_third", folder="~/.claude-work/")


def test_a_folder_that_is_not_there_or_relative_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in ("/nonexistent", str(tmp_path / "file"), "~/.claude-work"):
        with pytest.raises(Invalid, match="There is no folder /"):
            registration.add("claude_code", name="claude_work", folder=folder)
    with pytest.raises(Invalid, match="relative path; give the agent's folder as an absolute one"):
        registration.add("claude_code", name="claude_work", folder="work")
    assert registration.listing() == []


@pytest.mark.parametrize("name", ["", "Claude", "a b", "9", "-x", "a" * 61, "codex", "x/../y"])
def test_a_bad_name_is_refused(name: str) -> None:
    if name:
        with pytest.raises(Invalid):
            registration.add("claude_code", name=name)
    else:
        assert registration.add("claude_code", name=name).name == "claude_code"


def test_the_folder_comes_from_the_environment_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "~/codex-here")
    assert folder_of_environment(kind_of("codex")) == str(person() / "codex-here")
    assert registration.add("codex").folder == str(person() / "codex-here")
    monkeypatch.setenv("CODEX_HOME", "/elsewhere")
    assert place_of(registration.get("codex")).folder == person() / "codex-here"


def test_an_unknown_name_is_not_found() -> None:
    with pytest.raises(NotFound, match="There is no agent 'codex'; `coffer agent list` names those there are"):
        registration.get("codex")


def test_removing_an_agent_disconnects_it(machine_with_agents: Path) -> None:
    connections.apply(connections.plan(["claude_code"]))
    registration.change("claude_code", disable_native_memory=True)
    registration.remove("claude_code")
    assert not Agent.objects.filter(name="claude_code").exists()
    assert list((machine_with_agents / ".claude").iterdir()) == []
    assert not (machine_with_agents / ".claude.json").exists()


def test_prompt_context_reinstalls_hooks_that_are_installed(machine_with_agents: Path) -> None:
    settings = machine_with_agents / ".claude/settings.json"
    registration.add("claude_code")
    registration.change("claude_code", prompt_context=True)
    assert not settings.exists()
    registration.change("claude_code", prompt_context=False)
    hooks.install(registration.get("claude_code"))
    registration.change("claude_code", prompt_context=True)
    assert "UserPromptSubmit" in settings.read_text(encoding="utf-8")
    assert hooks.status(registration.get("claude_code")).installed
    registration.change("claude_code", prompt_context=False)
    assert "UserPromptSubmit" not in settings.read_text(encoding="utf-8")


def test_a_switch_that_an_agent_has_not_is_refused() -> None:
    registration.add("cursor")
    with pytest.raises(Invalid, match="Cursor takes no context beside a prompt"):
        registration.change("cursor", prompt_context=True)
    with pytest.raises(Invalid, match="Cursor has no memory of its own with a switch"):
        registration.change("cursor", disable_native_memory=True)


def test_what_is_connected_is_known_again_after_the_database_was_lost() -> None:
    (person() / ".claude-work").mkdir()
    registration.add("claude_code", name="claude_work", folder="~/.claude-work")
    connections.apply(connections.plan(["claude_work", "codex"]))
    registration.change("claude_work", disable_native_memory=True, prompt_context=True)
    Agent.objects.all().delete()
    registration.rebuild()
    rows = Agent.objects.values_list("name", "type", "folder", "disable_native_memory", "prompt_context")
    folder = str(person() / ".claude-work")
    assert list(rows) == [("claude_work", "claude_code", folder, True, True), ("codex", "codex", "", False, False)]


@pytest.mark.parametrize("given", ["", None])
def test_without_home_the_user_database_says_where_a_person_lives(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.setenv("HOME", given) if given is not None else monkeypatch.delenv("HOME")
    assert person() == Path("~").expanduser() if given is None else person().is_absolute()


def test_without_any_home_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    with pytest.raises(Invalid, match="HOME is not set, and user 2147483641 has no home folder"):
        connections.plan()
    monkeypatch.setenv("HOME", "relative")
    with pytest.raises(Invalid, match="HOME is 'relative', a relative path"):
        connections.plan()
