"""Probable label errors in the training rows, by cleanlab, from the predictions of models that have not seen the row.

"Confident Learning: Estimating Uncertainty in Dataset Labels", Northcutt et al. 2021.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.diagnosis.cross_validation import finetuned_probabilities
from warmstart.diagnosis.evaluated_rows import Tables
from warmstart.diagnosis.mistakes import text_of
from warmstart.errors import MissingExtraError, RecipeError
from warmstart.evaluation.records.diagnosis import LabelError, LabelErrors
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.start_vectors import start_vectors
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.text_classification import TextClassification

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]
C = 10.0
"""The inverse strength of the logistic regression's penalty, on vectors of length 1 times the root of their width."""
SHARE_EXPONENT = 0.5
"""How much of a label's share is taken out: 0 is nothing, and with 1 rare labels are suspected everywhere."""


@dataclass(frozen=True)
class LabelErrorSearch:
    """How to search for label errors.

    Args:
        cv_model: `features` fits a logistic regression to vectors of the encoder that the run started from;
            `finetuned` trains the run's own recipe once per fold.
        folds: How many parts the rows are split into; each is predicted by a model that was trained on the others.
    """

    cv_model: Literal["features", "finetuned"] = "features"
    folds: int = 5


def find_label_errors(
    run: RunFolder, task: AnyTask, tables: Tables, search: LabelErrorSearch, most: int, progress: Progress = silent
) -> LabelErrors:
    """The training rows whose label is probably wrong, the least believable first."""
    schema = task.schema(task.options)
    if not isinstance(task, TextClassification) or task.multi_label:
        raise RecipeError(f"--label-errors: found the task {task.name}; expected classify with one label a row")
    load_cleanlab()
    rows = tables["train"]
    labels = list(rows.column("label"))
    columns = {name: list(rows.column(name)) for name in ("text", "pair") if name in rows.rows.column_names}
    fold = assign_folds(labels, list(zip(*columns.values(), strict=True)), search.folds)
    names = sorted(set(labels))
    if search.cv_model == "features":
        probabilities = regression_probabilities(vectors_of(run, rows, progress), labels, names, fold, progress)
        how = f"logistic regression on frozen features of {run.recipe.model}"
    else:
        probabilities = finetuned_probabilities(run, tables, fold, names, progress)
        how = "the recipe itself"
    probabilities = correct_for_shares(probabilities, labels, names)
    wrong, scores = suspects(labels, names, probabilities, search.folds)
    locations = list(rows.locations())
    listed = [
        LabelError(
            row=str(locations[index]),
            text=text_of(columns, index, schema),
            label=labels[index],
            suggested=names[int(probabilities[index].argmax())],
            score=float(scores[index]),
        )
        for index in wrong[:most]
    ]
    how = f"{how}, {search.folds}-fold cross-validation"
    return LabelErrors(how, len(labels), len(wrong), listed)


def correct_for_shares(
    probabilities: Numbers, labels: Sequence[str], names: Sequence[str], exponent: float = SHARE_EXPONENT
) -> Numbers:
    """Probabilities divided by a power of each label's share of the rows, and scaled to a sum of 1.

    A model of skewed data doubts the rows of rare labels and hardly those of a frequent one: uncorrected, most of what
    it lists are rare labels that are right ("Long-tail learning via logit adjustment", Menon et al. 2021).
    """
    counts = Counter(labels)
    shares = np.array([max(counts[name], 1) for name in names]) / len(labels)
    corrected = probabilities / shares**exponent
    sums = corrected.sum(axis=1, keepdims=True)
    scaled: Numbers = np.divide(corrected, sums, out=probabilities.copy(), where=sums > 0)
    return scaled


def suspects(labels: list[str], names: list[str], probabilities: Numbers, folds: int) -> tuple[list[int], Numbers]:
    """The rows that cleanlab takes for label errors, worst first, and every row's score: 0 is wrong, 1 is right.

    Rows of a label that has fewer rows than there are folds are not judged: too little could be learned about it.
    """
    cleanlab = load_cleanlab()
    from cleanlab.rank import get_label_quality_scores

    index_of = {name: number for number, name in enumerate(names)}
    given = np.array([index_of[label] for label in labels])
    # A probability of 0 for a label that no other fold has would break what cleanlab counts.
    positive = np.clip(probabilities, 1e-12, None)
    positive /= positive.sum(axis=1, keepdims=True)
    scores: Numbers = get_label_quality_scores(given, positive)
    # As many as confident learning counts, and those with the least believable labels: on real data with flipped labels
    # this finds more of them than cleanlab's default, which takes a share of every label.
    wrong = cleanlab.find_label_issues(
        given, positive, filter_by="low_self_confidence", return_indices_ranked_by="self_confidence", n_jobs=1
    )
    counts = Counter(labels)
    return [int(index) for index in wrong if counts[labels[int(index)]] >= folds], scores


def assign_folds(labels: list[str], texts: Sequence[Hashable], folds: int) -> Indices:
    """The fold of each row: labels spread evenly, rows of equal text in one."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    known: dict[Hashable, int] = {}
    groups = [known.setdefault(text, len(known)) for text in texts]
    if not 2 <= folds <= len(known):
        raise RecipeError(f"--folds {folds}: expected 2 or more, and no more than the {len(known)} texts there are")
    fold = np.zeros(len(labels), dtype=np.int64)
    kind = StratifiedKFold if len(known) == len(labels) else StratifiedGroupKFold
    if kind is StratifiedKFold and max(Counter(labels).values()) < folds:
        raise RecipeError(f"--folds {folds}: no label has so many training rows; set fewer folds")
    # scikit-learn warns of labels with fewer rows than folds, which are not judged.
    with warnings.catch_warnings(action="ignore"):
        for number, (_, test) in enumerate(kind(folds, shuffle=True, random_state=0).split(texts, labels, groups)):
            fold[test] = number
    return fold


def vectors_of(run: RunFolder, rows: Table, progress: Progress) -> Numbers:
    """The vector of each row by the encoder that the run started from."""
    if not run.recipe.model:
        raise RecipeError("--label-errors: the recipe starts an encoder from scratch; set --cv-model finetuned")
    return start_vectors(run, rows.dicts(), len(rows), progress)


def regression_probabilities(
    vectors: Numbers, labels: list[str], names: list[str], fold: Indices, progress: Progress = silent
) -> Numbers:
    """The probability of every label for each row, by a logistic regression on the rows of the other folds."""
    from sklearn.linear_model import LogisticRegression

    width = vectors.shape[1]
    scaled = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) * np.sqrt(width)
    given, probabilities = np.array(labels), np.zeros((len(labels), len(names)))
    index_of = {name: number for number, name in enumerate(names)}
    with progress.bar("folds", int(fold.max()) + 1) as bar:
        for number in range(int(fold.max()) + 1):
            test = fold == number
            model = LogisticRegression(C=C / width, max_iter=300).fit(scaled[~test], given[~test])
            columns = [index_of[name] for name in model.classes_]
            probabilities[np.ix_(test, columns)] = model.predict_proba(scaled[test])
            bar.advance()
    return probabilities


def load_cleanlab() -> ModuleType:
    """The library that finds label errors; where it is missing, an error that says how to install it."""
    try:
        import cleanlab.filter
    except ImportError:
        raise MissingExtraError("label errors are found by cleanlab: pip install 'warmstart[label-errors]'") from None
    module: ModuleType = cleanlab.filter
    return module
