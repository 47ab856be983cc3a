"""The real programs, connected by ``coffer connect``: what reaches their model, how long they take, what is left."""

import json
import os
import signal
import tomllib
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from agents.models import Delivery
from agents.services import registration, rehearsal
from memory.services import facts, rules, stores
from tests.processes import eventually
from tests.real_agents.conftest import CLAUDE_SETTINGS, CLAUDE_STATE, CODEX_CONFIG, OPENCODE_CONFIG, Person
from tests.real_agents.mock_model import WISH

AGENTS = ("claude_code", "codex", "opencode")
TOOLS = ("recall", "remember", "list_memory", "set_handoff", "resume")
HOOK_LIMIT = 2.0  # seconds that a hook may take at most
STARTS = 1.5  # seconds for the interpreters of hook and shim, on a machine that does other things as well
TRIES = 3  # a machine that does other things as well may be slow for once
RULE, FACT = "Never push to main on a Friday.", "The widget build needs Go 1.22."


def remembered(person: Person, more: int = 0) -> None:
    """A rule and a fact of the repository, written as another agent would, after so many others."""
    store = stores.for_writing(stores.locate(str(person.repo)), "project")
    for number in range(more):
        facts.remember(store, f"第{number:03d}章 部署与回滚的注意事项 🚀 für größere Umgebungen.", actor="agent")
    rules.append(store, RULE)
    facts.remember(store, FACT, actor="agent")
    connections.close_all()


def connected(person: Person) -> None:
    person.coffer("connect", "--yes")
    assert set(person.trust_hooks()) == {"untrusted"}


def first_request(person: Person, agent: str, words: str) -> dict[str, Any]:
    """What a new session of an agent asks its model first, with these words in it.

    A machine that does much else at the same time may miss the time limit of a hook, and gets two more sessions.
    """
    for _ in range(3):
        person.run(agent)
        if words in person.model.text():
            break
    assert words in person.model.text()
    return next(request for request in person.model.requests if request.get("tools"))


def tools_of(requests: list[dict[str, Any]]) -> set[str]:
    """The names of the tools that the model was offered at once, in whatever nesting."""
    found: set[str] = set()
    for request in requests:
        for tool in request.get("tools", []):
            for one in (tool, tool.get("function") or {}, *tool.get("tools", [])):
                if not one.get("defer_loading"):
                    found.add(str(one.get("name", "")))
    return found


@pytest.mark.parametrize("agent", AGENTS)
def test_a_full_context_and_the_tools_are_in_an_agents_first_request(person: Person, agent: str) -> None:
    remembered(person, more=300)
    before = person.native()
    connected(person)
    first = first_request(person, agent, RULE)
    told = str(eventually(lambda: rehearsal.play(registration.get(agent), str(person.repo)).text))
    assert 9_000 < len(told.encode()) <= 10_000
    assert RULE in told
    assert FACT in told
    assert json.dumps(told, ensure_ascii=False)[1:-1] in json.dumps(first, ensure_ascii=False)
    assert {name.rpartition("coffer__")[2] for name in tools_of([first]) if "coffer__" in name} == set(TOOLS)
    delivery = eventually(Delivery.objects.filter(agent=agent, event="SessionStart").first)
    assert (delivery.project, delivery.outcome) == (person.store(), "delivered")
    if agent != "opencode":
        assert eventually(lambda: Delivery.objects.filter(agent=agent, event="SessionEnd").exists())
    assert person.native() == before


def test_what_one_agent_saves_is_in_anothers_first_request(person: Person) -> None:
    connected(person)
    person.run("claude_code", f"Please note this. {WISH}The staging cluster is called heron.")
    assert '"is_error": true' not in person.model.text()
    for agent in ("codex", "opencode"):
        assert first_request(person, agent, "The staging cluster is called heron.")


def fastest(person: Person, agent: str, enough: float) -> float:
    """The best of a few sessions' times; one that is good enough is the last."""
    best = person.run(agent)
    for _ in range(TRIES - 1):
        if best > enough:
            best = min(best, person.run(agent))
    return best


@pytest.mark.parametrize("agent", AGENTS)
def test_with_a_daemon_that_is_down_or_hangs_an_agent_starts_within_two_seconds_of_its_time(
    person: Person, agent: str
) -> None:
    remembered(person)
    connected(person)
    person.run(agent)  # what it does once in a new home
    person.coffer("disconnect", "--yes")
    limit = person.run(agent) + HOOK_LIMIT + STARTS
    connected(person)
    pid = json.loads((person.machine.home / "daemon.json").read_text(encoding="utf-8"))["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert fastest(person, agent, limit) <= limit
    assert RULE not in person.model.text()
    os.kill(pid, signal.SIGCONT)
    person.coffer("down")
    person.configure("COFFER_PORT=0", "COFFER_AUTOSTART=0")
    assert fastest(person, agent, limit) <= limit
    assert not person.machine.processes("coffer.daemon")


def test_after_disconnecting_nothing_of_ours_is_left_and_nothing_else_was_touched(person: Person) -> None:
    before = person.native()
    remembered(person)
    connected(person)
    for agent in AGENTS:
        person.run(agent)
    assert ".claude/settings.json" in person.traces()
    person.coffer("disconnect", "--yes")
    assert person.traces() == []
    home = person.home
    url = person.model.url
    assert (home / ".claude" / "settings.json").read_text(encoding="utf-8") == CLAUDE_SETTINGS
    assert (home / ".config/opencode/opencode.jsonc").read_text(encoding="utf-8") == OPENCODE_CONFIG.format(url=url)
    assert not (home / ".config" / "opencode" / "plugin").exists()
    assert not (home / ".codex" / "hooks.json").exists()
    config = (home / ".codex" / "config.toml").read_text(encoding="utf-8")
    data = tomllib.loads(config)
    data.pop("hooks", None)  # the trust that a person gave, written by Codex
    assert data == tomllib.loads(CODEX_CONFIG.format(url=url))
    assert config.startswith(CODEX_CONFIG.format(url=url).rstrip())
    state = json.loads((home / ".claude.json").read_text(encoding="utf-8"))  # Claude Code has written into it since
    assert "mcpServers" not in state
    assert state.items() >= json.loads(CLAUDE_STATE).items() - {("numStartups", 3)}
    assert person.native() == before
    requests_before = Delivery.objects.count()
    person.run("claude_code")
    assert RULE not in person.model.text()
    assert Delivery.objects.count() == requests_before


def test_doctor_finds_the_real_programs_and_their_trust(person: Person, tmp_path: Path) -> None:
    person.coffer("connect", "--yes")
    told = json.loads(person.machine.coffer("doctor", "--json").stdout)
    problems = [check for check in told["checks"] if check["level"] in ("warning", "error")]
    assert [(check["subject"], check["name"]) for check in problems] == [("Codex", "trust")], problems
    person.trust_hooks()
    told = json.loads(person.coffer("doctor", "--json"))
    assert told["well"]
    versions = [check["message"] for check in told["checks"] if check["name"] == "agent"]
    assert all(any(number in one for one in versions) for number in ("2.1.332", "0.171.0", "1.18.33"))
