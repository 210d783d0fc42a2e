"""Probable label errors among the training rows, by cleanlab, from answers of models that have not seen a row's label.

"Confident Learning: Estimating Uncertainty in Dataset Labels", Northcutt et al. 2021.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.diagnosis.cross_validation import trained_chances
from warmstart.diagnosis.evaluated_rows import Tables, places_of
from warmstart.diagnosis.mistakes import text_of
from warmstart.errors import MissingExtra, RecipeError
from warmstart.evaluation.run import RunFolder
from warmstart.inference.features import Extractor
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Task

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]
STRENGTH = 10.0
"""The inverse of the logistic regression's penalty, on vectors of length 1 times the root of their width."""


@dataclass(frozen=True)
class Looking:
    """How to look for label errors.

    Args:
        how: `features` fits a logistic regression to vectors of the encoder that the run started from; `trained` has
            the run's own recipe trained once for each fold.
        folds: In how many parts the rows are cut; each is answered by what was learned from the others.
    """

    how: Literal["features", "trained"] = "features"
    folds: int = 5


def find_label_errors(
    run: RunFolder, task: Task[Any], tables: Tables, looking: Looking, most: int, progress: Progress = silent
) -> dict[str, Any]:
    """The training rows whose label is probably wrong, the least believable first."""
    schema = task.schema(task.options)
    if task.name != "classify" or not task.likeliest:
        raise RecipeError(f"--label-errors: found the task {task.name}; expected classify with one label a row")
    filter_module()
    rows = tables["train"]
    labels = list(rows.column("label"))
    columns = {name: list(rows.column(name)) for name in ("text", "pair") if name in rows.rows.column_names}
    fold = cut(labels, list(zip(*columns.values(), strict=True)), looking.folds)
    names = sorted(set(labels))
    if looking.how == "features":
        chances = regression_chances(vectors_of(run, rows, progress), labels, names, fold, progress)
        how = f"logistic regression on frozen features of {run.recipe.model}"
    else:
        chances = trained_chances(run, tables, fold, names, progress)
        how = "the recipe itself"
    found, scores = suspects(labels, names, chances, looking.folds)
    places = places_of(rows)
    listed = [
        {
            "row": places[index],
            "text": text_of(columns, index, schema),
            "answer": labels[index],
            "suggested": names[int(chances[index].argmax())],
            "score": float(scores[index]),
        }
        for index in found[:most]
    ]
    about = f"{how}, {looking.folds} folds, each row answered by what was learned from the others"
    return {"how": about, "looked_at": len(labels), "found": len(found), "rows": listed}


def suspects(labels: list[str], names: list[str], chances: Numbers, folds: int) -> tuple[list[int], Numbers]:
    """The rows that cleanlab takes for label errors, worst first, and every row's score: 0 is wrong, 1 is right.

    Rows of a label that has fewer rows than there are folds are not judged: too little was learned of it.
    """
    cleanlab = filter_module()
    from cleanlab.rank import get_label_quality_scores

    place = {name: number for number, name in enumerate(names)}
    given = np.array([place[label] for label in labels])
    # A probability of 0 for a label that no other fold has would break what cleanlab counts.
    sound = np.clip(chances, 1e-12, None)
    sound /= sound.sum(axis=1, keepdims=True)
    scores: Numbers = get_label_quality_scores(given, sound)
    # As many as confident learning counts, and those with the least believable labels: on real data with flipped labels
    # this finds more of them than cleanlab's default, which takes a share of every label.
    wrong = cleanlab.find_label_issues(
        given, sound, filter_by="low_self_confidence", return_indices_ranked_by="self_confidence", n_jobs=1
    )
    counts = Counter(labels)
    return [int(index) for index in wrong if counts[labels[int(index)]] >= folds], scores


def cut(labels: list[str], texts: list[Any], folds: int) -> Places:
    """The fold of each row: labels spread evenly, rows of equal text in one."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    known: dict[Any, int] = {}
    groups = [known.setdefault(text, len(known)) for text in texts]
    if not 2 <= folds <= len(known):
        raise RecipeError(f"--folds {folds}: expected 2 or more, and no more than the {len(known)} texts there are")
    found = np.zeros(len(labels), dtype=np.int64)
    kind = StratifiedKFold if len(known) == len(labels) else StratifiedGroupKFold
    if kind is StratifiedKFold and max(Counter(labels).values()) < folds:
        raise RecipeError(f"--folds {folds}: no label has so many training rows; say fewer")
    with _no_warnings():
        for number, (_, test) in enumerate(kind(folds, shuffle=True, random_state=0).split(texts, labels, groups)):
            found[test] = number
    return found


def vectors_of(run: RunFolder, rows: Table, progress: Progress) -> Numbers:
    """The vector of each row by the encoder that the run started from, which has seen none of its labels."""
    recipe = run.recipe
    if not recipe.model:
        raise RecipeError("--label-errors: the recipe starts an encoder from scratch; say --how trained")
    said = recipe.window
    extractor = Extractor.load(recipe.model, max_tokens=said.max_tokens, window=said.method, precision="auto")
    names = [name for name in ("text", "pair") if name in rows.rows.column_names]
    texts = (
        dict(zip(names, values, strict=True)) for values in zip(*(rows.column(name) for name in names), strict=True)
    )
    with progress.bar("vectors", len(rows)) as bar:
        return np.concatenate([vectors for _, vectors in extractor.stream(texts, told=bar.advance)]).astype(float)


def regression_chances(
    vectors: Numbers, labels: list[str], names: list[str], fold: Places, progress: Progress = silent
) -> Numbers:
    """The probability of every label for each row, by a logistic regression on the rows of the other folds."""
    from sklearn.linear_model import LogisticRegression

    width = vectors.shape[1]
    scaled = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12) * np.sqrt(width)
    given, found = np.array(labels), np.zeros((len(labels), len(names)))
    place = {name: number for number, name in enumerate(names)}
    with progress.bar("folds", int(fold.max()) + 1) as bar:
        for number in range(int(fold.max()) + 1):
            test = fold == number
            learned = LogisticRegression(C=STRENGTH / width, max_iter=300).fit(scaled[~test], given[~test])
            columns = [place[name] for name in learned.classes_]
            found[np.ix_(test, columns)] = learned.predict_proba(scaled[test])
            bar.advance()
    return found


def filter_module() -> Any:
    """The library that finds label errors; an error that says how to get it where it is missing."""
    try:
        import cleanlab.filter
    except ImportError:
        raise MissingExtra("label errors are found by cleanlab: pip install 'warmstart[label-errors]'") from None
    return cleanlab.filter


def _no_warnings() -> Any:
    """scikit-learn warns of labels with fewer rows than folds, which are left out of what is told."""
    import warnings

    return warnings.catch_warnings(action="ignore")
