"""Answers to the rows of a file: each with the columns that the file has itself, of which none is overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import tee

from warmstart.data.kept_columns import KeptColumns
from warmstart.data.schema import Row, Value
from warmstart.inference.predictor import Predictor

PREFIX = "predicted_"
"""What is put before the name of an answer's column if the file has such a column itself."""


@dataclass(frozen=True)
class FileAnswers:
    """Answers the rows of a file.

    Args:
        shape: What is done with every answer before it is written.
    """

    predictor: Predictor
    kept: KeptColumns
    shape: Callable[[Row], Row] = dict

    def stream(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield each row's own columns, or its inputs where the file has no named columns, and its answer's."""
        inputs, again = tee(rows)
        for row, answer in zip(again, self.predictor.stream(inputs), strict=True):
            own = self.kept.values(row) or self._inputs(row)
            yield {**own, **without_clashes(self.shape(answer), own)}

    def _inputs(self, row: Row) -> Row:
        return {name: row[name] for name in self.kept.schema.names if name in row}


def without_clashes(answer: Mapping[str, Value], own: Mapping[str, Value]) -> Row:
    """The answer with `predicted_` before each name that a column of the file has."""
    renamed = {}
    for name, value in answer.items():
        target = name
        while target in own:
            target = f"{PREFIX}{target}"
        renamed[target] = value
    return renamed
