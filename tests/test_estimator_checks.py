"""scikit-learn's own checks of an estimator, on ours; `LEFT_OUT` lists those that do not apply to texts, and why.

The checks pass tables of numbers, which an estimator of texts refuses; where its tags say so, scikit-learn skips nearly
all of them. Here a subclass reads each row of numbers as a text, so that the checks run on the code behind it.
"""

import string

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_class_weight_classifiers,
    check_classifiers_train,
    check_regressors_train,
    parametrize_with_checks,
)

from tiny import save_tiny
from warmstart import TextClassifier, TextScorer

LEFT_OUT = {
    "check_n_features_in": "a text has no features; n_features_in_ is 1, whatever the width of the table",
    "check_n_features_in_after_fitting": "a text may have any number of words, also another one than in training",
    "check_fit2d_predict1d": "wants advice to reshape an array, but a one-dimensional array of texts is right",
    "check_complex_data": "numbers are refused, complex or not, but the check wants the words of scikit-learn",
    "check_estimators_nan_inf": "a missing text is refused by its index, but the check wants 'NaN' in capitals",
    "check_estimators_empty_data_messages": "a row without columns is an empty text, which the data checks refuse",
}
TRAINING = dict.fromkeys(
    ("check_classifiers_train", "check_class_weight_classifiers", "check_regressors_train"),
    "needs more training than the other checks, so it is a test of its own, below",
)
QUICK = {"max_tokens": 16, "precision": "fp32", "epochs": 1, "options": {"training.max_steps": 2}}
LONGER = {"max_tokens": 16, "precision": "fp32", "learning_rate": 5e-3, "epochs": 14}


def as_texts(X):
    """Rows of numbers as texts; anything else as it is."""
    table = X if hasattr(X, "nnz") else np.asarray(X)
    if getattr(table, "ndim", 0) != 2 or not all(isinstance(cell, float | int) for cell in np.ravel(table).tolist()):
        return X
    return [as_text(row) for row in table.tolist()]


def as_text(row):
    """A word for each number, by its column and size; a row in which a number is missing is a missing text."""
    missing = [number for number in row if not np.isfinite(number)]
    return missing[0] if missing else " ".join(as_word(column % 6, number) for column, number in enumerate(row))


def as_word(column, number):
    return (string.ascii_lowercase + string.digits + string.punctuation)[
        10 * column + round(min(9, max(0, 2 * number + 5)))
    ]


class OfNumbers:
    """An estimator of texts that are given as rows of numbers."""

    def fit(self, X, y):
        return super().fit(as_texts(X), y)

    def _predict(self, X):
        return super()._predict(as_texts(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


class Classifier(OfNumbers, TextClassifier):
    pass


class Scorer(OfNumbers, TextScorer):
    pass


@pytest.fixture(scope="module")
def small_encoder(tmp_path_factory):
    return str(save_tiny(tmp_path_factory.mktemp("small") / "encoder", num_hidden_layers=1))


@parametrize_with_checks(
    [Classifier("set below", **QUICK), Scorer("set below", **QUICK)],
    expected_failed_checks=lambda estimator: LEFT_OUT | TRAINING,
    xfail_strict=True,
)
def test_a_check_of_scikit_learn(estimator, check, small_encoder):
    check(estimator.set_params(model=small_encoder))


class Unvalidated:
    """For a check that ends with a row of another length: to a text, that is no error."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.no_validation = True
        return tags


class UnvalidatedClassifier(Unvalidated, Classifier):
    pass


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (UnvalidatedClassifier, check_classifiers_train),
        (Classifier, check_class_weight_classifiers),
        (Scorer, check_regressors_train),
    ],
)
def test_a_check_of_scikit_learn_that_needs_more_training(kind, check, small_encoder):
    check(kind.__name__, kind(small_encoder, **LONGER))


@pytest.mark.parametrize("kind", [TextClassifier, TextScorer])
def test_numbers_are_refused_without_the_subclass(kind, small_encoder):
    with pytest.raises(ValueError, match="expected texts"):
        kind(small_encoder).fit(np.ones((4, 2)), [0, 1, 0, 1])
