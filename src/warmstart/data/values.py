"""From a raw value to what the schema promises: text, a label, labels or a number; all else is a fault."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from warmstart.data import structured_values as structures
from warmstart.data.schema import STRUCTURED, Column
from warmstart.data.source import Wanted


class Fault(Exception):
    """What is wrong with one value; the reader adds the place."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class Values:
    """Checks and converts the values of one reading.

    Attributes:
        notes: `(kind, message)` of things worth a finding since the caller last cleared it.
    """

    def __init__(self, wanted: Sequence[Wanted], label_separator: str | None) -> None:
        self.notes: list[tuple[str, str]] = []
        self._separator = label_separator
        self._types: dict[str, set[type]] = {}
        self._fields = [
            (first.column, self._converter(first), 1 + len(rest) if first.part else 0)
            for _, (first, *rest) in itertools.groupby(wanted, lambda want: want.column.name)
        ]
        self._choices = [want.column.name for want in wanted if want.column.kind == "choice"]
        self._offered = [want.column.name for want in wanted if want.column.kind == "texts"][:1]

    def row(self, values: Sequence[Any]) -> tuple[dict[str, Any], str]:
        """Give the row by column name, and the name of an answer that is missing (or nothing)."""
        row: dict[str, Any] = {}
        missing = ""
        raw = iter(values)
        for column, convert, parts in self._fields:
            found = convert(_gathered([next(raw) for _ in range(parts)]) if parts else next(raw))
            row[column.name] = found
            if found is None:
                if column.answer:
                    missing = column.name
                elif column.required:
                    raise Fault(f"{column.name!r} is empty. Expected a value in every row.", "id-missing")
        for name in self._choices:
            if isinstance(row[name], str):
                row[name] = _place_of(name, row[name], [text for texts in self._offered for text in row[texts]])
        return row, missing

    def _converter(self, want: Wanted) -> Callable[[Any], Any]:
        column = want.column
        if column.kind == "text":
            return partial(_text, column)
        if column.kind == "number":
            return partial(_number, column)
        if column.kind == "label":
            return partial(self._label, column)
        if column.kind == "choice":
            return partial(_choice, column)
        if column.kind == "relevance":
            return partial(_relevance, column)
        if column.kind == "texts":
            return partial(_texts, column)
        if column.kind in STRUCTURED:
            return partial(_structure, column)
        return partial(self._labels, column)

    def _label(self, column: Column, value: Any) -> str | None:
        if value is None:
            return None
        label = value if isinstance(value, str) else _spelled(column, value)
        self._watch_type(column, value)
        stripped = label.strip()
        if not stripped:
            return None
        _check_characters(column, label)
        if stripped != label:
            self.notes.append(("label-space", f"the label {label!r} starts or ends with white space, which is kept"))
        return label

    def _labels(self, column: Column, value: Any) -> list[str] | None:
        if value is None:
            return None
        if isinstance(value, str):
            if not value.strip():
                return []
            if self._separator is None:
                raise Fault(
                    f"{column.name!r} is the text {value[:60]!r}. Expected a list of labels: state what "
                    "stands between labels in a cell, for example --set data.label_separator=';'.",
                    "labels-type",
                )
            value = value.split(self._separator)
        if not isinstance(value, list | tuple):
            raise Fault(f"{column.name!r} is {_shown(value)}. Expected a list of labels.", "labels-type")
        labels = []
        for item in value:
            label = self._label(column, item)
            if label is None:
                raise Fault(
                    f"{column.name!r} holds an empty label in {_shown(value)}. Remove it or name it.", "label-blank"
                )
            labels.append(label)
        if len(set(labels)) != len(labels):
            self.notes.append(("label-repeated", f"a label stands twice in {_shown(value)}, which is kept"))
        return labels

    def _watch_type(self, column: Column, value: Any) -> None:
        """Say once when 1 and "1" (or true and "true") become one label: they were two things in the file."""
        seen = self._types.setdefault(column.name, {type(value)})
        if type(value) not in seen:
            seen.add(type(value))
            names = " and ".join(sorted(kind.__name__ for kind in seen))
            self.notes.append(("label-types", f"{column.name!r} holds {names} values; each becomes its text"))


def _text(column: Column, value: Any) -> str:
    if not isinstance(value, str):
        raise Fault(
            f"{column.name!r} is {_shown(value)}. Expected text: write it as a string, or remove the row.", "text-type"
        )
    if column.required and (not value or value.isspace()):
        found = "only white space" if value else "empty"
        kind = "text-blank" if value else "text-empty"
        raise Fault(f"{column.name!r} is {found}. Expected text: fill it in, or remove the row.", kind)
    _check_characters(column, value)
    return value


def _relevance(column: Column, value: Any) -> int | None:
    number = _number(column, value)
    if number is not None and not number.is_integer():
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a whole number, 0 for not relevant.", "relevance")
    return None if number is None else int(number)


def _choice(column: Column, value: Any) -> int | str | None:
    """A number from 0; a text that is none is to be one of the row's own."""
    try:
        number = _number(column, value)
    except Fault:
        if isinstance(value, str):
            return value
        raise
    if number is not None and (number < 0 or not number.is_integer()):
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a whole number, from 0 for the first.", "choice")
    return None if number is None else int(number)


def _place_of(name: str, chosen: str, offered: list[str]) -> int:
    if offered.count(chosen) != 1:
        found = "stands more than once" if chosen in offered else "is not"
        raise Fault(
            f"{name!r} is {chosen[:60]!r}, which {found} among the row's texts. Expected one of them, or its number, "
            "from 0 for the first.",
            "choice",
        )
    return offered.index(chosen)


def _texts(column: Column, value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a list of texts.", "texts-type")
    return [_text(column, item) for item in value]


def _gathered(values: list[Any]) -> list[Any]:
    """The cells of several columns as one list; empty ones at its end say that it is shorter."""
    while values and (values[-1] is None or (isinstance(values[-1], str) and not values[-1].strip())):
        values.pop()
    return values


def _structure(column: Column, value: Any) -> Any:
    """A list of mappings; in a cell of plain text it is written as JSON."""
    if value is None:
        return None
    kind = _FORMS[column.kind]
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise Fault(f"{column.name!r} is the text {value[:60]!r}. Expected a list, as JSON.", kind) from None
    convert: Any = getattr(structures, column.kind)
    result = convert(column, value, lambda what: Fault(f"{column.name!r}: {what}.", kind))
    for item in result:
        for text in item.values():
            if isinstance(text, str):
                _check_characters(column, text)
    return result


_FORMS = {"ranges": "ranges-form", "entities": "entities-form", "answers": "answers-form"}
"""The kind of fault where a structure has not the form it should."""


def _number(column: Column, value: Any) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() takes True and 1_000
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a number.", "number")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a number, such as 3.5.", "number") from None
    if not math.isfinite(number):
        raise Fault(f"{column.name!r} is {_shown(value)}. Expected a finite number.", "number-finite")
    return number


def _spelled(column: Column, value: Any) -> str:
    """Spell a label that is not text as JSON does."""
    if not isinstance(value, bool | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise Fault(
            f"{column.name!r} is {_shown(value)}. Expected a label: text, a whole number, true or false.", "label-type"
        )
    return json.dumps(value)


def _check_characters(column: Column, text: str) -> None:
    if "\0" in text:
        raise Fault(f"{column.name!r} has a NUL character at position {text.index(chr(0)) + 1}. Remove it.", "nul")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Fault(
                f"{column.name!r} has a lone surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start + 1}, half of a character. Write the character whole, or remove it.",
                "surrogate",
            ) from None


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"{type(value).__name__} {repr(value)[:60]}"
