"""What a row must hold: the columns a task asks of its data.

A task declares its columns with these types; the readers in `data/` fill them and nothing else. So a reader
knows no task, and a task knows no file format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "label", "labels", "number"]
"""text: a string. label: one label's name. labels: a list of label names. number: a finite float."""


@dataclass(frozen=True)
class Column:
    """One column a task reads.

    Args:
        answer: The column is what is learned, so it may be missing when predicting.
        required: A file without the column is refused.
    """

    name: str
    kind: Kind
    meaning: str
    answer: bool = False
    required: bool = True


@dataclass(frozen=True)
class Schema:
    """The columns of one task, in order."""

    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the columns that hold text, in order."""
        return tuple(column.name for column in self.columns if column.kind == "text")

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the columns that hold what is learned."""
        return tuple(column.name for column in self.columns if column.answer)

    def questions(self) -> Schema:
        """The same columns without the answers: what a predictor needs."""
        return Schema(tuple(column for column in self.columns if not column.answer))
