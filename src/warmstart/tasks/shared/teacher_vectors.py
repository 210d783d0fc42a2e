"""A teacher's vectors of texts, as a column of training rows."""

from __future__ import annotations

from warmstart.errors import RecipeError
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import HasLinearProbe

TEACHER_VECTOR = "teacher_vector"
"""The column, and the feature; NaN in rows that the teacher has not read."""


def check_matching(task: AnyTask, slices: bool, frozen: bool) -> None:
    """Refuse a task that has not one vector for each text.

    Args:
        slices: Whether a text is read in slices.
        frozen: Whether the encoder is not trained.
    """
    refusal = "stages.distil.match: found both, but"
    if not isinstance(task, HasLinearProbe):
        raise RecipeError(f"{refusal} {task.name} has not one vector a text, as classify and score have; set logits")
    if task.pair:
        raise RecipeError(f"{refusal} vectors are matched of single texts, and these are pairs; set logits")
    if frozen:
        raise RecipeError(f"{refusal} layers.freeze: encoder leaves nothing that could learn a vector; set logits")
    if slices:
        raise RecipeError(f"{refusal} window.method: slices reads a text in several parts; set logits, or head")
