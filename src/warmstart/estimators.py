"""Estimators for scikit-learn: a run behind `fit` and `predict`, for pipelines, cross-validation and grid search."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from warmstart.errors import DataError
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, make_recipe


class _TextEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share. Texts are strings, or pairs of strings."""

    _task = ""

    def __init__(
        self,
        model: str,
        *,
        learning_rate: float = 5e-5,
        epochs: float | None = None,
        batch_size: int = 32,
        max_tokens: int | None = None,
        seed: int = 0,
        precision: str = "auto",
        out: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.max_tokens = max_tokens
        self.seed = seed
        self.precision = precision
        self.out = out
        self.options = options

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Train on texts and their answers."""
        texts = _texts(X)
        if len(texts) != len(y):
            raise DataError(f"found {len(texts)} texts and {len(y)} answers; expected as many of each")
        rows = [_row(text, self._answer(answer)) for text, answer in zip(texts, y, strict=True)]
        folder = _free(Path(self.out)) if self.out else self._temporary()
        self.run_ = run_recipe(self._recipe("pair" in rows[0]), folder, rows={"train": rows})
        self.n_features_in_ = 1
        return self

    def _recipe(self, pair: bool) -> Any:
        said: dict[str, Any] = {
            "model": self.model,
            "task": self._task,
            "data.train": MEMORY,
            "data.split.test": 0,
            "training.learning_rate": self.learning_rate,
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "training.precision": self.precision,
            "seed": self.seed,
        }
        if pair:
            said["data.columns.pair"] = "pair"
        if self.max_tokens:
            said["window.max_tokens"] = self.max_tokens
        return make_recipe({**said, **(self.options or {})}, type(self).__name__)

    def _temporary(self) -> Path:
        """A folder that goes when this estimator does; give `out` to keep the run."""
        folder = Path(tempfile.mkdtemp(prefix="warmstart-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _answers(self, X: Sequence[Any]) -> list[dict[str, Any]]:
        check_is_fitted(self, "run_")
        found: list[dict[str, Any]] = self.run_.predict(_texts(X))
        return found

    def _answer(self, answer: Any) -> Any:
        return answer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


class TextClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """Classify texts, or pairs of texts; labels may be of any type, and come back as they were given.

    Args:
        model: The pretrained encoder: a folder, or a name on the Hugging Face Hub.
        options: Any other recipe field by its dotted key, as `{"training.lr_schedule": "cosine"}`.
        out: The run's folder, with a number behind it if it is taken; by default a temporary one, which goes when
            the estimator does, so that a fitted estimator without `out` cannot be pickled for later.
    """

    _task = "classify"

    def fit(self, X: Sequence[Any], y: Sequence[Any]) -> Self:
        """Train on texts and their labels."""
        self.classes_ = np.unique(np.asarray(y))
        self._names = {str(label): index for index, label in enumerate(self.classes_)}
        return super().fit(X, y)

    def predict(self, X: Sequence[Any]) -> Any:
        """The label of each text."""
        return self.classes_[[self._names[given["label"]] for given in self._answers(X)]]

    def predict_proba(self, X: Sequence[Any]) -> Any:
        """The probability of each label, in the order of `classes_`."""
        given = self._answers(X)
        return np.array([[one["probabilities"][str(label)] for label in self.classes_] for one in given])

    def _answer(self, answer: Any) -> str:
        return str(answer)


class TextScorer(RegressorMixin, _TextEstimator):  # type: ignore[misc]
    """Give a number to texts, or pairs of texts; takes what `TextClassifier` takes."""

    _task = "score"

    def predict(self, X: Sequence[Any]) -> Any:
        """The number of each text."""
        return np.array([given["score"] for given in self._answers(X)])

    def _answer(self, answer: Any) -> float:
        return float(answer)


def _free(folder: Path) -> Path:
    """The folder, or its name with a number: scikit-learn fits an estimator again and again."""
    number, found = 1, folder
    while found.exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def _texts(X: Sequence[Any]) -> list[Any]:
    """Texts as strings, or tuples of two, from a list, an array or a column of a data frame."""
    return [text if isinstance(text, str) else tuple(map(str, text)) for text in list(X)]


def _row(text: Any, answer: Any) -> dict[str, Any]:
    both = {"text": text} if isinstance(text, str) else dict(zip(("text", "pair"), text, strict=True))
    return {**both, "label": answer}
