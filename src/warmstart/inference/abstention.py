"""Abstention: where the model is not confident enough, the label is left empty and the answer says so."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart.data.schema import Value
from warmstart.errors import RecipeError
from warmstart.tasks.base import Answer, AnyTask


def check_min_confidence(task: AnyTask, min_confidence: float) -> None:
    """Refuse a minimum confidence for a task whose answers have none."""
    if not task.single_choice:
        raise RecipeError(
            f"--min-confidence {min_confidence}: {task.name} gives no label with a probability here, so there is "
            "nothing to compare it with; leave it out"
        )


def abstain(task: AnyTask, answer: Mapping[str, Value], min_confidence: float) -> Answer:
    """The answer with `answered`: false, and the label empty, where its probability is below the minimum."""
    sure = answer["probability"] >= min_confidence
    emptied = () if sure else task.answer_fields
    return {**{name: None if name in emptied else value for name, value in answer.items()}, "answered": sure}
