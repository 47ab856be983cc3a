"""The ledger of deliveries: bounded, without content, and never in anybody's way."""

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from agents.models import Delivery
from agents.services import deliveries
from coffer import later, paths
from coffer.registry import ActivityFilter


def rows(agent: str, *events: str, outcome: str = "delivered") -> None:
    for event in events:
        deliveries.record(agent, event, outcome=outcome, bytes=10, items=1, ms=1.26)
    assert later.flush()


def test_the_newest_row_is_found_by_event_and_outcome() -> None:
    assert deliveries.last("codex") is None
    rows("codex", "SessionStart", "SessionEnd")
    rows("codex", "SessionStart", outcome="failed")
    rows("cursor", "SessionStart")

    def last(*event: str, **outcome: str) -> tuple[str, str]:
        row = deliveries.last("codex", *event, **outcome)
        assert row is not None
        return row.event, row.outcome

    assert last() == ("SessionStart", "failed")
    assert last("SessionEnd") == ("SessionEnd", "delivered")
    assert last("SessionStart", outcome="delivered") == ("SessionStart", "delivered")
    assert deliveries.last("codex", "UserPromptSubmit") is None


def test_pages_are_newest_first_and_tell_the_total() -> None:
    rows("codex", *["SessionStart"] * 5)
    found, total = deliveries.page("codex", limit=2, offset=1)
    assert total == 5
    assert [row.pk for row in found] == sorted((row.pk for row in found), reverse=True)
    assert len(found) == 2


def test_only_so_many_rows_of_one_agent_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "KEPT", 30)
    monkeypatch.setattr(deliveries, "_PRUNED_EVERY", 10)
    rows("cursor", "SessionStart")
    rows("codex", *["UserPromptSubmit"] * 100)
    assert Delivery.objects.filter(agent="codex").count() <= 30 + 10
    assert Delivery.objects.filter(agent="cursor").count() == 1
    newest, _ = deliveries.page("codex", limit=1)
    assert newest[0].pk == Delivery.objects.latest("pk").pk


def test_whatever_a_hook_says_fits_into_a_row() -> None:
    deliveries.record("a" * 99, "e" * 99, session="s" * 999, project="p" * 99, outcome="o" * 99)
    assert later.flush()
    row = Delivery.objects.get()
    assert (len(row.agent), len(row.event), len(row.session), len(row.project), len(row.outcome)) == (
        60,
        20,
        255,
        40,
        20,
    )


def test_a_row_that_met_a_lock_is_written_when_it_is_gone(home: Path) -> None:
    other = sqlite3.connect(paths.database(), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    deliveries.record("codex", "SessionStart", outcome="delivered")
    asked = timezone.now()
    other.execute("ROLLBACK")
    other.close()
    assert later.flush(30)
    assert abs(Delivery.objects.get().at - asked) < timedelta(seconds=2)


def test_the_activity_page_reads_them_by_store_agent_and_time() -> None:
    deliveries.record("codex", "SessionStart", project="global", bytes=3100, items=12, ms=7.4, outcome="delivered")
    rows("cursor", "SessionEnd", outcome="skipped")
    all_of_them = deliveries.recent(ActivityFilter())
    assert all_of_them.total == 2
    cursor, codex = all_of_them.events
    assert (codex.what, codex.who, codex.store) == ("SessionStart", "codex", "global")
    assert codex.counts == {"bytes": 3100, "items": 12, "ms": 7}
    assert cursor.counts["outcome"] == "skipped"
    assert [event.who for event in deliveries.recent(ActivityFilter(store="global")).events] == ["codex"]
    assert [event.who for event in deliveries.recent(ActivityFilter(who="cursor")).events] == ["cursor"]
    assert deliveries.recent(ActivityFilter(before=codex.at)).events == []
    assert len(deliveries.recent(ActivityFilter(limit=1)).events) == 1
