"""Merging in the admin: the scan, a pair side by side with its evidence, the merge and the way back."""

import pytest

from coffer import paths
from memory.services import facts, store_files, stores
from tests.admin.conftest import Admin, shown
from tests.cases.steps import fingerprint
from tests.factories import StoreFactory

SCAN, PAIR, UNDO, APART = (f"memory_store_{page}" for page in ("merges", "merge_pair", "merge_undo", "merge_apart"))
A = "project-01ARZ3NDEKTSV4RRFFQ69G5FAV"
B = "project-01BX5ZZKBKACTAV9WEVGEMMVRZ"


@pytest.fixture
def pair(home: object) -> None:
    for name, label in ((A, "Older <b>widget</b>"), (B, "Widget")):
        StoreFactory(name=name, files={"knowledge/t.md": f"of {name}\n"})
        stores.set_label(stores.get(name), label)
        facts.add(stores.get(name), f"The okapi of {label}.")
        store_files.change(name, lambda file: file.with_(remote="git.example.org/acme/widget"))


def test_the_scan_shows_pairs_with_the_reason_and_changes_nothing(pair: None, site: Admin) -> None:
    before = fingerprint(paths.memory())
    page = site.get(SCAN)
    assert "Widget and Older <b>widget</b>" in shown(page)
    assert "certain: Both have the origin git.example.org/acme/widget." in shown(page)
    assert "<b>widget</b>" not in page
    assert fingerprint(paths.memory()) == before


def test_without_a_pair_the_scan_says_what_else_there_is(site: Admin) -> None:
    assert "coffer memory merge-scan" in shown(site.get(SCAN))


def test_a_pair_stands_side_by_side_and_is_merged_and_taken_apart_again(pair: None, site: Admin) -> None:
    before = fingerprint(paths.memory() / "projects")
    page = shown(site.get(PAIR, source=A, target=B))
    for text in (
        "Goes: Older <b>widget</b>",
        "Stays: Widget",
        "Both have the origin",
        "The okapi of Widget.",
        "t-2.md",
    ):
        assert text in page
    assert fingerprint(paths.memory() / "projects") == before
    done = shown(site.post(PAIR, fields={"source": A, "target": B}))
    assert "The stores are one now: 2 files." in done
    assert "Merged so far" in done
    assert not paths.store(A).exists()
    assert "2 files that the merge brought go" in shown(site.get(UNDO, source=A))
    assert "2 files were taken out again" in shown(site.post(UNDO, fields={"source": A}))
    assert fingerprint(paths.memory() / "projects") == before


def test_a_pair_is_told_apart_and_may_be_proposed_again(pair: None, site: Admin) -> None:
    assert "Not one project" in site.get(PAIR, source=A, target=B)
    said = shown(site.post(APART, fields={"source": A, "target": B}))
    assert "are told apart and will not be proposed again." in said
    assert "No two stores look like one project" in said
    assert "told apart" in shown(site.get(PAIR, source=A, target=B))
    said = shown(site.post(APART, fields={"source": A, "target": B, "undo": "1"}))
    assert "may be proposed again" in said
    assert "certain: Both have the origin" in said


def test_what_cannot_be_merged_is_a_message_and_no_error(pair: None, site: Admin) -> None:
    for source, target in ((A, A), (A, "global"), (A, "project-" + "0" * 26), ("", "")):
        page = shown(site.get(PAIR, source=source, target=target))
        assert any(words in page for words in ("never merged", "itself", "There is no store", "A store is named"))
    assert "No merge of" in shown(site.get(UNDO, source=A))


def test_a_stores_page_leads_to_the_scan(pair: None, site: Admin) -> None:
    assert site.address(SCAN) in site.get("memory_store_change", A)
    assert site.address(SCAN) not in site.get("memory_store_change", "global")
