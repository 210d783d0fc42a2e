"""What the published experiment would cost at its own size, as `warmstart plan` estimates it."""

from __future__ import annotations

from warmstart.plan.plan import plan_pretraining
from warmstart.recipe.study_claims import StudyFullSize

HEAD_SIZE = 1000
"""Outputs of the head in the estimate, in place of a vocabulary: a task's head hardly counts."""


def full_size_cost(size: StudyFullSize) -> str:
    """The cost in a sentence, with the command that estimates it."""
    shape = {"vocab_size": HEAD_SIZE, **size.shape}
    (stage,) = plan_pretraining(size.steps, size.batch_size, size.max_tokens, shape, hardware=size.hardware)
    hours = size.trainings * stage.seconds.total / 3600
    encoder = ", ".join(f"{name} {value}" for name, value in size.shape.items()) or "BERT-base"
    option = ",".join(f"{name}={value}" for name, value in shape.items())
    command = (
        f"warmstart plan --max-steps {size.steps} --batch-size {size.batch_size} --max-tokens {size.max_tokens} "
        f"--shape {option} --hardware {size.hardware}"
    )
    return (
        f"At the published size, {size.trainings:,} trainings of {encoder} with {size.steps:,} steps of "
        f"{size.batch_size} rows of {size.max_tokens} tokens, it would take about {_short(hours)} hours of one "
        f"{size.hardware} and ${_short(size.trainings * stage.cost)}, by `{command}`."
    )


def _short(number: float) -> str:
    """Two significant digits: an estimate has no more."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"
