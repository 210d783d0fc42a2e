"""Probabilities that can be trusted are told from those that cannot, and thresholds reach their targets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmstart.diagnosis.calibration import calibrate, halves, logits_of, probabilities, reliability
from warmstart.diagnosis.thresholds import for_abstaining, for_precision, measure
from warmstart.evaluation.records.diagnosis import Threshold
from warmstart.models.temperature import fit_temperature


def simulated(rows=20000, labels=4, seed=0):
    """Logits, and answers drawn from the very probabilities that these say: perfectly calibrated."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (rows, labels))
    targets = (probabilities(logits, 1.0).cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    return logits, targets


def sure(logits, targets):
    return probabilities(logits, 1.0).max(axis=1), logits.argmax(axis=1) == targets


def test_what_is_calibrated_is_found_so():
    assert reliability(*sure(*simulated())).ece < 0.015
    assert fit_temperature(*simulated()) == pytest.approx(1, abs=0.03)


def test_too_sure_a_model_is_found_out_and_mended():
    (logits, targets), (others, truth) = simulated(), simulated(seed=1)
    result = calibrate((3 * logits, targets), (3 * others, truth), "dev")
    assert result.temperature == pytest.approx(3, abs=0.1)
    assert result.before.ece > 0.15
    assert result.after.ece < 0.02
    assert result.fitted_on == "dev"
    assert sum(one.rows for one in result.after.bins) == len(truth)


def test_probabilities_say_the_logits_and_rows_may_have_fewer():
    found = logits_of([{"probabilities": [0.5, 0.25, 0.25]}, {"probabilities": [1.0, 0.0]}])
    assert probabilities(found, 1.0) == pytest.approx(np.array([[0.5, 0.25, 0.25], [1, 0, 0]]))


@given(st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1), st.floats(0.05, 20))
@settings(max_examples=50, deadline=None)
def test_a_temperature_makes_no_other_answer_the_likeliest(logits, temperature):
    found = np.array(logits)
    best = probabilities(found, temperature).argmax(axis=1)
    assert (found[np.arange(len(found)), best] >= found.max(axis=1) - 1e-9).all()


def test_halves_are_all_rows_once():
    first, second = halves(11)
    assert sorted([*first, *second]) == list(range(11))


@pytest.mark.parametrize("wanted", [0.8, 0.9, 0.95])
def test_a_threshold_brings_the_wanted_precision_on_other_rows(wanted):
    least = for_precision(*sure(*simulated()), wanted)
    result = measure(*sure(*simulated(seed=1)), least, "dev")
    assert wanted - 0.005 < result.measured < wanted + 0.02
    assert 0.05 < result.answered < 1
    assert result.low <= result.measured <= result.high


def test_a_threshold_keeps_the_share_to_hold_back():
    least = for_abstaining(sure(*simulated())[0], 0.1)
    assert measure(*sure(*simulated(seed=1)), least, "dev").answered == pytest.approx(0.9, abs=0.01)


def test_a_precision_that_is_there_anyway_or_never():
    confidence, right = np.linspace(0.5, 1, 100), np.ones(100, dtype=bool)
    assert for_precision(confidence, right, 0.95) == 0.0
    assert for_precision(confidence[:10], right[:10], 0.95) is None  # ten may be right by chance
    assert for_precision(confidence, ~right, 0.5) is None
    assert measure(confidence, right, None, "dev") == Threshold(
        confidence=None, answered=0.0, rows=100, measured=None, low=None, high=None, chosen_on="dev"
    )


def test_equal_confidences_are_kept_or_held_back_together():
    confidence = np.array([0.9] * 60 + [0.8] * 60)
    right = np.array([True] * 90 + [False] * 30)
    assert for_precision(confidence, right, 0.9) == 0.9
