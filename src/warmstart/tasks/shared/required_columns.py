"""The columns that every file for a built-in task must have, known without importing the task, and so without torch.

A test keeps them equal to the tasks' own schemas. What is not here is checked once the task is imported.
"""

from __future__ import annotations

from warmstart.data.schema import Column, Schema
from warmstart.tasks.shared.label_columns import label_columns
from warmstart.tasks.shared.text_columns import PAIR, TEXT

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "classify": (TEXT, PAIR, *label_columns("any", "the label")),
    "score": (TEXT, PAIR, *label_columns("any", "the number to predict")),
}


def required_columns(task: str) -> Schema | None:
    """The columns of a task, values unchecked; None where they are not known here."""
    columns = _COLUMNS.get(task)
    return Schema(columns) if columns else None
