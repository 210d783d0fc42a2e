"""Values that are lists of small mappings: ranges, entities and answers, in the forms that files have them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warmstart.data.schema import Column

Wrong = Callable[[str], Exception]
"""Makes the fault of a value from what is wrong with it."""

_PLACES = (("start", "end"), ("start_offset", "end_offset"), ("begin", "end"))
_LABELS = ("label", "type", "entity")


def ranges(column: Column, value: Any, wrong: Wrong) -> list[dict[str, int]]:
    """A list of places; each `[start, end]` or a mapping with `start` and `end`. A single one may stand alone."""
    if isinstance(value, dict) or (isinstance(value, list | tuple) and len(value) == 2 and _whole(*value)):
        value = [value]
    return [_range(item, wrong) for item in _items(column, value, wrong)]


def entities(column: Column, value: Any, wrong: Wrong) -> list[dict[str, Any]]:
    """A list of places with labels, in the order of the text; the `text` there, too, where it is given (or `name`)."""
    found = []
    for item in _items(column, value, wrong):
        if not isinstance(item, dict):
            raise wrong(f"found {str(item)[:60]!r}, expected an object with start, end and label")
        label = next((item[name] for name in _LABELS if name in item), None)
        if not isinstance(label, str) or not label.strip():
            raise wrong(f"{str(item)[:80]!r} has no label; expected one under {', '.join(_LABELS)}")
        told = item.get("text", item.get("name"))
        named = {"text": told} if isinstance(told, str) else {}
        found.append({**_range(item.get("span", item), wrong), "label": label, **named})
    return sorted(found, key=lambda one: (one["start"], one["end"]))


def answers(column: Column, value: Any, wrong: Wrong) -> list[dict[str, Any]]:
    """A list of answers with their places: of mappings, or a mapping of lists; empty where there is no answer."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        keys = [key for key in ("answer_start", "start") if key in value]
        starts = value[keys[0]] if keys else None
        if not isinstance(starts, list) or len(starts) != len(value["text"]):
            raise wrong(f"found {str(value)[:80]!r}, expected as many starts as texts")
        value = [{"text": text, "start": start} for text, start in zip(value["text"], starts, strict=True)]
    found = []
    for item in _items(column, value, wrong):
        known = item if isinstance(item, dict) else {}
        text, start = known.get("text"), known.get("answer_start", known.get("start"))
        if not isinstance(text, str) or not _whole(start):
            raise wrong(f"found {str(item)[:80]!r}, expected an object with text and start")
        found.append({"text": text, "start": start})
    return found


def _items(column: Column, value: Any, wrong: Wrong) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise wrong(f"found {str(value)[:60]!r}, expected a list")
    return list(value)


def _range(item: Any, wrong: Wrong) -> dict[str, int]:
    if isinstance(item, dict):
        pair = next(([item[a], item[b]] for a, b in _PLACES if a in item and b in item), None)
    else:
        pair = list(item) if isinstance(item, list | tuple) and len(item) == 2 else None
    if pair is None or not _whole(*pair) or not 0 <= pair[0] < pair[1]:
        raise wrong(f"found {str(item)[:80]!r}, expected a place: start and end in characters, the end after the start")
    return {"start": pair[0], "end": pair[1]}


def _whole(*values: Any) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
