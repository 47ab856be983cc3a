"""Words and meaning in one score."""

from memory.retrieval.joining import MEANING, convex


def test_words_lead_and_meaning_decides_among_them() -> None:
    scores = convex({1: 4.0, 2: 3.9}, [{1: 0.2, 2: 0.9, 3: 0.8}])
    assert sorted(scores, key=lambda item: -scores[item]) == [2, 1, 3]


def test_scores_lie_between_0_and_1_whatever_the_lists_hold() -> None:
    scores = convex({1: 0.00001, 2: 0.000005}, [{1: -0.2, 3: 0.1}])
    assert all(0 <= score <= 1 for score in scores.values())


def test_what_only_meaning_finds_is_found_also_without_any_words() -> None:
    assert convex({}, [{7: 0.4}]) == {7: 1.0 * MEANING}
    assert convex({}, []) == {}


def test_a_half_embedded_store_gives_meaning_half_its_weight() -> None:
    whole = convex({1: 2.0, 2: 1.0}, [{1: 0.1, 2: 0.2, 3: 0.9}])
    half = convex({1: 2.0, 2: 1.0}, [{2: 0.2, 3: 0.9}])
    assert half[3] == whole[3] / 2
    assert half[1] > whole[1]


def test_models_are_spread_each_for_itself() -> None:
    scores = convex({}, [{1: 0.2, 2: 0.3}, {3: 0.90, 4: 0.95}])
    assert scores == {2: MEANING, 4: MEANING}


def test_what_is_farther_than_the_mean_is_found_by_its_words_only() -> None:
    assert set(convex({1: 2.0}, [{1: 0.1, 2: 0.2, 3: 0.9}])) == {1, 3}
