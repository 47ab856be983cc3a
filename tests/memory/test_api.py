"""The REST contract: shapes, limits, errors."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from coffer import paths, signin
from coffer.models import AuditEntry
from tests.conftest import Api

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


def add(api: Api, text: str, store: str = "global", **more: str) -> dict[str, str]:
    answer = api.post(f"/memory_stores/{store}/facts", {"text": text, **more})
    assert answer.status_code == 201
    return answer.json()


def test_without_the_token_nothing_is_answered_but_the_status() -> None:
    stranger = Client()
    for path in ("/memory_stores", "/memory_stores/global/facts"):
        answer = stranger.get(f"/api/v1{path}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")
    status = stranger.get("/api/v1/daemon/status").json()
    assert (status["status"], status["proof"]) == ("ok", None)


def test_a_token_in_the_query_is_refused(home: Path, api: Api) -> None:
    token = paths.token().read_text().strip()
    assert Client().get("/api/v1/memory_stores", {"token": token}).status_code == 401


def test_the_global_store_is_always_listed_and_nothing_is_made_by_reading(api: Api) -> None:
    listed = api.get("/memory_stores").json()
    assert [store["name"] for store in listed["memory_stores"]] == ["global"]
    assert listed["total"] == 1
    assert api.get("/memory_stores/global/facts").json() == {"facts": [], "total": 0}
    assert api.get("/memory_stores/global/metrics").json()["fact_count"] == 0
    assert api.post("/memory_stores/global/recall", {"query": "x"}).json() == {"hits": [], "project": None}
    assert not paths.memory().exists()


def test_a_store_has_the_documented_shape(api: Api) -> None:
    add(api, "Something.")
    store = api.get("/memory_stores/global").json()
    assert set(store) == {
        "name", "scope", "project_id", "project_root", "label", "display_name", "store_dir", "fact_count", "config",
        "created_at", "updated_at",
    }  # fmt: skip
    assert store["config"] == {"max_fact_chars": 8192, "retrieval": "keyword", "embedding": None}
    assert (store["fact_count"], store["store_dir"]) == (1, str(paths.memory() / "global"))


def test_a_fact_has_the_documented_shape(api: Api) -> None:
    fact = add(api, "Something.", title="A title", description="More")
    assert set(fact) == {
        "id", "kind", "title", "description", "text", "metadata", "created_at", "updated_at", "sha256", "path",
        "folder_path", "problem",
    }  # fmt: skip
    assert (fact["kind"], fact["title"], fact["description"], fact["text"]) == ("fact", "A title", "More", "Something.")
    assert Path(fact["path"]).parent == Path(fact["folder_path"])
    assert fact["problem"] is None
    assert api.get(f"/memory_stores/global/facts/{fact['id']}").json() == fact


def test_facts_are_paged_newest_first_with_their_total(api: Api) -> None:
    ids = [add(api, f"Fact number {number}.")["id"] for number in range(5)]
    first = api.get("/memory_stores/global/facts?limit=2").json()
    second = api.get("/memory_stores/global/facts?limit=2&offset=2").json()
    assert (first["total"], second["total"]) == (5, 5)
    assert [fact["id"] for fact in first["facts"] + second["facts"]] == ids[::-1][:4]
    for query in ("limit=0", "limit=201", "offset=-1", "limit=x"):
        answer = api.get(f"/memory_stores/global/facts?{query}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID")


@pytest.mark.parametrize(
    ("text", "reason", "count"), [("", "empty", 0), (" \n\t", "empty", 0), ("x" * 8193, "too_long", 8193)]
)
def test_texts_that_are_no_fact_are_rejected_with_reason_and_count(
    api: Api, text: str, reason: str, count: int
) -> None:
    answer = api.post("/memory_stores/global/facts", {"text": text})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (422, "MEMORY_REJECTED")
    assert error["details"] == {"reason": reason, "characters": count}
    assert list(paths.memory().rglob("*.md")) == []
    assert api.post(f"/memory_stores/{PROJECT}/facts", {"text": text}).status_code == 422
    assert not paths.store(PROJECT).exists()


def test_a_field_that_is_wrong_is_called_as_the_caller_called_it(api: Api) -> None:
    def told(answer: Any) -> str:
        assert answer.status_code == 422
        return str(answer.json()["error"]["message"])

    assert told(api.post("/memory_stores/global/facts", {})) == "The request is not valid: look at text."
    assert told(api.post("/memory_stores/global/facts", [])) == "The request is not valid: look at the body."
    assert told(api.get("/memory_stores/global/facts?limit=none")) == "The request is not valid: look at limit."


def test_a_store_may_set_its_own_limit_and_take_it_back(api: Api) -> None:
    add(api, "Something.")
    assert api.patch("/memory_stores/global", {"max_fact_chars": 10}).json()["config"]["max_fact_chars"] == 10
    assert api.post("/memory_stores/global/facts", {"text": "eleven char"}).status_code == 422
    assert api.patch("/memory_stores/global", {"max_fact_chars": None}).json()["config"]["max_fact_chars"] == 8192
    assert api.patch("/memory_stores/global", {"max_fact_chars": 0}).status_code == 422
    assert api.patch("/memory_stores/global", {"max_facts": 1}).status_code == 422


def test_a_project_store_is_made_by_posting_a_fact_and_by_nothing_else(api: Api) -> None:
    for answer in (
        api.get(f"/memory_stores/{PROJECT}"),
        api.get(f"/memory_stores/{PROJECT}/facts"),
        api.post(f"/memory_stores/{PROJECT}/recall", {"query": "x"}),
        api.delete(f"/memory_stores/{PROJECT}/facts"),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_STORE_NOT_FOUND")
    assert not paths.projects().exists()
    add(api, "Something.", PROJECT)
    assert api.get(f"/memory_stores/{PROJECT}").json()["scope"] == "project"


def test_a_recall_needs_a_whole_number_between_1_and_20_and_a_known_scope(api: Api) -> None:
    for body in (
        {"query": "x", "top_k": 0},
        {"query": "x", "top_k": 21},
        {"query": "x", "top_k": "5"},
        {"query": "x", "top_k": 1.5},
        {"query": "x", "scope": "all"},
        {"query": "x", "more": 1},
        {"scope": "both"},
        "no object",
    ):
        answer = api.post("/memory_stores/global/recall", body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID"), body


def test_a_removed_store_lies_in_retired_and_is_no_longer_listed(api: Api) -> None:
    add(api, "Something to keep.", PROJECT)
    assert api.delete(f"/memory_stores/{PROJECT}").status_code == 204
    assert [store["name"] for store in api.get("/memory_stores").json()["memory_stores"]] == ["global"]
    (kept,) = paths.retired().rglob("*.md")
    assert "Something to keep." in kept.read_text()
    assert api.delete("/memory_stores/global").status_code == 422


def test_the_actor_is_the_user_unless_a_program_says_agent(api: Api) -> None:
    assert add(api, "One.")["metadata"]["actor"] == "user"
    said = api.post("/memory_stores/global/facts", {"text": "Two."}, X_Coffer_Actor="agent").json()
    assert said["metadata"]["actor"] == "agent"


def test_errors_never_repeat_what_was_sent(api: Api) -> None:
    answer = api.post("/memory_stores/global/facts", {"text": ["FAKE-secret"], "title": 5})
    assert answer.status_code == 422
    assert "FAKE-secret" not in answer.content.decode()


def test_the_description_and_its_page_need_no_other_host(api: Api) -> None:
    paths_described = api.get("/openapi.json").json()["paths"]
    assert "/api/v1/memory_stores/{name}/recall" in paths_described
    page = api.get("/docs").content.decode()
    assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []
    for asset in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        answer = Client().get(asset)
        assert (answer.status_code, len(answer.getvalue()) > 0) == (200, True)
        answer.close()


def test_a_fact_is_moved_to_another_store_and_keeps_its_id(api: Api) -> None:
    fact = add(api, "The widget deploys with make release.")
    answer = api.post(f"/memory_stores/global/facts/{fact['id']}/move", {"to": PROJECT})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MEMORY_STORE_NOT_FOUND")
    add(api, "Begins the project.", PROJECT)
    moved = api.post(f"/memory_stores/global/facts/{fact['id']}/move", {"to": PROJECT}, X_Coffer_Actor="agent").json()
    assert (moved["id"], moved["text"]) == (fact["id"], fact["text"])
    assert moved["path"].startswith(str(paths.store(PROJECT)))
    assert AuditEntry.objects.get(event="fact_moved_in").actor == "agent"
    assert api.get(f"/memory_stores/global/facts/{fact['id']}").status_code == 404
    assert api.post(f"/memory_stores/{PROJECT}/facts/{fact['id']}/move", {"to": PROJECT}).status_code == 422
    assert api.post(f"/memory_stores/{PROJECT}/facts/{fact['id']}/move", {"to": "../x"}).status_code == 404


def test_a_verb_that_a_route_does_not_take_is_answered_in_the_shape_of_every_error(api: Api) -> None:
    answer = api.call("PUT", "/memory_stores/global", {})
    assert (answer.status_code, set(answer.headers["Allow"].split(", "))) == (405, {"DELETE", "GET", "PATCH"})
    error = answer.json()["error"]
    assert (error["code"], error["details"]) == ("METHOD_NOT_ALLOWED", {"allowed": ["DELETE", "GET", "PATCH"]})
    assert "PUT" in error["message"]


def test_an_unknown_route_of_the_api_and_an_unknown_page_say_so(api: Api) -> None:
    assert api.get("/nothing_here").status_code == 404
    client = Client()
    client.force_login(signin.owner())
    assert "There is no page here" in client.get("/nothing").content.decode()
