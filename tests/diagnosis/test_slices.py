"""A bad slice is found, chance is not called one; entities and confusions are counted as they are."""

from itertools import pairwise

import numpy as np

from warmstart.diagnosis.confusion import confusion_matrix, frequent_confusions
from warmstart.diagnosis.slices import compare_slices
from warmstart.evaluation.records.diagnosis import ConfusionMatrix
from warmstart.tasks.shared.entities import matched
from warmstart.tasks.shared.error_tables import quantiles


def cut(count, parts):
    return [("length", f"part {number}", list(range(number, count, parts))) for number in range(parts)]


def test_a_planted_bad_slice_is_found_first():
    right = np.random.default_rng(0).random(2000) < 0.9
    bad = range(0, 2000, 20)
    right[list(bad)] = np.random.default_rng(1).random(100) < 0.6
    found, _ = compare_slices(right.astype(float), [*cut(2000, 7), ("source", "the old form", list(bad))])
    assert found[0].name == "the old form"
    assert found[0].significant
    assert found[0].low < found[0].value < found[0].high < found[0].rest
    assert not any(one.significant for one in found[1:])


def test_no_slice_is_called_bad_by_chance():
    cried = 0
    for seed in range(40):
        right = (np.random.default_rng(seed).random(600) < 0.8).astype(float)
        cried += any(one.significant for one in compare_slices(right, cut(600, 12))[0])
    assert cried <= 4  # one in 20 families may


def test_scores_between_0_and_1_are_tested_too():
    scores = np.random.default_rng(0).random(400)
    scores[::10] *= 0.2
    found, small = compare_slices(scores, [*cut(400, 10), ("label", "rare", [1, 2])])
    assert [one.name for one in found if one.significant] == ["part 0"]
    assert small == 1


def test_a_confusion_matrix_counts_rows_as_in_the_data():
    pairs = [("b", "b"), ("a", "b"), ("a", "b"), ("a", "c")]
    matrix = ConfusionMatrix(["b", "a", "c"], [[1, 0, 0], [2, 0, 1], [0, 0, 0]])
    assert confusion_matrix(pairs, ["b", "a"]) == matrix
    assert frequent_confusions(pairs)["rows"][0] == ["a", "b", 2, 2 / 3]
    assert frequent_confusions([("a", "a")]) is None


def test_entities_that_touch_belong_together():
    gold = [entity(0, 5, "PER"), entity(10, 15, "LOC"), entity(20, 25, "ORG"), entity(30, 35, "ORG")]
    given = [entity(0, 5, "PER"), entity(10, 18, "LOC"), entity(20, 25, "PER"), entity(40, 45, "LOC")]
    assert sorted(matched(gold, given)) == [
        ("LOC", "LOC", "boundary"),
        ("O", "LOC", "spurious"),
        ("ORG", "O", "missed"),
        ("ORG", "PER", "type"),
        ("PER", "PER", "right"),
    ]


def entity(start, end, label):
    return {"start": start, "end": end, "label": label}


def test_quantiles_hold_every_value_once_and_equals_together():
    values = [1, 1, 1, 1, 2, 3, 4, 5, 9, 9]
    found = list(quantiles(values, 3))
    assert sorted(index for _, _, chosen in found for index in chosen) == list(range(10))
    assert len(found) > 1
    assert all(one[1] < two[0] for one, two in pairwise(found))
