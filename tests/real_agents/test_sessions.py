"""What the real programs write of their sessions: listed right, distilled once, recalled by another agent."""

import json
import subprocess
from pathlib import Path

import pytest
from django.db import connections

from memory.services import journal, rules, stores
from tests.fake_llm import FakeLlm
from tests.real_agents.conftest import Person
from tests.transcripts.conversations import insight, insights, shown

AGENTS = ("claude_code", "codex", "opencode")
NEXT = {"claude_code": "codex", "codex": "opencode", "opencode": "claude_code"}
FACT = "The okapi gate opens at noon"
SECRET = "ghp_" + "a1B2" * 9
CANARY = "Never paint the walrus."


def listed(person: Person, agent: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(person.coffer("transcript", "list", agent, "--json"))["sessions"]
    return found


def claude(person: Person, *words: str) -> None:
    done = subprocess.run(
        ["claude", *words], env=person._env, cwd=person.repo, stdin=subprocess.DEVNULL, capture_output=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("agent", AGENTS)
def test_a_session_is_listed_distilled_once_and_recalled_by_another_agent(person: Person, agent: str) -> None:
    store = stores.for_writing(stores.locate(str(person.repo)), "project")
    rules.append(store, CANARY)
    connections.close_all()
    person.coffer("connect", "--yes")
    person.trust_hooks()
    person.run(agent, f"The okapi gate opens at noon. My token is {SECRET}.")
    assert CANARY in person.model.text(), "the agent was told what is remembered"
    (session,) = listed(person, agent)
    assert (session["message_count"], session["project_path"]) == (2, str(person.repo))
    assert Path(str(session["source_path"])).exists()
    with FakeLlm() as llm:
        llm.always(insights(insight(FACT)))
        person.machine.env |= llm.environment
        first = json.loads(person.coffer("distill", agent, "--json"))
        again = json.loads(person.coffer("distill", agent, "--json"))
        (request,) = llm.requests
    assert [one["name"] for one in first["insights"]] == [FACT]
    assert again["skipped"] == [{"session_id": session["session_id"], "reason": "already distilled"}]
    assert "The okapi gate opens at noon." in shown(request)
    assert "A reply of the mock model." in shown(request)
    sent = json.dumps(request.body)
    assert SECRET not in sent
    assert CANARY not in sent
    (entry,) = journal.recent(store, 9)
    assert (entry.agent, entry.session) == (agent, session["session_id"])
    connections.close_all()
    for path in person.machine.home.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    person.run(NEXT[agent], "What do you know?")
    assert FACT in person.model.text(), "another agent begins with what came of it"


def test_a_resumed_and_a_forked_session_repeat_nothing(person: Person) -> None:
    person.run("claude_code", "The okapi gate opens at noon.")
    (session,) = listed(person, "claude_code")
    with FakeLlm() as llm:
        llm.always(insights())
        person.machine.env |= llm.environment
        person.coffer("distill", "claude_code")
        resume = ("--resume", str(session["session_id"]))
        claude(person, *resume, "-p", "And the walrus gate at one.")
        claude(person, *resume, "--fork-session", "-p", "And the bison gate at two.")
        assert len(listed(person, "claude_code")) == 2
        person.coffer("distill", "claude_code")
        said = "\n".join(shown(request) for request in llm.requests)
    assert [said.count(gate) for gate in ("okapi gate", "walrus gate", "bison gate")] == [1, 1, 1]
