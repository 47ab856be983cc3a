"""Recall at the service: bounds, places, times, what is counted, and what it does to the disk."""

from pathlib import Path

import pytest

from coffer import later, paths
from coffer.errors import Invalid
from memory.models import Use
from memory.services import facts, recall, stores
from tests.cases.steps import fingerprint, foreign_lock
from tests.factories import StoreFactory, write_files

PROJECT = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize("top_k", [0, 21, -5])
def test_a_top_k_out_of_range_is_refused(top_k: int) -> None:
    with pytest.raises(Invalid, match="from 1 to 20"):
        recall.recall([stores.provision("global")], "x", top_k=top_k)


def test_a_hit_tells_where_it_stands_and_when_it_was_written() -> None:
    store = StoreFactory(
        name=PROJECT,
        files={
            "knowledge/t.md": "---\ntitle: Okapi\nupdated_at: 2026-10-01T12:00:00+02:00\n---\n\nokapi topic\n",
            "journal/2026-10-02.md": "# 2026-10-02\n\n<!-- 2026-10-02T10:00:00Z codex:s -->\n\nokapi day\n",
        },
    )
    found = {hit.id: hit.as_dict() for hit in recall.recall([store], "okapi")}
    assert found["t"]["source"] == f"project:{paths.store(PROJECT) / 'knowledge/t.md'}"
    assert found["t"]["time"] == "2026-10-01T10:00:00Z"
    assert found["journal/2026-10-02"]["time"] == "2026-10-02T00:00:00Z"
    assert set(found["t"]) == {"id", "text", "score", "source", "time"}


def test_what_a_project_remembers_beats_an_equal_global_fact() -> None:
    stores_ = [
        StoreFactory(name=name, files={"knowledge/inbox/a.md": f"okapi of {name}\n"}) for name in ("global", PROJECT)
    ]
    assert [hit.source.split(":")[0] for hit in recall.recall(stores_, "okapi")] == ["project", "global"]


def test_a_recall_touches_no_file_and_counts_what_it_gave() -> None:
    store = StoreFactory(name="global", files={"knowledge/inbox/a.md": "okapi\n", "knowledge/inbox/b.md": "zebra\n"})
    before = fingerprint(paths.memory())
    for _ in range(2):
        recall.recall([store], "okapi")
    later.flush()
    assert fingerprint(paths.memory()) == before
    assert [(use.ref, use.recalled) for use in Use.objects.all()] == [("a", 2)]


def test_what_the_words_cannot_find_the_files_can() -> None:
    store = StoreFactory(
        name="global", files={"knowledge/inbox/a.md": "set FOO__BAR-7?x in the env\n", "knowledge/inbox/b.md": "b\n"}
    )
    assert [hit.id for hit in recall.recall([store], "O__BAR-7?")] == ["a"]


def test_a_file_found_on_disk_answers_with_the_passage_that_holds_the_words() -> None:
    sections = "".join(f"## Section {number}\n\nordinary text number {number}\n\n" for number in range(20))
    store = StoreFactory(name="global", files={"knowledge/t.md": "# T\n\nintroduction\n\n" + sections})
    recall.recall([store], "warm")
    with foreign_lock():
        write_files(
            paths.store("global"),
            {"knowledge/u.md": "# U\n\nintroduction\n\n" + sections + "## Last\n\nthe okapi stands here\n"},
        )
        (hit,) = recall.recall([store], "okapi stands")
    assert (hit.id, hit.text.splitlines()[-1]) == ("u", "the okapi stands here")


def test_a_file_that_cannot_be_read_is_listed_and_stops_nobody(tmp_path: Path) -> None:
    store = StoreFactory(name="global", files={"knowledge/inbox/a.md": "okapi\n"})
    (paths.store("global") / "knowledge" / "folder.md").mkdir()
    assert [hit.id for hit in recall.recall([store], "okapi")] == ["a"]
    assert facts.newest([store])[1] == 1
