"""Answers held back where the model is not sure enough: the label is left empty, and every answer says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmstart.errors import RecipeError
from warmstart.tasks.base import Task

EMPTIED = ("label", "ending")
"""What of an answer is left empty; its probabilities stay."""


def check_least(task: Task[Any], least: float) -> None:
    """Refuse a least confidence for a task whose answers have none."""
    if not task.likeliest:
        raise RecipeError(
            f"--least-confidence {least}: {task.name} gives no answer with one probability here; "
            "it can be said for classify (one label), relate and choose"
        )


def held_back(answer: Mapping[str, Any], least: float) -> dict[str, Any]:
    """The answer with `answered`: false, and the label empty, where its probability is below the least."""
    sure = answer["probability"] >= least
    return {name: None if name in EMPTIED and not sure else value for name, value in answer.items()} | {
        "answered": sure
    }
