"""Rankings whose scores do not compare are joined by place (FR-009)."""

import pytest

from memory.retrieval.fusion import reciprocal_rank_fusion


def test_what_stands_high_in_both_lists_comes_first() -> None:
    assert [item for item, _ in reciprocal_rank_fusion([["a", "b", "c"], ["b", "d"]])] == ["b", "a", "d", "c"]


def test_the_score_is_the_sum_of_reciprocal_places() -> None:
    assert dict(reciprocal_rank_fusion([["a", "b"], ["b"]], k=60)) == pytest.approx({"a": 1 / 61, "b": 1 / 62 + 1 / 61})


def test_one_list_keeps_its_order_and_ties_follow_the_lists() -> None:
    assert [item for item, _ in reciprocal_rank_fusion([[3, 1, 2]])] == [3, 1, 2]
    assert [item for item, _ in reciprocal_rank_fusion([["a"], ["b"]])] == ["a", "b"]


def test_an_item_counts_once_per_list() -> None:
    assert reciprocal_rank_fusion([["a", "a"]]) == [("a", 1 / 61)]


def test_no_lists_give_nothing() -> None:
    assert reciprocal_rank_fusion([]) == reciprocal_rank_fusion([[], []]) == []
