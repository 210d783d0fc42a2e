"""Metrics agree with numbers worked out by hand."""

import math

import pytest

from warmstart.tasks.shared import metrics


def test_one_label():
    found = metrics.one_label([0, 0, 1, 2], [0, 1, 1, 2])
    assert found["accuracy"] == pytest.approx(0.75)
    assert found["macro_f1"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_f1_of_the_positive_label_by_hand():
    """2 of 3 positive rows are found, with 1 false alarm, and 4 negative ones are right: TP 2, FP 1, FN 1."""
    gold = ["yes", "yes", "yes", "no", "no", "no", "no", "no"]
    given = ["yes", "yes", "no", "yes", "no", "no", "no", "no"]
    found = metrics.one_label(gold, given, "yes")
    assert found["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert (found["precision"], found["recall"]) == pytest.approx((2 / 3, 2 / 3))
    assert metrics.one_label(gold, given, "no")["f1"] == pytest.approx(2 * 4 / (2 * 4 + 1 + 1))
    assert "f1" not in metrics.one_label(gold, given)


def test_many_labels_with_a_row_that_has_none():
    found = metrics.many_labels([[1, 0], [0, 0], [1, 1]], [[1, 0], [0, 1], [1, 0]])
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["exact_match"] == pytest.approx(1 / 3)


def test_numbers():
    found = metrics.numbers([1, 2, 3], [1, 2, 5])
    assert found["mae"] == pytest.approx(2 / 3)
    assert found["rmse"] == pytest.approx(math.sqrt(4 / 3))
    assert found["spearman"] == pytest.approx(1)


def test_a_correlation_that_does_not_exist_is_not_zero():
    assert math.isnan(metrics.numbers([1, 2], [3, 3])["pearson"])


def test_relations_as_the_official_scorer_counts_them():
    """A: 1 right of 3 found (one the other way round, one in Other) and of 2 there are. B: 1 right of 1, of 2."""
    gold = ["A(e1,e2)", "A(e1,e2)", "B(e2,e1)", "Other", "B(e1,e2)", "Other"]
    given = ["A(e1,e2)", "A(e2,e1)", "B(e2,e1)", "A(e1,e2)", "Other", "Other"]
    found = metrics.relations(gold, given, "Other")
    a, b = 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2), 2 * 1 * (1 / 2) / (1 + 1 / 2)
    assert found["macro_f1"] == pytest.approx((a + b) / 2)
    assert found["micro_f1"] == pytest.approx(2 * 2 / (4 + 4))
    assert found["accuracy"] == pytest.approx(3 / 6)


def test_relations_without_directions_or_another_class_are_plain_labels():
    gold, given = ["a", "a", "b", "c"], ["a", "b", "b", "c"]
    expected = metrics.one_label([0, 0, 1, 2], [0, 1, 1, 2])
    found = metrics.relations(gold, given, "Other")
    assert (found["macro_f1"], found["accuracy"]) == pytest.approx((expected["macro_f1"], expected["accuracy"]))
    assert math.isnan(metrics.relations(["Other"], ["Other"], "Other")["macro_f1"])
