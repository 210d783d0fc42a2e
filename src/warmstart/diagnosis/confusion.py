"""The confusion matrix: how often each true label was predicted as which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from warmstart.evaluation.records.diagnosis import ConfusionMatrix
from warmstart.tasks.base import Answer, AnyTask, ErrorTable
from warmstart.tasks.shared.error_tables import table
from warmstart.tasks.shared.protocols import PairsConfusions

MAX_LISTED = 20
"""Confusions that are listed."""


def confusion_pairs(task: AnyTask, truth: Sequence[Any], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """A true and a predicted label for each item that the task's confusion matrix counts; empty where it has none."""
    if isinstance(task, PairsConfusions):
        return task.confusion_pairs(truth, answers)
    if not task.single_choice:
        return []
    return [(str(true), str(answer["label"])) for true, answer in zip(truth, answers, strict=True)]


def confusion_matrix(pairs: Sequence[tuple[str, str]], known: Sequence[str] = ()) -> ConfusionMatrix:
    """Count pairs of a true and a predicted label.

    Args:
        known: Labels in the order to show them; others come after.
    """
    seen = {label for pair in pairs for label in pair}
    labels = [name for name in known if name in seen] + sorted(seen - set(known), key=_number_first)
    index = {name: number for number, name in enumerate(labels)}
    counts = [[0] * len(labels) for _ in labels]
    for true, predicted in pairs:
        counts[index[true]][index[predicted]] += 1
    return ConfusionMatrix(labels, counts)


def frequent_confusions(pairs: Sequence[tuple[str, str]]) -> ErrorTable | None:
    """The most frequent confusions as a table; None where nothing was confused."""
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1])
    if not wrong:
        return None
    total = Counter(true for true, _ in pairs)
    frequent = wrong.most_common(MAX_LISTED)
    rows = [[true, predicted, count, count / total[true]] for (true, predicted), count in frequent]
    note = f"the {len(rows)} most frequent of {len(wrong):,}; share of the rows with that true label"
    return table("Confusions", note, ["true", "predicted", "count", "share"], rows)


def _number_first(name: str) -> tuple[bool, int, str]:
    return (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)
