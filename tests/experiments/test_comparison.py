"""Comparing variants: the numbers, the words, and failed seeds, which are named and not averaged away."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warmstart.errors import RunError
from warmstart.evaluation.comparison import compare, compare_all, scores_over_seeds, summarize
from warmstart.evaluation.run_result import RunResult

COUNT = 200


@pytest.fixture
def rows(tmp_path):
    """Runs that never were: a variant's accuracy for each seed, as predictions in a folder."""

    def make(variant, values, failed=(), places=None):
        made = []
        for seed, value in enumerate(values):
            folder = tmp_path / variant / f"seed-{seed}"
            folder.mkdir(parents=True)
            right = round(value * COUNT) if value == value else 0
            # The wrong rows are at the end for all, as hard rows are; two variants differ at the border.
            given = ["a"] * right + ["b"] * (COUNT - right)
            names = places(seed) if places else [f"test.csv:{number}" for number in range(COUNT)]
            pq.write_table(
                pa.table({"row": names, "answer": ["a"] * COUNT, "label": given}), folder / "predictions.parquet"
            )
            why = "every answer is 'a'" if seed in failed else ""
            made.append(RunResult(variant, seed, folder, "test", {}, "accuracy", value, 8, 60.0, why))
        return made

    return make


def test_both_differences_are_those_by_hand(rows):
    a, b = rows("new", [0.80, 0.82, 0.85]), rows("plain", [0.70, 0.76, 0.74])
    found = compare(a, b)
    assert found.difference == pytest.approx(np.mean([0.10, 0.06, 0.11]))
    assert found.seeds.count == 3
    each = [np.repeat([1.0, 0.0], [round(v * COUNT), COUNT - round(v * COUNT)]) for v in (0.80, 0.82, 0.85)]
    assert scores_over_seeds(a) == pytest.approx(np.mean(each, axis=0))
    assert found.rows.mean == pytest.approx(found.difference)
    assert found.rows.count == COUNT
    assert found.rows.p < 0.001
    assert found.p == found.p_corrected == max(found.seeds.p, found.rows.p) == found.seeds.p
    assert found.significant
    assert found.sentence() == (
        "new is better than plain by 9.0 points, 95% interval 2.4 to 15.6 over seeds; 3 seeds each; p 0.028"
    )
    assert compare(b, a).sentence().startswith("plain is worse than new by 9.0 points, 95% interval -15.6 to -2.4")


def test_what_may_be_chance_is_said_to_be(rows):
    found = compare(rows("new", [0.80, 0.70]), rows("plain", [0.75, 0.74]))
    assert not found.significant
    assert "new is 0.5 points above plain, which may be chance, 95% interval" in found.sentence()
    one = compare(rows("one", [0.9]), rows("other", [0.5]))
    assert math.isnan(one.p)
    assert one.sentence() == "one is 40.0 points above other, which may be chance; 1 seed each"


def test_failed_seeds_are_counted_named_and_shown_with_and_without(rows):
    a, b = rows("new", [0.8, 0.8, 0.8, 0.8]), rows("plain", [0.78, 0.5, 0.79, math.nan], failed=(1, 3))
    found = compare(a, b)
    assert found.failed == {"new": (), "plain": (1, 3)}
    assert found.seeds.mean == pytest.approx((0.02 + 0.3 + 0.01) / 3)
    assert found.sound.mean == pytest.approx(0.015)
    assert "2 of plain failed (seed 1, 3); without failed seeds +1.5 points" in found.sentence()
    total = summarize(b)
    assert (total.all.mean, total.all.count) == pytest.approx((0.69, 3))
    assert (total.sound.mean, total.sound.count) == pytest.approx((0.785, 2))
    assert list(total.failed) == [1, 3]
    assert "plain: accuracy 0.6900 (95% interval" in total.sentence()
    assert "2 failed (seed 1, 3), without 0.7850" in total.sentence()


def test_runs_are_paired_by_seed_whatever_their_order(rows):
    a, b = rows("new", [0.80, 0.90, 0.70]), rows("plain", [0.79, 0.88, 0.69])
    assert compare(a[::-1], b) == compare(a, b)
    assert compare(a, b[:2]).seeds.count == 2


def test_rows_that_differ_between_seeds_are_not_compared_by_row(rows):
    def own(seed):
        return [f"train.csv:{seed * COUNT + number}" for number in range(COUNT)]

    found = compare(rows("new", [0.80, 0.82, 0.85], places=own), rows("plain", [0.70, 0.76, 0.74], places=own))
    assert found.rows is None
    assert found.p == found.seeds.p


def test_many_comparisons_are_corrected(rows):
    every = [*rows("plain", [0.70, 0.76, 0.74]), *rows("new", [0.80, 0.82, 0.85]), *rows("same", [0.70, 0.76, 0.75])]
    new, same = compare_all(every, "plain")
    assert (new.variant, same.variant) == ("new", "same")
    assert new.p_corrected == pytest.approx(2 * new.p)
    assert not new.significant, "at three seeds a correction for two takes it away"
    [only] = compare_all(every, {"new": "plain", "same": "missing"})
    assert only.p_corrected == only.p


def test_nothing_to_compare_is_an_error(rows):
    with pytest.raises(RunError, match="one or more on both sides"):
        compare([], rows("plain", [0.7]))
    with pytest.raises(RunError, match="one or more of one variant"):
        summarize([])
