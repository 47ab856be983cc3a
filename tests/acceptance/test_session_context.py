"""Scenarios of story 8: rules and memory are in front of an agent when its session starts, and nothing else is touched.

The hook is the real program, as an agent runs it, with a real daemon behind it.
"""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from agents.services import attachments, registration
from agents.services.places import place_of
from coffer import later
from memory.services import handoff, rules, stores
from tests.conftest import Api
from tests.processes import Machine, machine  # noqa: F401

OWN_FILES = ("CLAUDE.md", "AGENTS.md", "projects/-repo/memory/MEMORY.md")


def fingerprint(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def start_session(machine: Machine, agent: str, cwd: Path) -> str:  # noqa: F811
    """What the hook of an agent gives it for a session that starts in a folder."""
    told = {"session_id": "s-1", "cwd": str(cwd), "hook_event_name": "SessionStart", "source": "startup"}
    command = [str(machine.home / "bin" / "coffer-hook"), "--agent", agent, "--event", "SessionStart"]
    done = subprocess.run(
        command, input=json.dumps(told).encode(), env=machine.env, cwd=cwd, capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    text: str = answer["additionalContext"]
    return text


@pytest.mark.acceptance(spec="007-memory", scenario="rules bundle is injected at session start as context only")
@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_project_rules_then_global_rules_arrive_and_no_file_of_the_agent_changes(
    machine: Machine,  # noqa: F811
    repo: Path,
    tmp_path: Path,
    name: str,
) -> None:
    agent = registration.add(name)
    folder = place_of(agent).folder
    for own in OWN_FILES:
        (folder / own).parent.mkdir(parents=True, exist_ok=True)
        (folder / own).write_text("What the agent wrote itself.\n")
    attachments.attach(agent, "hooks")
    rules.append(stores.provision("global"), "Always run the verify step before pushing.")
    rules.append(stores.for_writing(stores.locate(str(repo)), "project"), "This repo deploys via make release.")
    assert later.flush()
    before = fingerprint(folder) | fingerprint(repo)
    machine.up()
    text = start_session(machine, name, repo)
    project, everywhere = (
        text.index(f"- {rule}\n")
        for rule in ("This repo deploys via make release.", "Always run the verify step before pushing.")
    )
    assert project < everywhere
    outside = start_session(machine, name, tmp_path)
    assert "- Always run the verify step before pushing.\n" in outside
    assert "make release" not in outside
    assert fingerprint(folder) | fingerprint(repo) == before


@pytest.mark.acceptance(spec="007-memory", scenario="the bundle carries the two seeded built-in rules")
def test_the_two_built_in_rules_are_always_there_and_the_body_of_a_handoff_never(api: Api, repo: Path) -> None:
    def told() -> str:
        text: str = api.get(f"/agents/claude_code/session-context?cwd={repo}").json()["additional_context"]
        return text

    def built_in() -> list[str]:
        return told().split("## Built-in rules\n")[1].split("\n\n")[0].split("\n")

    first, second = built_in()
    assert all(words in first for words in ('"continue"', '"where were we"', '"resume"', "coffer__resume"))
    assert all(
        words in second for words in ("coffer__remember", "coffer__recall", "Prefer them to a memory of your own")
    )
    handoff.save(stores.locate(str(repo)), "Doing: the body of the scene.")
    rules.append(stores.provision("global"), "A rule of the person.")
    assert built_in() == [first, second]
    assert "A handoff waits for branch main." in told()
    assert "the body of the scene" not in told()
