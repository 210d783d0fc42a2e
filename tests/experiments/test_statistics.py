"""Intervals and tests: equal to the same by hand, and as often right as they say."""

import math

import numpy as np
import pytest
from scipy import stats

from warmstart.evaluation.statistics import (
    difference_over_rows,
    difference_over_seeds,
    hedges,
    holm,
    mcnemar,
    over_rows,
    over_seeds,
)


def test_the_t_interval_is_that_of_the_textbook():
    found = over_seeds([0.80, 0.82, 0.84, 0.81, 0.83])
    # 2.776 is Student's t for four degrees of freedom at 97.5%; the standard deviation is the root of 0.00025.
    half = 2.7764451 * math.sqrt(0.00025) / math.sqrt(5)
    assert (found.mean, found.low, found.high, found.count) == pytest.approx((0.82, 0.82 - half, 0.82 + half, 5))
    assert math.isnan(found.p)


def test_one_value_has_no_interval():
    for one in (over_seeds([0.8]), over_rows([0.8]), difference_over_seeds([0.8], [0.7])):
        assert one.count == 1
        assert math.isnan(one.low)
        assert math.isnan(one.p)
    assert math.isnan(over_seeds([]).mean)


def test_the_difference_over_seeds_is_paired():
    a, b = [0.80, 0.90, 0.70], [0.79, 0.88, 0.69]
    found = difference_over_seeds(a, b)
    assert found.p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    d = np.array(a) - b
    t = d.mean() / (d.std(ddof=1) / math.sqrt(3))
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2))
    # Unpaired, the spread over seeds would hide it.
    assert found.p < 0.1 < stats.ttest_ind(a, b).pvalue


def test_differences_without_spread_have_a_p():
    assert difference_over_seeds([0.5, 0.6], [0.5, 0.6]).p == 1
    assert difference_over_seeds([0.75, 0.5], [0.5, 0.25]).p == 0
    same = difference_over_rows([1, 0, 1], [1, 0, 1])
    assert (same.mean, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_the_bootstrap_interval_is_that_of_numpy():
    draw = np.random.default_rng(3)
    scores = (draw.random(400) < 0.8).astype(float)
    found = over_rows(scores)
    means = draw.choice(scores, size=(9999, 400)).mean(axis=1)
    assert (found.low, found.high) == pytest.approx(np.percentile(means, [2.5, 97.5]), abs=0.004)
    assert found == over_rows(scores), "the same numbers give the same interval"


def test_the_permutation_test_counts_every_swap_where_it_can():
    a, b = np.array([1.0, 1, 1, 1, 0, 1, 0, 1]), np.array([0.0, 0, 0, 0, 0, 1, 1, 0])
    d = (a - b)[a != b]
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(d))).reshape(len(d), -1).T
    sums = (signs * d).sum(axis=1)
    by_hand = 2 * (sums >= d.sum()).mean()
    assert difference_over_rows(a, b).p == pytest.approx(by_hand)


def test_the_permutation_test_of_many_rows_is_that_of_numpy():
    draw = np.random.default_rng(5)
    a, b = (draw.random(300) < 0.8).astype(float), (draw.random(300) < 0.74).astype(float)
    d = a - b
    sums = draw.choice([-1, 1], size=(9999, 300)) @ d
    assert difference_over_rows(a, b).p == pytest.approx((np.abs(sums) >= abs(d.sum())).mean(), abs=0.03)


def test_holm():
    # By hand: 0.01 × 4, 0.02 × 3, 0.03 × 2 raised to the one before, 0.5.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []
    with_unknown = holm([0.02, math.nan])
    assert with_unknown[0] == 0.02
    assert math.isnan(with_unknown[1])


def test_the_t_interval_covers_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(0)
    hits = []
    for values in draw.normal(0.8, 0.02, size=(2000, 4)):
        found = over_seeds(values)
        hits.append(found.low <= 0.8 <= found.high)
    # Three standard errors of a share of 0.95 in 2,000.
    assert np.mean(hits) == pytest.approx(0.95, abs=0.015)


def test_where_there_is_no_difference_the_permutation_test_says_so(monkeypatch):
    monkeypatch.setattr("warmstart.evaluation.statistics.RESAMPLES", 199)
    draw = np.random.default_rng(0)
    wrong = []
    for _ in range(400):
        hard = draw.random(60)
        a, b = ((draw.random((3, 60)) > hard).mean(axis=0) for _ in range(2))
        wrong.append(difference_over_rows(a, b).p <= 0.05)
    # At most 5% in the long run; three standard errors of that in 400.
    assert np.mean(wrong) <= 0.05 + 0.033


def test_where_there_is_a_difference_it_is_seen(monkeypatch):
    monkeypatch.setattr("warmstart.evaluation.statistics.RESAMPLES", 199)
    draw = np.random.default_rng(0)
    seen = [
        difference_over_rows(draw.random(200) < 0.9, (draw.random(200) < 0.7).astype(float)).p <= 0.05
        for _ in range(50)
    ]
    assert np.mean(seen) > 0.9


def test_a_single_row_of_difference_says_as_much_for_either_side():
    assert difference_over_rows([1.0, 1, 0], [1.0, 0, 0]).p == 1


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (5, 5), (1, 0), (7, 2), (2, 7), (40, 61)])
def test_mcnemar_counts_half_of_what_was_seen_itself(won, lost):
    chances = [math.comb(won + lost, k) / 2 ** (won + lost) for k in range(won + lost + 1)]
    fewer = min(won, lost)
    by_hand = 2 * (sum(chances[:fewer]) + chances[fewer] / 2)
    assert mcnemar(won, lost) == pytest.approx(min(by_hand, 1) if won != lost else 1)


def test_hedges_is_the_mean_in_standard_deviations_made_smaller():
    differences = np.array([0.01, 0.03, 0.02, 0.05])
    found = hedges(difference_over_seeds(differences, np.zeros(4)))
    assert found == pytest.approx(differences.mean() / differences.std(ddof=1) * (1 - 3 / 11))
    assert math.isnan(hedges(difference_over_seeds([0.1], [0.0])))
