"""The record of tool calls over REST: filtered, paged, without a word of content."""

from datetime import UTC, datetime, timedelta

import pytest

from coffer.models import AuditEntry
from gateway.models import Invocation
from tests.conftest import Api

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def rows() -> None:
    for number in range(5):
        Invocation.objects.create(
            tool="coffer__recall" if number % 2 else "coffer__remember",
            agent="codex" if number < 2 else "claude_code",
            session=f"s-{number}",
            project="global",
            outcome="ok" if number else "BUSY",
            items=number,
            ms=7,
            at=NOON + timedelta(hours=number),
        )


def test_calls_are_listed_newest_first_with_their_number(api: Api) -> None:
    answer = api.get("/invocations?limit=2&offset=1").json()
    assert answer["total"] == 5
    assert [row["session"] for row in answer["invocations"]] == ["s-3", "s-2"]
    assert answer["invocations"][0] == {
        "tool": "coffer__recall",
        "agent": "claude_code",
        "session": "s-3",
        "store": "global",
        "outcome": "ok",
        "items": 3,
        "ms": 7,
        "at": "2026-11-30T15:00:00Z",
    }


@pytest.mark.parametrize(
    ("query", "sessions"),
    [
        ("tool=coffer__recall", ["s-3", "s-1"]),
        ("agent=codex", ["s-1", "s-0"]),
        ("agent=codex&tool=coffer__remember", ["s-0"]),
        ("outcome=BUSY", ["s-0"]),
        ("store=project-x", []),
        ("since=2026-11-30T15:00:00Z", ["s-4", "s-3"]),
        ("since=2026-11-30T15:00:00", ["s-4", "s-3"]),
        ("since=2026-11-30T17:00:00%2B02:00", ["s-4", "s-3"]),
        ("offset=1000000000", []),
    ],
)
def test_calls_are_filtered(api: Api, query: str, sessions: list[str]) -> None:
    assert [row["session"] for row in api.get(f"/invocations?{query}").json()["invocations"]] == sessions


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "offset=-1", "offset=99999999999999999999", "since=yesterday"]
)
@pytest.mark.parametrize("route", ["invocations", "audit"])
def test_what_cannot_be_asked_is_refused(api: Api, route: str, query: str) -> None:
    answer = api.get(f"/{route}?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "INVALID")


def test_changes_are_listed_and_filtered(api: Api) -> None:
    for event, store, actor in (("fact_added", "global", "agent"), ("fact_edited", "global", "user")):
        AuditEntry.objects.create(event=event, store=store, ref="01A", actor=actor, counts={"characters": 3}, at=NOON)
    answer = api.get("/audit").json()
    assert answer["total"] == 2
    assert answer["audit"][0] == {
        "event": "fact_edited",
        "store": "global",
        "ref": "01A",
        "actor": "user",
        "counts": {"characters": 3},
        "at": "2026-11-30T12:00:00Z",
    }
    for query, total in (
        ("event=fact_added", 1),
        ("actor=user", 1),
        ("store=global", 2),
        ("store=global&actor=agent&event=fact_edited", 0),
        ("since=2026-11-30T12:00:00Z", 2),
        ("since=2026-11-30T12:00:01Z", 0),
    ):
        assert api.get(f"/audit?{query}").json()["total"] == total


def test_bc_047_neither_record_holds_what_was_remembered_or_asked(api: Api) -> None:
    secret = "FAKE-hunter2-9x"
    fact = api.post("/memory_stores/global/facts", {"text": f"prod db password is {secret}"}).json()
    api.post("/memory_stores/global/recall", {"query": f"password {secret}"})
    api.delete(f"/memory_stores/global/facts/{fact['id']}")
    (kept,) = api.get("/memory_stores/global/superseded").json()["superseded"]
    api.post(f"/memory_stores/global/superseded/{kept['file']}/restore")
    for route in ("/audit", "/invocations"):
        answer = api.get(route).content.decode()
        assert secret.lower() not in answer.lower()
    assert api.get("/audit?event=superseded_restored").json()["audit"][0]["ref"] == fact["id"]
