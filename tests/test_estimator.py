"""The estimators behave as scikit-learn's do: in a pipeline, in cross-validation, in a grid search and in a pickle."""

import copy
import pickle
import re
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from small import reviews
from warmstart import TextClassifier, TextScorer
from warmstart.errors import DataError, RecipeError, RunError
from warmstart.storage.packed_folders import unpack

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


@pytest.fixture(scope="module")
def fitted(encoder):
    return TextClassifier(encoder, **FAST).fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [(np.nan, "nan (float)"), (None, "None"), (pd.NA, "<NA>"), (7, "7 (int)"), (b"b", "b'b' (bytes)")],
)
def test_a_missing_text_is_refused_with_its_index(encoder, fitted, text, shown):
    texts = ["a good film", "a bad film", text, "a film"]
    with pytest.raises(ValueError, match=re.escape(f"X[2]: found {shown}")):
        TextClassifier(encoder).fit(texts, [0, 1, 0, 1])
    with pytest.raises(DataError, match=r"^X\[2\]: "):
        fitted.predict(pd.Series(texts))


@pytest.mark.parametrize("label", [np.nan, None, pd.NA, pd.NaT, np.inf])
@pytest.mark.parametrize("kind", [TextClassifier, TextScorer])
@pytest.mark.parametrize("labels", [["pos", "neg"], [1.0, 0.0]])
def test_a_missing_label_is_refused_with_its_index(encoder, kind, labels, label):
    with pytest.raises(ValueError, match=r"^y\[1\]: found .*\(1 more like it\)"):
        kind(encoder).fit(["a", "b", "c", "d"], [labels[0], label, labels[1], label])


@pytest.mark.parametrize(
    ("X", "y", "problem"),
    [
        ("a good film", [1], "put a single text into a list"),
        ([], [], "found 0 texts"),
        (["a", "b", "c"], [0, 1], "found 3 texts and 2 answers"),
        (["a", ("b", "c")], [0, 1], r"X\[1\]: .*expected a text, as in X\[0\]"),
        ([("a", "b"), ("a", np.nan)], [0, 1], r"X\[1\]: found \('a', nan\)"),
        (["a", "b"], [1, 1], "found one class"),
        (["a", "b"], [0.5, 1.5], r"y\[0\]: .*continuous; TextScorer predicts numbers"),
        (["a", "b"], np.array([1, "x"], dtype=object), "labels of the types int, str"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(encoder, X, y, problem):
    with pytest.raises(ValueError, match=problem):
        TextClassifier(encoder).fit(X, y)


def test_a_number_that_is_none_is_refused_with_its_index(encoder):
    with pytest.raises(ValueError, match=r"^y\[1\]: found .*'high'.*expected a number"):
        TextScorer(encoder).fit(["a", "b"], [1, "high"])


def test_columns_of_a_data_frame_are_texts_or_pairs(fitted):
    frame = pd.DataFrame({"text": TEXTS[:4], "other": "it was fine"})
    assert fitted.predict(frame[["text"]]).tolist() == fitted.predict(TEXTS[:4]).tolist()
    with pytest.raises(DataError):  # it was trained on texts, not on pairs
        fitted.predict(frame)


def by_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))  # noqa: S301  our own, of a line before


def by_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


@pytest.mark.parametrize("way", [by_pickle, by_joblib, lambda model, folder: copy.deepcopy(model)])
def test_a_fitted_estimator_survives_a_pickle_without_its_folder(encoder, tmp_path, way):
    model = TextClassifier(encoder, epochs=1, class_weight="balanced").fit(TEXTS, LABELS)
    before, folder, parameters = model.predict_proba(TEXTS[:6]), model.run_.folder, model.get_params()
    again = way(model, tmp_path)
    del model
    assert not folder.exists()
    assert np.array_equal(again.predict_proba(TEXTS[:6]), before)
    assert again.get_params() == parameters
    assert again.run_.recipe.task.options == {"class_weight": "balanced"}
    assert not hasattr(clone(again), "run_")
    assert np.array_equal(way(again, tmp_path).predict_proba(TEXTS[:6]), before)


def test_an_unfitted_estimator_survives_a_pickle(encoder):
    model = TextScorer(encoder, epochs=2)
    assert by_pickle(model, None).get_params() == model.get_params()


@pytest.mark.parametrize(
    "name", ["../outside", "/dev/shm/outside", "model/../../outside", "a\\b", "C:x", "", ".", "a\0"]
)
def test_a_packed_file_outside_its_folder_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(RunError, match="not a file inside the folder"):
        unpack({"model/config.json": b"{}", name: b"x"}, tmp_path / "run")
    assert not list(tmp_path.iterdir())
    assert not Path("/dev/shm/outside").exists()


def test_class_weights_change_what_is_predicted(encoder):
    shares = [
        TextClassifier(encoder, class_weight=weight, **FAST).fit(TEXTS, LABELS * 1.0).predict(TEXTS).mean()
        for weight in (None, {0: 0.001, 1: 1000.0})  # 1 is the label 1.0
    ]
    assert shares == [pytest.approx(0.5, abs=0.1), 1]


def test_a_class_weight_that_is_none_is_refused(encoder):
    with pytest.raises(ValueError, match="class_weight: found 'balance', expected None, 'balanced' or a mapping"):
        TextClassifier(encoder, class_weight="balance").fit(TEXTS, LABELS)
    with pytest.raises(RecipeError, match="'maybe' is not a label of the data; known: 0, 1"):
        TextClassifier(encoder, class_weight={"maybe": 2.0}).fit(TEXTS, LABELS)
