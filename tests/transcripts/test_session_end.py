"""The route that a hook calls at the end of a session."""

from pathlib import Path

import pytest

from agents.models import Agent, Delivery
from coffer import later
from memory.services import stores
from tests.conftest import Api


def test_the_end_of_a_session_is_noted_and_answered_at_once(api: Api, repo: Path) -> None:
    answer = api.post("/agents/codex/sessions/0199-ü/end", {"cwd": str(repo)})
    assert (answer.status_code, answer.json()) == (200, {"outcome": "no_model"})
    later.flush()
    row = Delivery.objects.get()
    project = stores.locate(str(repo)).project
    assert project is not None
    assert (row.agent, row.event, row.session, row.outcome) == ("codex", "SessionEnd", "0199-ü", "no_model")
    assert (row.project, row.bytes, row.items) == (project.store, 0, 0)
    assert Agent.objects.get().type == "codex"
    assert not Path(project.root, ".coffer").exists()


@pytest.mark.parametrize(
    ("cwd", "outcome"),
    [("", "no_model"), (".", "skipped"), ("C:\\Users\\dev\\app", "skipped"), ("/that/is/gone", "skipped")],
)
def test_a_place_that_is_no_project_is_no_error(api: Api, cwd: str, outcome: str) -> None:
    assert api.post("/agents/codex/sessions/s-1/end", {"cwd": cwd}).json() == {"outcome": outcome}
    later.flush()
    assert Delivery.objects.get().project == ""


def test_an_agent_of_no_kind_is_refused(api: Api) -> None:
    answer = api.post("/agents/curser/sessions/s-1/end", {"cwd": "/"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "UNSUPPORTED_AGENT_TYPE")
    later.flush()
    assert not Delivery.objects.exists()
