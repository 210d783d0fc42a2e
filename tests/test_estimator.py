"""The estimators behave as scikit-learn's do: in a pipeline, in cross-validation and in a grid search."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from small import reviews
from warmstart import TextClassifier, TextScorer
from warmstart.errors import DataError

ROWS = reviews(48)
TEXTS = [text for text, _ in ROWS]
LABELS = np.array([1 if label == "pos" else 0 for _, label in ROWS])
FAST = {"learning_rate": 3e-3, "epochs": 14, "batch_size": 12, "precision": "fp32"}


def test_labels_come_back_as_they_were_given(encoder):
    model = TextClassifier(encoder, **FAST).fit(TEXTS, LABELS)
    found = model.predict(["a good and great film", "a bad and boring film"])
    assert found.dtype == LABELS.dtype
    assert found.tolist() == [1, 0]
    chances = model.predict_proba(TEXTS[:5])
    assert chances.shape == (5, 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (model.classes_[chances.argmax(axis=1)] == model.predict(TEXTS[:5])).all()


def test_in_a_pipeline_and_in_cross_validation(encoder):
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, TextClassifier(encoder, **FAST))
    scores = cross_val_score(pipeline, np.array([text.upper() for text in TEXTS]), LABELS, cv=2, error_score="raise")
    assert scores.mean() > 0.8


def test_in_a_grid_search(encoder):
    search = GridSearchCV(TextClassifier(encoder, **FAST), {"learning_rate": [1e-9, 3e-3]}, cv=2, error_score="raise")
    search.fit(TEXTS, LABELS)
    assert search.best_params_ == {"learning_rate": 3e-3}
    assert search.best_estimator_.score(TEXTS, LABELS) > 0.9


def test_pairs_and_numbers(encoder):
    pairs = [(text, "it was fine") for text in TEXTS]
    model = TextScorer(encoder, **{**FAST, "epochs": 60}).fit(pairs, LABELS * 3.0)
    assert model.score(pairs, LABELS * 3.0) > 0.5
    assert model.predict(pairs[:2])[1] < model.predict(pairs[:2])[0]


def test_a_clone_is_unfitted_and_equal_and_the_run_is_kept_where_asked(encoder, tmp_path):
    model = TextClassifier(
        encoder, learning_rate=1e-3, epochs=1, out=str(tmp_path / "run"), options={"training.lr_schedule": "constant"}
    )
    assert clone(model).get_params() == model.get_params()
    model.fit(TEXTS, LABELS)
    assert (tmp_path / "run" / "model" / "model.safetensors").is_file()
    assert model.run_.recipe.training.lr_schedule == "constant"


def test_a_text_that_is_no_text_is_refused_with_its_row(encoder):
    with pytest.raises(DataError, match="row 3"):
        TextClassifier(encoder, epochs=1).fit(["a", "b", "   "], [0, 1, 1])


def test_class_weights_are_those_of_the_recipe(encoder):
    assert TextClassifier(encoder)._recipe(pair=False).task.options == {}
    balanced = TextClassifier(encoder, class_weight="balanced")
    assert balanced._recipe(pair=False).task.options == {"class_weight": "balanced"}
    assert clone(balanced).class_weight == "balanced"
    by_label = TextClassifier(encoder, class_weight={1: 2.0, 0: 1.0})
    assert by_label._recipe(pair=False).task.options == {"class_weight": {"1": 2.0, "0": 1.0}}
