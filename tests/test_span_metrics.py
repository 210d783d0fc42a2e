"""Exact match and F1 of answers, worked out by hand as SQuAD's own scripts have them."""

import pytest

from warmstart.tasks.shared import metrics


@pytest.mark.parametrize(
    ("gold", "given", "exact", "f1"),
    [
        (["Denver Broncos"], "the Denver Broncos!", 1, 1),  # case, articles and punctuation do not count
        (["Denver Broncos"], "Denver", 0, 2 / 3),  # precision 1, recall 1/2
        (["in May 1983", "1983"], "1983", 1, 1),  # the best of the right answers
        (["May 1983"], "May of 1983", 0, 0.8),  # precision 2/3, recall 1
        (["to to be"], "to be be", 0, 2 / 3),  # a word counts as often as both have it
        (["1983"], "", 0, 0),
        ([], "", 1, 1),  # no answer, and none was given
        ([], "1983", 0, 0),
        (["the"], "", 1, 1),  # nothing is left of the right answer, so it counts as none
        (["U.S."], "US", 1, 1),
        (["state-of-the-art"], "stateoftheart", 1, 1),  # punctuation goes first, and the article is inside a word
    ],
)
def test_an_answer_beside_the_right_ones(gold, given, exact, f1):
    assert metrics.answer_scores(gold, given) == (exact, pytest.approx(f1))


def test_f1_over_characters_for_text_without_spaces():
    assert metrics.answer_scores(["小笠原諸島"], "小笠原") == (0, 0)
    assert metrics.answer_scores(["小笠原諸島"], "小笠原", characters=True) == (0, pytest.approx(0.75))


def test_means_and_the_two_kinds_of_questions_apart():
    found = metrics.answers([["Denver Broncos"], ["1983"], []], ["Denver", "1983", "1983"])
    assert found == {
        "f1": pytest.approx(5 / 9),
        "exact_match": pytest.approx(1 / 3),
        "has_answer_f1": pytest.approx(5 / 6),
        "has_answer_exact_match": 0.5,
        "no_answer_accuracy": 0.0,
    }
    assert set(metrics.answers([["a b"]], ["b"])) == {"f1", "exact_match"}


@pytest.mark.parametrize(
    ("scores", "doubts", "has", "threshold"),
    [
        ([1, 1, 0], [-3, -1, 2], [True, True, False], -1),  # answer the first two, not the third
        ([1, 0.2, 0], [-3, 1, 0], [True, True, False], -3),  # 0.2 more is not worth 1 less
        ([0, 0], [1, 2], [False, False], 0),  # answer nothing
        ([1, 1], [1, 2], [True, True], 2),  # answer all
        ([1, 0, 1], [0, 0, 0], [True, False, True], 0),  # equal doubts are answered together
    ],
)
def test_the_best_threshold(scores, doubts, has, threshold):
    assert metrics.no_answer_threshold(scores, doubts, has) == threshold
