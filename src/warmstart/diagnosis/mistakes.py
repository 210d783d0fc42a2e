"""Mistakes worth reading: those the model is most confident of, else the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.data.schema import Schema
from warmstart.diagnosis.evaluated_rows import EvaluatedRows
from warmstart.evaluation.records.diagnosis import Mistake
from warmstart.tasks.base import AnyTask

CHARACTERS = 300
"""Of a text that is shown; what is left out is marked."""


def wrong_rows(rows: EvaluatedRows, task: AnyTask, most: int) -> list[int]:
    """Which rows to read first: those with a wrong answer that the model is most confident of, else the worst."""
    truth = rows.truth
    if truth is None:
        return []
    wrong = [index for index in range(len(rows)) if rows.scores[index] < 1 and rows.prediction(index) != truth[index]]
    wrong.sort(key=lambda index: (-(task.confidence(rows.answers[index]) or 0.0), rows.scores[index]))
    return wrong[:most]


def describe_mistakes(rows: EvaluatedRows, task: AnyTask, wrong: Sequence[int]) -> list[Mistake]:
    """Mistakes, each with its location, its text and both answers."""
    truth, schema = rows.truth or [], task.schema(task.options)
    return [
        Mistake(
            row=str(rows.locations[index]),
            text=text_of(rows.columns, index, schema),
            truth=plain(truth[index], _text(rows, index)),
            prediction=plain(rows.prediction(index), _text(rows, index)),
            confidence=task.confidence(rows.answers[index]),
        )
        for index in wrong
    ]


def text_of(columns: Mapping[str, Sequence[Any]], index: int, schema: Schema) -> str | None:
    """The input of a row, for reading; None where it cannot be read again."""
    shown = [columns[name][index] for name in schema.inputs if name in columns and _readable(columns[name][index])]
    parts = [value if isinstance(value, str) else " / ".join(value) for value in shown]
    whole = " | ".join(parts)
    return (whole if len(whole) <= CHARACTERS else f"{whole[:CHARACTERS]} …") if parts else None


def plain(answer: Any, text: str | None = None) -> Any:
    """An answer in words: a label, a number, or a line of what it lists."""
    if isinstance(answer, Mapping):
        own = answer.get("text") or (text[answer["start"] : answer["end"]] if text and "end" in answer else "")
        return f"{own} ({answer['label']})".strip() if "label" in answer else own
    if isinstance(answer, list):
        return ", ".join(str(plain(item, text)) for item in answer)
    return answer


def _text(rows: EvaluatedRows, index: int) -> str | None:
    return rows.columns["text"][index] if "text" in rows.columns else None


def _readable(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))
