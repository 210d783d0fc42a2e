"""What a row must hold: the columns that a task asks of its data.

A task declares its columns with these types; the readers in `data/` fill them and nothing else. So a reader knows no
task, and a task knows no file format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ColumnKind = Literal[
    "text",
    "texts",
    "label",
    "labels",
    "probabilities",
    "marginals",
    "votes",
    "choice",
    "relevance",
    "number",
    "ranges",
    "entities",
    "answers",
    "any",
]
"""text: a string. texts: a list of strings. label: one label's name. labels: a list of label names.
probabilities: a list of `{label, probability}` that sums to 1. marginals: the same, each label by itself. votes: the
labels that annotators gave, read as probabilities. choice: which of a
row's own texts, by its number from 0. relevance: a whole number, above 0 for what is relevant. number: a finite float.
ranges: a list of `{start, end}`. entities: a list of `{start, end, label}`. answers: a list of `{text, start}`, empty
where there is no answer. Positions in a text are counted in characters, from `start` to before `end`. any: a value
as it is in the file."""
SOFT_KINDS = ("probabilities", "marginals")
"""Kinds that give a label, or each of several, a probability."""
STRUCTURED = ("ranges", "entities", "answers")
"""Kinds whose values are lists of small mappings."""
Value: TypeAlias = Any
"""A value of a row, as its column's kind describes it."""
Row: TypeAlias = dict[str, Value]
"""The values of one row by column name; rows of a source also have `file` (its index) and `line` (from 1)."""


@dataclass(frozen=True)
class Column:
    """One column a task reads.

    Args:
        answer: The column is what is learned, so it may be missing when predicting.
        required: A file without the column is refused.
        default: The value of every row where the file has no such column.
        follows_from: Columns from which this one follows, where the source names one of them, and not this one itself.
        stored_as: The column that it is stored as, where it is another way to write that one.
    """

    name: str
    kind: ColumnKind
    meaning: str
    answer: bool = False
    required: bool = True
    default: int | None = None
    follows_from: tuple[str, ...] = ()
    stored_as: str = ""


@dataclass(frozen=True)
class Schema:
    """The columns of one task, in order.

    Args:
        check: Checks a row as a whole, its columns against one another; gives the kind of fault and the problem, or
            None.
        together: Columns whose equal rows belong in one part: they are held out together, and a training row that has
            them in common with a test row counts as leaked. None for `inputs`.
    """

    columns: tuple[Column, ...]
    check: Callable[[Mapping[str, Value]], tuple[str, str] | None] | None = None
    together: tuple[str, ...] | None = None

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
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns that make two rows duplicates: the model's input, without ids."""
        kinds = ("text", "texts", "ranges")
        return tuple(column.name for column in self.columns if column.kind in kinds and not column.answer)

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the columns that hold what is learned."""
        return tuple(column.name for column in self.columns if column.answer)

    @property
    def answer(self) -> Column | None:
        """The column that holds what is learned, the first of several; None where it is the text itself."""
        return next((column for column in self.columns if column.answer), None)

    def answer_in(self, names: Collection[str]) -> Column | None:
        """The column that says most about what is learned, of rows with these columns: probabilities, if there."""
        soft = (column for column in self.columns if column.kind in SOFT_KINDS and column.name in names)
        return next(soft, self.answer)

    def read_from(self, given: Collection[str]) -> list[Column]:
        """The columns to read where these are given: those required that do not follow from others, and those given."""
        return [
            column
            for column in self.columns
            if column.name in given or (column.required and not set(column.follows_from) & set(given))
        ]

    def stored_names(self, read: Collection[str]) -> list[str]:
        """The columns of rows of which these are read: with those that follow from them, in the schema's order."""
        return [column.name for column in self.columns if column.name in read or set(column.follows_from) & set(read)]

    def without_answers(self) -> Schema:
        """The same columns without the answers: what a predictor reads."""
        return Schema(tuple(column for column in self.columns if not column.answer), self.check, self.together)

    def defaults(self, read: Collection[str]) -> dict[str, int]:
        """The values of every row in columns that are not among those read."""
        known = {column.name: column.default for column in self.columns if column.name not in read}
        return {name: value for name, value in known.items() if value is not None}
