"""Mistakes worth reading: those of which the model is surest, else those that are worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.data.schema import Schema
from warmstart.diagnosis.evaluated_rows import Answered

CHARACTERS = 300
"""Of a text that is shown; what is left out is marked."""


def mistakes(found: Answered, schema: Schema, most: int) -> list[dict[str, Any]]:
    """The mistakes to read first, each with its place, its text and both answers."""
    if found.answers is None:
        return []
    wrong = [
        index for index in range(len(found)) if found.scores[index] < 1 and found.said(index) != found.answers[index]
    ]
    sure = {index: confidence(found.given[index]) for index in wrong}
    wrong.sort(key=lambda index: (-(sure[index] or 0.0), found.scores[index]))
    return [
        {
            "row": found.places[index],
            "text": text_of(found.columns, index, schema),
            "answer": plain(found.answers[index], _text(found, index)),
            "given": plain(found.said(index), _text(found, index)),
            "confidence": sure[index],
        }
        for index in wrong[:most]
    ]


def confidence(given: Mapping[str, Any]) -> float | None:
    """How sure the model is of an answer: its probability, or that of the surest of its entities."""
    if "probability" in given:
        return float(given["probability"])
    if isinstance(given.get("entities"), list):
        return max((float(one["score"]) for one in given["entities"]), default=None)
    return float(given["score"]) if "answer" in given else None


def text_of(columns: Mapping[str, Sequence[Any]], index: int, schema: Schema) -> str | None:
    """What is asked in a row, for reading; None where it cannot be read again."""
    shown = [columns[name][index] for name in schema.inputs if name in columns and _readable(columns[name][index])]
    parts = [one if isinstance(one, str) else " / ".join(one) for one in shown]
    whole = " | ".join(parts)
    return (whole if len(whole) <= CHARACTERS else f"{whole[:CHARACTERS]} …") if parts else None


def plain(answer: Any, text: str | None = None) -> Any:
    """An answer in words: a label, a number, or a line of what it lists."""
    if isinstance(answer, Mapping):
        own = answer.get("text") or (text[answer["start"] : answer["end"]] if text and "end" in answer else "")
        return f"{own} ({answer['label']})".strip() if "label" in answer else own
    if isinstance(answer, list):
        return ", ".join(str(plain(one, text)) for one in answer)
    return answer


def _text(found: Answered, index: int) -> str | None:
    return found.columns["text"][index] if "text" in found.columns else None


def _readable(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and bool(value) and isinstance(value[0], str))
