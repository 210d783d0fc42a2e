"""Soft labels: a probability for each label of a row, as numbers or as the votes of annotators, and what follows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from warmstart.data.faults import Fault
from warmstart.data.schema import ColumnKind, Row, Value

ROUNDING = 0.02
"""How far the sum of a row's probabilities may be from 1: they may have been rounded."""
EVEN = 0.5
"""The probability from which on a label of several counts as given."""

Distribution: TypeAlias = list[Row]
"""A list of `{label, probability}`."""


def probabilities(column: str, value: Value, kind: ColumnKind) -> Distribution | None:
    """A mapping from labels to probabilities, in a cell of plain text as JSON; None where there is none.

    Args:
        kind: `probabilities`, which sum to 1 and are divided by their sum; or `marginals`, each from 0 to 1.
    """
    value = _from_json(column, value, "an object", "probability-form")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _form_fault(column, value)
    numbers = {str(label): _number(column, label, number) for label, number in value.items() if number is not None}
    if not numbers:
        return None
    total = sum(numbers.values())
    if kind == "marginals":
        total = 1.0
    elif abs(total - 1) > ROUNDING:
        raise Fault(
            f"{column!r}: the probabilities sum to {total:.4g}. Expected 1: give every label its probability, or "
            "counts as votes (data.columns.votes).",
            "probability-sum",
            column,
        )
    return [{"label": label, "probability": number / total} for label, number in numbers.items()]


def votes(column: str, value: Value, separator: str | None) -> Distribution | None:
    """The share of votes that each label has; of a list of labels, or a mapping from labels to counts."""
    if isinstance(value, str) and separator is not None and value.strip():
        value = [label.strip() for label in value.split(separator)]
    value = _from_json(column, value, "a list of labels (or state data.label_separator)", "votes-form")
    if value is None:
        return None
    if isinstance(value, dict):
        counts = Counter({str(label): _count(column, label, count) for label, count in value.items() if count})
    elif isinstance(value, list | tuple):
        counts = Counter(_vote(column, vote, value) for vote in value)
    else:
        problem = (
            f"{column!r} is {str(value)[:60]!r}. Expected the labels that annotators gave: a list, or their counts."
        )
        raise Fault(problem, "votes-form", column)
    total = counts.total()
    return [{"label": label, "probability": count / total} for label, count in counts.items()] or None


def hard_answer(column: str, kind: ColumnKind, distribution: Distribution) -> tuple[Value, str]:
    """What a column of this kind holds where it follows from probabilities, and a note where that is a guess.

    A label is the most probable one, labels are those from a half on, a number is the mean.
    """
    if kind == "number":
        return math.fsum(_as_number(column, item["label"]) * item["probability"] for item in distribution), ""
    if kind == "labels":
        return [item["label"] for item in distribution if item["probability"] >= EVEN], ""
    most = max(item["probability"] for item in distribution)
    best = sorted(item["label"] for item in distribution if item["probability"] == most)
    tie = f"{' and '.join(map(repr, best))} are equally probable; {best[0]!r} counts as the answer" if best[1:] else ""
    return best[0], tie


def gathered(kind: ColumnKind, names: Sequence[str], cells: Sequence[Value]) -> Value:
    """The cells of several columns as one value: a label's probability in each, or an annotator's vote."""
    filled = {name: cell for name, cell in zip(names, cells, strict=True) if not _is_empty(cell)}
    if kind == "votes":
        return list(filled.values())
    if filled and len(filled) < len(names):
        missing = next(name for name in names if name not in filled)
        problem = f"{missing!r} is empty, and {next(iter(filled))!r} is not. Expected a probability in each, or 0."
        raise Fault(problem, "probability-form", missing)
    return filled or None


def _from_json(column: str, value: Value, expected: str, kind: str) -> Value:
    """A value as it is, or that of JSON in a cell; None where it is empty."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value, object_pairs_hook=lambda pairs: _without_repeats(column, pairs))
    except ValueError:
        problem = f"{column!r} is the text {value[:60]!r}. Expected {expected}, as JSON."
        raise Fault(problem, kind, column) from None


def _without_repeats(column: str, pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        repeated = next(label for label, count in Counter(label for label, _ in pairs).items() if count > 1)
        raise Fault(f"{column!r} has the label {repeated!r} twice. Remove one.", "probability-form", column)
    return mapping


def _number(column: str, label: Value, value: Value) -> float:
    if not isinstance(label, str) or not label.strip():
        raise Fault(f"{column!r} holds an empty label. Remove it or name it.", "label-blank", column)
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise Fault(
            f"{column!r}: the probability of {label!r} is {str(value)[:60]!r}. Expected a number from 0 to 1.",
            "probability-form",
            column,
        )
    if not 0 <= number <= 1 + ROUNDING:
        problem = f"{column!r}: the probability of {label!r} is {number:g}. Expected a number from 0 to 1."
        raise Fault(problem, "probability-range", column)
    return number


def _count(column: str, label: Value, value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or not str(label).strip():
        problem = f"{column!r}: {label!r} has {str(value)[:60]!r} votes. Expected a whole number, 0 or more."
        raise Fault(problem, "votes-form", column)
    return value


def _vote(column: str, vote: Value, votes: Value) -> str:
    if isinstance(vote, bool | int):
        return json.dumps(vote)
    if not isinstance(vote, str) or not vote.strip():
        problem = f"{column!r} is {str(votes)[:60]!r}, of which {vote!r} is no label. Expected a list of labels."
        raise Fault(problem, "votes-form", column)
    return vote


def _as_number(column: str, label: str) -> float:
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Fault(f"{column!r} has the label {label!r}. Expected numbers, such as 3.5.", "number", column)
    return number


def _is_empty(cell: Value) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _form_fault(column: str, value: Value) -> Fault:
    example = '{"good": 0.7, "bad": 0.3}'
    problem = f"{column!r} is {str(value)[:60]!r}. Expected a probability for each label, such as {example}."
    return Fault(problem, "probability-form", column)
