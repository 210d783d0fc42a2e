"""From raw values to what the schema promises: text, a label, labels or a number; anything else is a fault."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from warmstart.data import soft_labels
from warmstart.data import structured_values as structures
from warmstart.data.faults import Fault
from warmstart.data.findings import Findings
from warmstart.data.schema import SOFT_KINDS, STRUCTURED, Column, Row, Schema, Value
from warmstart.data.source import FileColumn
from warmstart.errors import Location


class RowConverter:
    """Checks and converts the rows of one reading.

    Args:
        schema: Checks a row as a whole, and has the columns that follow from others.

    Attributes:
        notes: `(kind, message)` of what is worth a finding, until `report` is called.
    """

    def __init__(self, columns: Sequence[FileColumn], label_separator: str | None, schema: Schema) -> None:
        self.notes: list[tuple[str, str]] = []
        self._separator = label_separator
        self._check = schema.check
        self._types: dict[str, set[type]] = {}
        self._fields = [
            (
                first.target,
                self._converter(_named_as_in_file(first)),
                [first.name, *(column.name for column in rest)] if first.part else [],
            )
            for _, (first, *rest) in itertools.groupby(columns, lambda column: column.target.name)
        ]
        self._choices = [column.target.name for column in columns if column.target.kind == "choice"]
        self._offered = [column.target.name for column in columns if column.target.kind == "texts"][:1]
        read = {column.target.name: column.target for column in columns}
        self._following = [
            (column, name)
            for column in schema
            for name in column.follows_from
            if name in read and column.name not in read
        ]

    def convert(self, values: Sequence[Value]) -> tuple[Row, str]:
        """The row by column name, and the name of an answer that is missing (or nothing).

        Raises:
            Fault: A value, or the row as a whole, is not what the schema asks for.
        """
        row: Row = {}
        missing = ""
        raw = iter(values)
        for column, convert, parts in self._fields:
            value = convert(_gather(column, parts, [next(raw) for _ in parts]) if parts else next(raw))
            row[column.name] = value
            if value is None:
                if column.answer:
                    missing = column.name
                elif column.required:
                    raise Fault(f"{column.name!r} is empty. Expected a value in every row.", "id-missing", column.name)
        for name in self._choices:
            if isinstance(row[name], str):
                row[name] = _index_of(name, row[name], [text for texts in self._offered for text in row[texts]])
        for column, source in self._following:
            if row[source] is not None:
                row[column.name], tie = soft_labels.hard_answer(source, column.kind, row[source])
                if tie:
                    self.notes.append(("label-tie", tie))
        if self._check and not missing and (wrong := self._check(row)):
            raise Fault(wrong[1], wrong[0])
        return row, missing

    def report(self, findings: Findings, location: Location) -> None:
        """Turn the notes of the last row into findings."""
        for kind, message in self.notes:
            findings.add(kind, "warning", message, location)
        self.notes.clear()

    def _converter(self, column: Column) -> Callable[[Value], Value]:
        if column.kind == "label":
            return partial(self._label, column)
        if column.kind == "labels":
            return partial(self._labels, column)
        if column.kind in SOFT_KINDS or column.kind == "votes":
            return partial(self._soft, column)
        if column.kind in STRUCTURED:
            return partial(_structure, column)
        return partial(_CONVERTERS[column.kind], column)

    def _label(self, column: Column, value: Value) -> str | None:
        if value is None:
            return None
        label = value if isinstance(value, str) else _spell(column, value)
        self._note_type(column, value)
        stripped = label.strip()
        if not stripped:
            return None
        _check_characters(column, label)
        if stripped != label:
            self.notes.append(("label-space", f"the label {label!r} starts or ends with whitespace, which is kept"))
        return label

    def _labels(self, column: Column, value: Value) -> list[str] | None:
        if value is None:
            return None
        if isinstance(value, str):
            if not value.strip():
                return []
            if self._separator is None:
                raise Fault(
                    f"{column.name!r} is the text {value[:60]!r}. Expected a list of labels: state what "
                    "separates the labels in a cell, for example --set data.label_separator=';'.",
                    "labels-type",
                    column.name,
                )
            value = self._split(value, self._separator)
        if not isinstance(value, list | tuple):
            raise Fault(f"{column.name!r} is {_shown(value)}. Expected a list of labels.", "labels-type", column.name)
        labels = []
        for item in value:
            label = self._label(column, item)
            if label is None:
                raise Fault(
                    f"{column.name!r} holds an empty label in {_shown(value)}. Remove it or name it.",
                    "label-blank",
                    column.name,
                )
            labels.append(label)
        if len(set(labels)) != len(labels):
            self.notes.append(("label-repeated", f"a label occurs twice in {_shown(value)}, which is kept"))
        return labels

    def _soft(self, column: Column, value: Value) -> list[Row] | None:
        if column.kind == "votes":
            distribution = soft_labels.votes(column.name, value, self._separator)
        else:
            distribution = soft_labels.probabilities(column.name, value, column.kind)
        for item in distribution or ():
            _check_characters(column, item["label"])
        return distribution

    def _split(self, cell: str, separator: str) -> list[str]:
        """The labels of a cell; whitespace around a separator is how a list is written, not part of a label."""
        labels = cell.split(separator)
        stripped = [label.strip() for label in labels]
        if stripped != labels and not separator.isspace():
            message = f"whitespace around the labels in {_shown(cell)} is not part of them, and is left out"
            self.notes.append(("label-space", message))
            return stripped
        return labels

    def _note_type(self, column: Column, value: Value) -> None:
        """Note once when 1 and "1" (or true and "true") become one label: they differ in the file."""
        seen = self._types.setdefault(column.name, {type(value)})
        if type(value) not in seen:
            seen.add(type(value))
            names = " and ".join(sorted(kind.__name__ for kind in seen))
            self.notes.append(("label-types", f"{column.name!r} holds {names} values; each becomes its text"))


def _named_as_in_file(column: FileColumn) -> Column:
    """The schema's column under the name by which the user knows it, for messages."""
    return column.target if column.part else replace(column.target, name=column.name)


def _text(column: Column, value: Value) -> str:
    if not isinstance(value, str):
        raise Fault(
            f"{column.name!r} is {_shown(value)}. Expected text: write it as a string, or remove the row.",
            "text-type",
            column.name,
        )
    if column.required and (not value or value.isspace()):
        state, kind = ("only whitespace", "text-blank") if value else ("empty", "text-empty")
        raise Fault(
            f"{column.name!r} is {state}. Expected text: fill it in, or leave such rows out with --drop empty "
            "(drop: [empty]).",
            kind,
            column.name,
        )
    _check_characters(column, value)
    return value


def _texts(column: Column, value: Value) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a list of texts.", "texts-type", column.name)
    return [_text(column, item) for item in value]


def _number(column: Column, value: Value) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() takes True and 1_000
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a number.", "number", column.name)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):  # a type without numbers, a text without one, 10**400
        raise Fault(
            f"{column.name!r} is {_shown(value)}. Expected a number, such as 3.5.", "number", column.name
        ) from None
    if not math.isfinite(number):
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a finite number.", "number-finite", column.name)
    return number


def _relevance(column: Column, value: Value) -> int | None:
    number = _number(column, value)
    if number is not None and not number.is_integer():
        problem = f"{column.name!r} is {_shown(value)}. Expected a whole number, 0 for not relevant."
        raise Fault(problem, "relevance", column.name)
    return None if number is None else int(number)


def _choice(column: Column, value: Value) -> int | str | None:
    """A number from 0; a text that is not a number has to be one of the row's own texts."""
    try:
        number = _number(column, value)
    except Fault:
        if isinstance(value, str):
            return value
        raise
    if number is not None and (number < 0 or not number.is_integer()):
        problem = f"{column.name!r} is {_shown(value)}. Expected a whole number, from 0 for the first."
        raise Fault(problem, "choice", column.name)
    return None if number is None else int(number)


_CONVERTERS: dict[str, Callable[[Column, Value], Value]] = {
    "text": _text,
    "texts": _texts,
    "number": _number,
    "relevance": _relevance,
    "choice": _choice,
    "any": lambda _, value: value,
}
"""What converts the values of each kind that has no state and no structure."""


def _index_of(name: str, chosen: str, offered: list[str]) -> int:
    """The number of the text that is chosen among those of its row."""
    if offered.count(chosen) != 1:
        state = "occurs more than once" if chosen in offered else "is not"
        raise Fault(
            f"{name!r} is {chosen[:60]!r}, which {state} among the row's texts. Expected one of them, or its number, "
            "from 0 for the first.",
            "choice",
            name,
        )
    return offered.index(chosen)


def _gather(column: Column, names: Sequence[str], values: list[Value]) -> Value:
    """The cells of several columns as one value; texts without empty ones at the end: a row may have fewer."""
    if column.kind != "texts":
        return soft_labels.gathered(column.kind, names, values)
    while values and (values[-1] is None or (isinstance(values[-1], str) and not values[-1].strip())):
        values.pop()
    return values


def _structure(column: Column, value: Value) -> list[Row] | None:
    """A list of mappings; in a cell of plain text it is written as JSON."""
    if value is None:
        return None
    kind = _FORM_FAULTS[column.kind]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise Fault(
                f"{column.name!r} is the text {value[:60]!r}. Expected a list, as JSON.", kind, column.name
            ) from None
    convert = structures.CONVERTERS[column.kind]
    items = convert(value, lambda problem: Fault(f"{column.name!r}: {problem}.", kind, column.name))
    for item in items:
        for text in item.values():
            if isinstance(text, str):
                _check_characters(column, text)
    return items


_FORM_FAULTS = {"ranges": "ranges-form", "entities": "entities-form", "answers": "answers-form"}
"""The kind of fault where a structured value does not have the form it should."""


def _spell(column: Column, value: Value) -> str:
    """Spell a label that is not text as JSON does."""
    if not isinstance(value, bool | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        problem = f"{column.name!r} is {_shown(value)}. Expected a label: text, a whole number, true or false."
        raise Fault(problem, "label-type", column.name)
    return json.dumps(value)


def _check_characters(column: Column, text: str) -> None:
    if "\0" in text:
        position = text.index("\0") + 1
        raise Fault(f"{column.name!r} has a NUL character at position {position}. Remove it.", "nul", column.name)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Fault(
                f"{column.name!r} has a lone surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start + 1}, half of a character. Write the whole character, or remove it.",
                "surrogate",
                column.name,
            ) from None


def _shown(value: Value) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{type(value).__name__} {repr(value)[:60]}"
