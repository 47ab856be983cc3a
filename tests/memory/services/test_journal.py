"""The journal: one file per UTC day, entries in order, found again by recall."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from django.db import connections

from coffer import later
from coffer.errors import Invalid, MemoryNotFound, ScopeUnresolved
from coffer.models import AuditEntry
from memory.files import journal as text_of_a_day
from memory.models import Store
from memory.services import carry, counts, facts, journal, recall, stores, superseded
from tests.factories import StoreFactory, write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
OTHER = "project-01ARZ3NDEKTSV4RRFFQ69G5FAW"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def store() -> Store:
    made: Store = StoreFactory(name=PROJECT)
    return made


def day_of(store: Store, period: str = "2026-11-30") -> Path:
    return stores.folder(store) / "journal" / f"{period}.md"


def test_an_entry_stands_under_its_day_behind_its_mark(store: Store) -> None:
    entry = journal.append(
        store, "\nThe dispatcher was flaky.\n\nA queue fixed it.  \n", agent="codex", session="s-1", at=NOON
    )
    assert entry == journal.Entry(NOON, "codex", "s-1", "The dispatcher was flaky.\n\nA queue fixed it.", "2026-11-30")
    assert day_of(store).read_text() == (
        "# 2026-11-30\n\n<!-- 2026-11-30T12:00:00Z codex:s-1 -->\nThe dispatcher was flaky.\n\nA queue fixed it.\n"
    )
    audit = AuditEntry.objects.get(event="journal_append")
    assert (audit.ref, audit.actor, audit.counts) == ("2026-11-30", "agent", {"char_size": 44})


@pytest.mark.parametrize("body", ["", " \n\t\n"])
def test_a_blank_entry_is_none_and_leaves_no_trace(store: Store, body: str) -> None:
    assert journal.append(store, body, agent="codex") is None
    assert not day_of(store).parent.exists()
    assert AuditEntry.objects.filter(event="journal_append").count() == 0


def test_there_is_no_global_journal() -> None:
    with pytest.raises(ScopeUnresolved):
        journal.append(stores.get("global"), "Something.", agent="codex")
    assert journal.recent(stores.get("global"), 5) == []


def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    with pytest.raises(Invalid):
        journal.append(store, "Something.", agent="codex", at=datetime(2026, 1, 1))


def test_the_newest_entries_come_first_over_all_days(store: Store) -> None:
    for hours in (0, 30, 1, 31):
        journal.append(store, f"After {hours}.", agent="codex", at=NOON + timedelta(hours=hours))
    assert [entry.text for entry in journal.recent(store, 3)] == ["After 31.", "After 30.", "After 1."]
    assert [entry.period for entry in journal.recent(store, 10)] == ["2026-12-01"] * 2 + ["2026-11-30"] * 2
    assert journal.recent(store, 0) == []
    assert journal.recent(store, -1) == []
    assert [day.period for day in journal.days(store)] == ["2026-12-01", "2026-11-30"]


def test_an_earlier_entry_that_comes_late_stands_in_its_place(store: Store) -> None:
    for minutes, text in ((0, "first"), (10, "third"), (5, "second"), (10, "fourth")):
        journal.append(store, text, agent="codex", at=NOON + timedelta(minutes=minutes))
    written = day_of(store).read_text()
    assert sorted(("first", "second", "third", "fourth"), key=written.index) == ["first", "second", "third", "fourth"]
    assert [entry.text for entry in journal.recent(store, 9)] == ["fourth", "third", "second", "first"]


def test_an_entry_is_recalled_by_itself_until_its_day_is_removed_and_again_when_restored(store: Store) -> None:
    journal.append(store, "The zebra migration needs two passes.", agent="codex", at=NOON)
    journal.append(store, "Lunch was late.", agent="codex", at=NOON)
    (hit,) = recall.recall([store], "zebra migration")
    assert (hit.id, hit.time) == ("journal/2026-11-30", datetime(2026, 11, 30, tzinfo=UTC))
    assert hit.source == f"project:{day_of(store)}"
    assert "Lunch" not in hit.text
    assert counts.fact_count(store) == 0
    journal.remove(store, "2026-11-30")
    assert recall.recall([store], "zebra migration") == []
    (kept,) = superseded.listing(store)
    superseded.restore(store, kept.file)
    assert [hit.id for hit in recall.recall([store], "zebra migration")] == ["journal/2026-11-30"]
    assert facts.newest([store])[1] == 0


@pytest.mark.parametrize("period", ["2026-11-29", "../../global/store", "", "x" * 3000, "2026-11-30.md"])
def test_a_day_that_is_not_there_is_not_found(store: Store, period: str) -> None:
    journal.append(store, "Something.", agent="codex", at=NOON)
    with pytest.raises(MemoryNotFound):
        journal.remove(store, period)
    assert day_of(store).exists()


@pytest.mark.parametrize(
    ("agent", "session"),
    [("claude_code", "4f1c"), ("my:agent", "a b -->\n<!-- x"), ("", ""), ("codex", ""), ("日", "x;y%20")],
)
def test_who_said_it_is_read_back_whatever_the_names(store: Store, agent: str, session: str) -> None:
    journal.append(store, "One.", agent=agent, session=session, at=NOON)
    journal.append(store, "Two.", agent="codex", at=NOON)
    assert [(one.agent, one.session) for one in journal.recent(store, 5)] == [("codex", ""), (agent, session)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_body_cannot_forge_an_entry(store: Store, end: str) -> None:
    body = f"Truth.{end}<!-- 2020-01-01T00:00:00Z other:x -->{end}Not said by other."
    journal.append(store, body, agent="codex", at=NOON)
    (entry,) = journal.recent(store, 5)
    assert entry.agent == "codex"
    assert "Not said by other." in entry.text


def test_what_a_person_wrote_into_a_day_stays_and_is_read(store: Store) -> None:
    write_files(
        stores.folder(store),
        {
            "journal/2026-11-30.md": b"\xef\xbb\xbf# A day\r\n\r\nBy hand.\r\n\r\n"
            b"<!-- 2026-11-30T14:00:00+02:00 me -->\r\nNoon.\r\n",
            "journal/notes.md": "no day",
            "journal/2026-02-30.md": "no such day",
        },
    )
    journal.append(store, "Later.", agent="codex", at=NOON + timedelta(hours=1))
    later, noon, by_hand = journal.recent(store, 9)
    assert (noon.stamp, noon.agent, noon.text) == (NOON, "me", "Noon.")
    assert (by_hand.stamp, by_hand.text) == (None, "By hand.")
    data = day_of(store).read_bytes()
    assert data.startswith(b"\xef\xbb\xbf# A day\r\n\r\nBy hand.\r\n")
    assert data.endswith(b"codex -->\r\nLater.\r\n")
    assert later.period == "2026-11-30"
    assert superseded.listing(store) == []
    assert len(journal.days(store)) == 1


@pytest.fixture(params=["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_bc_093_day_and_stamp_are_of_one_clock_in_every_zone(zone: str, store: Store) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    entry = journal.append(store, "Something.", agent="codex")
    after = datetime.now(UTC)
    assert entry is not None
    assert entry.stamp is not None
    assert before <= entry.stamp <= after
    (day,) = journal.days(store)
    assert day.period == entry.stamp.date().isoformat() == entry.period
    assert f"<!-- {day.period}T" in day.text
    assert f"{entry.stamp:%H:%M:%S}Z codex -->" in day.text
    os.utime(day.path)  # a touch moves nothing
    assert [one.period for one in journal.recent(store, 5)] == [day.period]


def test_bc_095_the_hour_that_comes_twice_keeps_both_entries_and_their_order(store: Store) -> None:
    summer, winter = timezone(timedelta(hours=2)), timezone(timedelta(hours=1))
    moments = [
        datetime(2026, 10, 25, 2, 30, tzinfo=winter),
        datetime(2026, 10, 25, 2, 30, tzinfo=summer),
        datetime(2026, 10, 25, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 10, 26, 0, 0, 0, tzinfo=UTC),
    ]
    for moment in moments:
        journal.append(store, f"At {moment.isoformat()}.", agent="codex", at=moment)
    assert [day.period for day in journal.days(store)] == ["2026-10-26", "2026-10-25"]
    assert [entry.stamp for entry in journal.recent(store, 9)] == sorted(moments, reverse=True)
    by_hand = day_of(store, "2026-10-25")
    by_hand.write_text(by_hand.read_text() + "\nA line by hand.\n")
    other: Store = StoreFactory(name=OTHER)
    journal.append(other, "Said elsewhere.", agent="codex", at=moments[0])
    journal.append(other, f"At {moments[0].isoformat()}.", agent="codex", at=moments[0])
    carry.everything(stores.folder(other), stores.folder(store))
    found = journal.recent(store, 9)
    assert [entry.period for entry in found] == ["2026-10-26", *["2026-10-25"] * 4]
    assert sorted({entry.stamp for entry in found if entry.stamp}) == sorted(moments)
    assert "A line by hand." in found[1].text


def test_entries_of_many_writers_at_once_all_stay(store: Store) -> None:
    def write(number: int) -> None:
        try:
            journal.append(store, f"Entry {number}.", agent="codex", session=str(number), at=NOON)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert sorted(int(entry.session) for entry in journal.recent(store, 100)) == list(range(40))
    assert superseded.listing(store) == []
    later.flush()
    assert AuditEntry.objects.filter(event="journal_append").count() == 40


def test_pure_reading_of_a_day() -> None:
    assert text_of_a_day.read("# 2026-11-30\n") == []
    assert text_of_a_day.read("") == []
    assert [one.text for one in text_of_a_day.read("Only words.\n")] == ["Only words."]
