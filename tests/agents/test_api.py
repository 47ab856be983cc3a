"""REST routes of agents: shapes, codes, and that each answers what its service says."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agents.services import context
from coffer import auth, later
from memory.services import facts, rules, stores
from tests.conftest import Api


@pytest.fixture
def repo_with_memory(repo: Path) -> Path:
    store = stores.for_writing(stores.locate(str(repo)), "project")
    facts.remember(store, "The frobnicator gasket leaks in winter.", actor="agent")
    rules.append(store, "Deploy with make.")
    return repo


def error(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_an_agent_is_registered_listed_switched_and_forgotten(api: Api) -> None:
    assert api.get("/agents").json() == {"agents": [], "total": 0}
    made = api.post("/agents", {"type": "claude_code"})
    assert made.status_code == 201
    row = made.json()
    assert row.pop("created_at")
    assert row == {
        "name": "claude_code",
        "type": "claude_code",
        "title": "Claude Code",
        "folder": "",
        "disable_native_memory": False,
        "prompt_context": False,
    }
    assert api.post("/agents", {"type": "codex", "name": "codex_work"}).json()["name"] == "codex_work"
    assert [one["name"] for one in api.get("/agents").json()["agents"]] == ["claude_code", "codex_work"]
    assert api.get("/agents").json()["total"] == 2
    assert api.get("/agents/claude_code").json()["title"] == "Claude Code"
    assert api.patch("/agents/claude_code", {"prompt_context": True}).json()["prompt_context"] is True
    assert api.patch("/agents/claude_code", {}).json()["prompt_context"] is True
    assert api.get("/agents/claude_code/hook-install").json()["installed"] is False
    assert api.delete("/agents/claude_code").status_code == 204
    assert error(api.get("/agents/claude_code")) == (404, "NOT_FOUND")


def test_what_makes_no_sense_is_refused(api: Api) -> None:
    assert error(api.post("/agents", {"type": "nobody"})) == (400, "UNSUPPORTED_AGENT_TYPE")
    assert error(api.get("/agents/nobody/session-context?cwd=/")) == (400, "UNSUPPORTED_AGENT_TYPE")
    assert error(api.post("/agents/nobody/prompt-context", {"prompt": "x"})) == (400, "UNSUPPORTED_AGENT_TYPE")
    assert error(api.post("/agents", {"type": "codex", "nam": "x"})) == (422, "INVALID")
    assert error(api.post("/agents", {"type": "codex", "name": "No Name"})) == (422, "INVALID")
    assert api.post("/agents", {"type": "codex"}).status_code == 201
    assert error(api.post("/agents", {"type": "codex"})) == (409, "CONFLICT")
    assert error(api.patch("/agents/nobody", {"prompt_context": True})) == (404, "NOT_FOUND")
    assert error(api.patch("/agents/codex", {"prompt": True})) == (422, "INVALID")
    assert error(api.delete("/agents/nobody")) == (404, "NOT_FOUND")
    assert error(api.get("/agents/nobody/deliveries")) == (404, "NOT_FOUND")
    assert error(Api("wrong").get("/agents")) == (401, "UNAUTHORIZED")
    assert Api(auth.token()).get("/agents").status_code == 200


def test_a_session_gets_its_context_and_the_agent_is_known_from_then_on(api: Api, repo_with_memory: Path) -> None:
    path = f"/agents/claude_code/session-context?cwd={quote(str(repo_with_memory))}&session_id=s-1&source=startup"
    text = api.get(path, X_Coffer_Hook="1").json()["additional_context"]
    assert "- Deploy with make." in text
    assert "- The frobnicator gasket leaks in winter." in text
    assert "coffer__resume" in text
    assert api.get("/agents/claude_code/session-context").json()["additional_context"]
    assert later.flush()
    assert [one["name"] for one in api.get("/agents").json()["agents"]] == ["claude_code"]


def test_a_prompt_gets_what_belongs_to_it_once_that_is_switched_on(
    api: Api, repo_with_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "PROMPT_SECONDS", 20)
    api.post("/agents", {"type": "claude_code"})
    body = {"prompt": "does the frobnicator gasket leak", "cwd": str(repo_with_memory), "session_id": "api-1"}

    def given(body: dict[str, str]) -> str:
        return str(api.post("/agents/claude_code/prompt-context", body, X_Coffer_Hook="1").json()["additional_context"])

    assert given(body) == ""
    api.patch("/agents/claude_code", {"prompt_context": True})
    assert "winter" in given(body)
    assert given({"prompt": ""}) == ""


def test_a_request_that_no_hook_made_is_a_look_and_no_delivery(
    api: Api, repo_with_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "PROMPT_SECONDS", 20)
    path = f"/agents/codex/session-context?cwd={quote(str(repo_with_memory))}&session_id=look-1"
    shown = api.get(path).json()["additional_context"]
    assert "frobnicator" in shown
    assert later.flush()
    assert api.get("/agents").json()["total"] == 0
    api.post("/agents", {"type": "claude_code"})
    api.patch("/agents/claude_code", {"prompt_context": True})
    body = {"prompt": "does the frobnicator gasket leak", "cwd": str(repo_with_memory), "session_id": "look-1"}
    for _ in range(2):  # what was only looked at is given again
        assert "winter" in api.post("/agents/claude_code/prompt-context", body).json()["additional_context"]
    assert later.flush()
    assert api.get("/agents/claude_code/deliveries").json()["total"] == 0
    assert api.get(path, X_Coffer_Hook="1").json()["additional_context"] == shown
    assert later.flush()
    assert api.get("/agents/codex/deliveries").json()["total"] == 1


def test_deliveries_are_paged_and_hold_no_content(api: Api, repo_with_memory: Path) -> None:
    for number in range(3):
        api.get(
            f"/agents/codex/session-context?cwd={quote(str(repo_with_memory))}&session_id=s-{number}", X_Coffer_Hook="1"
        )
    assert later.flush()
    listed = api.get("/agents/codex/deliveries?limit=2").json()
    assert listed["total"] == 3
    assert [row["session"] for row in listed["deliveries"]] == ["s-2", "s-1"]
    row = listed["deliveries"][0]
    assert row.keys() == {"event", "session", "project", "bytes", "items", "ms", "outcome", "at"}
    assert (row["event"], row["outcome"], row["items"]) == ("SessionStart", "delivered", 2)
    assert [row["session"] for row in api.get("/agents/codex/deliveries?offset=2").json()["deliveries"]] == ["s-0"]
    assert "frobnicator" not in str(listed)
    assert error(api.get("/agents/codex/deliveries?limit=0")) == (422, "INVALID")
