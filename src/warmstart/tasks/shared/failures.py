"""Whether a run has learned anything: a model that gives one answer to every row has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

MARGIN = 0.05
"""How far a run must come from the most frequent answer towards all answers right, or it has failed."""

Answers = Sequence[Hashable]


def why_no_better_than_constant(
    value: float, truth: Answers, predicted: Answers, constant_value: Callable[[Answers, Hashable], float] | None = None
) -> str:
    """Why a run has learned no more than to give one answer, or nothing.

    It has not when all its answers are the same, or when its headline is not above that of always giving the most
    frequent answer by `MARGIN` of the way from there to 1. One answer to rows that all have the same is no failure.

    Args:
        value: The headline of the run.
        constant_value: The headline of giving one answer to all rows; None where it is the share of rows that have it.
    """
    if len(set(truth)) == 1:
        return ""
    if len(set(predicted)) == 1:
        share = list(truth).count(predicted[0]) / max(len(truth), 1)
        return f"every answer is {_written(predicted[0])}, which {share:.0%} of the rows have"
    frequent = Counter(truth).most_common(1)[0][0]
    chance = constant_value(truth, frequent) if constant_value else list(truth).count(frequent) / len(truth)
    if value > chance + MARGIN * (1 - chance):
        return ""
    order = "not above" if value <= chance else "hardly above"
    return f"{value:.3f} is {order} {chance:.3f}, what always answering {_written(frequent)} scores"


def _written(answer: Hashable) -> str:
    """An answer as a user writes it: several labels as a list."""
    return repr(list(answer) if isinstance(answer, tuple) else answer)
