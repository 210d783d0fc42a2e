"""A teacher's scores of documents as rows to learn: of each query, the best document beside others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from warmstart.errors import RecipeError
from warmstart.tasks.base import Columns
from warmstart.tasks.shared.nearest_neighbours import Vectors
from warmstart.tasks.shared.negatives import Wanted, arrange
from warmstart.tasks.shared.rank_options import RankOptions

TEACHER_SCORE = "teacher_score"
"""The column of a cross-encoder's score, a probability; None where a row has a label instead."""
TEACHER_SIMILARITY = "teacher_similarity"
"""The column of a bi-encoder's score, a similarity; None where a row has a label instead."""
COLUMNS = {TEACHER_SCORE: "score", TEACHER_SIMILARITY: "score"}
"""Both, of which a teacher gives one, and the field of its answers that it is."""
TEACHER_LOGITS = "teacher_logits"
"""What a row to learn has of it: the logits of its document and of its negatives; NaN where it has a label."""
Logits: TypeAlias = Sequence[float | None]
"""A teacher's logit of each row; None for a row with a label instead."""
SMALLEST = 1e-12
"""The least distance of a probability from 0 and 1, so that its logit is finite."""


@dataclass(frozen=True)
class TaughtRow:
    """A query's best document, by its row, beside some of its others."""

    row: int
    negatives: list[str]
    logits: list[float]


def column_of(options: RankOptions, teacher: Mapping[str, Any]) -> str:
    """The column of what a teacher with these options says; refuses one whose scores the student cannot learn."""
    if options.encoder == "cross":
        raise RecipeError("stages.distil: a bi-encoder can be distilled, a cross-encoder cannot; set encoder: bi")
    if teacher.get("encoder") == "cross":
        return TEACHER_SCORE
    metric = teacher.get("distance_metric", RankOptions().distance_metric)
    if metric != options.distance_metric:
        raise RecipeError(
            f"stages.distil.teacher: found a bi-encoder that compares by {metric}, and the student compares by "
            f"{options.distance_metric}; set task.distance_metric: {metric}"
        )
    return TEACHER_SIMILARITY


def teacher_logits(columns: Columns, scale: float) -> Logits | None:
    """What a teacher says of each row, comparable with the student's own logits; None where there is no teacher.

    Args:
        scale: What the student's similarities are multiplied by.
    """
    if TEACHER_SCORE in columns:
        return [None if score is None else logit(score) for score in columns[TEACHER_SCORE]]
    if TEACHER_SIMILARITY in columns:
        return [None if score is None else scale * score for score in columns[TEACHER_SIMILARITY]]
    return None


def arrange_taught(
    columns: Columns,
    logits: Logits,
    wanted: Wanted,
    vectors: Callable[[Sequence[str], str], Vectors],
    seed: int,
) -> tuple[list[int], dict[str, list[Any]], list[str]]:
    """As `ArrangesRows.arrange_rows`, of labelled rows and of those that a teacher has scored, as `logits` says.

    A row of either kind has the same number of negatives, where there are as many.
    """
    labelled = [row for row, value in enumerate(logits) if value is None]
    numbers = (TEACHER_SCORE, TEACHER_SIMILARITY)
    own = {name: [values[row] for row in labelled] for name, values in columns.items() if name not in numbers}
    chosen, texts, notes = arrange(own, wanted, vectors, seed)
    taught, more = taught_rows(columns, logits, max(1, wanted.judged + wanted.mined + wanted.random))
    added: dict[str, list[Any]] = {
        "negatives": texts + [row.negatives for row in taught],
        # Numbers for all, so that the rows that are stored first have the type of all.
        TEACHER_LOGITS: [[math.nan] * (1 + len(row)) for row in texts] + [row.logits for row in taught],
    }
    return [labelled[row] for row in chosen] + [row.row for row in taught], added, notes + more


def taught_rows(columns: Columns, logits: Logits, size: int) -> tuple[list[TaughtRow], list[str]]:
    """Rows in which a query's document of the highest score stands beside each of its others; and notes for the user.

    Args:
        logits: The teacher's; rows without one are left out.
        size: How many others a row has at most.
    """
    known = {row: value for row, value in enumerate(logits) if value is not None}
    by_query: dict[str, dict[str, int]] = {}
    for row in known:
        by_query.setdefault(columns["query"][row], {}).setdefault(columns["document"][row], row)
    taught: list[TaughtRow] = []
    alone = 0
    for numbers in map(list, (documents.values() for documents in by_query.values())):
        best = max(numbers, key=lambda row: (known[row], -row))
        others = [row for row in numbers if row != best]
        alone += not others
        for start in range(0, len(others), size):
            together = others[start : start + size]
            own = [known[row] for row in (best, *together)]
            taught.append(TaughtRow(best, [columns["document"][row] for row in together], own))
    if not taught:
        raise RecipeError(
            "stages.distil.texts: no query has two documents, and what is learned is by how much one of a query's "
            "documents is better than another; give several rows with the same query, each with another document"
        )
    notes = [f"{len(by_query) - alone:,} queries have documents to compare by the teacher's scores"]
    if alone:
        notes.append(f"{alone:,} queries have one document, and are left out")
    return sorted(taught, key=lambda row: row.row), notes


def logit(probability: float) -> float:
    """What a sigmoid makes the probability of."""
    clamped = min(max(probability, SMALLEST), 1 - SMALLEST)
    return math.log(clamped / (1 - clamped))


def logit_matrix(logits: Sequence[Sequence[float]]) -> torch.Tensor:
    """The teacher's logits of a batch's documents for its queries; NaN for what it has not scored.

    Args:
        logits: Of each row's own documents.
    """
    matrix = torch.full((len(logits), sum(map(len, logits))), torch.nan)
    start = 0
    for number, own in enumerate(logits):
        matrix[number, start : start + len(own)] = torch.tensor(own)
        start += len(own)
    return matrix
