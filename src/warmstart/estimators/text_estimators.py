"""A classifier and a regressor of texts with the interface of scikit-learn; a fitted one has a run."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from warmstart.errors import InputError
from warmstart.estimators.inputs import TextOrPair, read_answers, read_labels, read_numbers, read_texts
from warmstart.evaluation.run import RunFolder
from warmstart.options import Values
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, Recipe, make_recipe
from warmstart.storage.packed_folders import pack, unpack

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from warmstart.tasks.base import Answer


class _TextEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share. Texts are strings, or pairs of strings."""

    _task = ""

    def __init__(
        self,
        model: str,
        *,
        learning_rate: float | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        seed: int = 0,
        precision: str = "auto",
        out: str | None = None,
        options: Values | None = None,
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

    def fit(self, X: Sequence[object], y: Sequence[object]) -> Self:
        """Train on texts and their answers."""
        texts, answers = read_texts(X), read_answers(y, type(self).__name__)
        if len(texts) != len(answers):
            raise InputError(f"found {len(texts)} texts and {len(answers)} answers; expected as many of each")
        rows = [_row(text, answer) for text, answer in zip(texts, self._learn(answers), strict=True)]
        folder = _unused(Path(self.out)) if self.out else self._temporary()
        self.run_ = run_recipe(self._recipe("pair" in rows[0]), folder, rows={"train": rows})
        self.n_features_in_ = 1
        return self

    def _recipe(self, pair: bool) -> Recipe:
        fields: Values = {
            "model": self.model,
            "task": self._task,
            "data.train": MEMORY,
            "data.split.test": 0,
            "training.learning_rate": self.learning_rate,
            "training.epochs": self.epochs,
            "training.batch_size": self.batch_size,
            "training.precision": self.precision,
            "seed": self.seed,
            **self._task_options(),
        }
        if pair:
            fields["data.columns.pair"] = "pair"
        if self.max_tokens:
            fields["window.max_tokens"] = self.max_tokens
        return make_recipe({**fields, **(self.options or {})}, type(self).__name__)

    def _task_options(self) -> Values:
        return {}

    def _temporary(self) -> Path:
        """A folder that is removed together with this estimator."""
        folder = Path(tempfile.mkdtemp(prefix="warmstart-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _predict(self, X: Sequence[object]) -> list[Answer]:
        check_is_fitted(self, "run_")
        answers: list[Answer] = self.run_.predict(read_texts(X))
        return answers

    def _learn(self, answers: NDArray[Any]) -> Sequence[object]:
        """The answers as the task reads them."""
        raise NotImplementedError

    def __getstate__(self) -> Values:
        """What a pickle holds: the files of the run instead of its path, so that it can be opened anywhere."""
        state = dict(super().__getstate__())
        if "run_" in state:
            state["run_"] = pack(self.run_.folder, leave_out="checkpoints")
        return state

    def __setstate__(self, state: Values) -> None:
        files = state.pop("run_", None)
        super().__setstate__(state)
        if files is not None:
            folder = self._temporary()
            unpack(files, folder)
            self.run_ = RunFolder(folder)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


class TextClassifier(ClassifierMixin, _TextEstimator):  # type: ignore[misc]
    """A classifier of texts, or of pairs of texts; labels may be of any type and are returned as given.

    Args:
        model: The pretrained encoder: a folder, or a name on the Hugging Face Hub.
        learning_rate: The peak learning rate; by default 5e-5, or what a rule for the task and the encoder says.
        epochs: The number of epochs; by default 3, or more on small data.
        batch_size: Rows per optimizer step; by default 32, or what a rule says.
        max_tokens: The maximum number of tokens in an input; by default as many as the encoder supports, at most 512.
        seed: The random seed.
        precision: `auto` is bf16 if the hardware supports it, otherwise fp32.
        class_weight: `balanced`, or a mapping from label to its weight in the loss, 1 for a label that is not in it;
            None for equal weights.
        options: Any other recipe fields by their dotted keys, such as `{"training.lr_schedule": "cosine"}`.
        out: The folder of the run, with a number appended if it exists. By default it is a temporary folder, which is
            removed together with the estimator. A pickle holds a copy of the run either way.
    """

    _task = "classify"

    def __init__(
        self,
        model: str,
        *,
        learning_rate: float | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        class_weight: str | Mapping[object, float] | None = None,
        seed: int = 0,
        precision: str = "auto",
        out: str | None = None,
        options: Values | None = None,
    ) -> None:
        super().__init__(
            model,
            learning_rate=learning_rate,
            epochs=epochs,
            batch_size=batch_size,
            max_tokens=max_tokens,
            seed=seed,
            precision=precision,
            out=out,
            options=options,
        )
        self.class_weight = class_weight

    def predict(self, X: Sequence[object]) -> NDArray[Any]:
        """Predict the label of each text."""
        answers = self._predict(X)
        return self.classes_[[self._indices[answer["label"]] for answer in answers]]

    def predict_proba(self, X: Sequence[object]) -> NDArray[np.float64]:
        """Predict the probability of each label, in the order of `classes_`."""
        answers = self._predict(X)
        return np.array([[answer["probabilities"][str(label)] for label in self.classes_] for answer in answers])

    def _task_options(self) -> Values:
        weight = self.class_weight
        if weight is None or weight == "balanced":
            return {"task.class_weight": weight} if weight else {}
        if not isinstance(weight, Mapping):
            raise InputError(f"class_weight: found {weight!r:.60}, expected None, 'balanced' or a mapping by label")
        # By equality, as in scikit-learn: 1 is the label 1.0.
        names = {label: str(label) for label in getattr(self, "classes_", ())}
        return {"task.class_weight": {names.get(label, str(label)): value for label, value in weight.items()}}

    def _learn(self, answers: NDArray[Any]) -> list[str]:
        self.classes_ = read_labels(answers)
        self._indices = {str(label): index for index, label in enumerate(self.classes_)}
        return [str(answer) for answer in answers]


class TextScorer(RegressorMixin, _TextEstimator):  # type: ignore[misc]
    """A regressor of texts, or of pairs of texts; has the parameters of `TextClassifier` except `class_weight`."""

    _task = "score"

    def predict(self, X: Sequence[object]) -> NDArray[np.float64]:
        """Predict a number for each text."""
        return np.array([answer["score"] for answer in self._predict(X)])

    def _learn(self, answers: NDArray[Any]) -> list[float]:
        return read_numbers(answers)


def _unused(folder: Path) -> Path:
    """The folder, or its name with a number: scikit-learn fits an estimator many times."""
    number, unused = 1, folder
    while unused.exists():
        number += 1
        unused = folder.with_name(f"{folder.name}-{number}")
    return unused


def _row(text: TextOrPair, answer: object) -> dict[str, object]:
    texts = {"text": text} if isinstance(text, str) else dict(zip(("text", "pair"), text, strict=True))
    return {**texts, "label": answer}
