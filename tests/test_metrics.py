"""Metrics agree with numbers worked out by hand."""

import math

import pytest

from warmstart import metrics


def test_one_label():
    found = metrics.one_label([0, 0, 1, 2], [0, 1, 1, 2])
    assert found["accuracy"] == pytest.approx(0.75)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_many_labels_with_a_row_that_has_none():
    found = metrics.many_labels([[1, 0], [0, 0], [1, 1]], [[1, 0], [0, 1], [1, 0]])
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["exact"] == pytest.approx(1 / 3)


def test_numbers():
    found = metrics.numbers([1, 2, 3], [1, 2, 5])
    assert found["mae"] == pytest.approx(2 / 3)
    assert found["rmse"] == pytest.approx(math.sqrt(4 / 3))
    assert found["spearman"] == pytest.approx(1)


def test_a_correlation_that_does_not_exist_is_not_zero():
    assert math.isnan(metrics.numbers([1, 2], [3, 3])["pearson"])
