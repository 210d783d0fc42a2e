"""Values that are lists of small mappings: ranges, entities and answers, in the forms that files use for them."""

from __future__ import annotations

from collections.abc import Callable

from warmstart.data.schema import Row, Value

FaultOf = Callable[[str], Exception]
"""Makes the fault of a value from what is wrong with it."""

_SPAN_KEYS = (("start", "end"), ("start_offset", "end_offset"), ("begin", "end"))
_LABEL_KEYS = ("label", "type", "entity")


def ranges(value: Value, fault: FaultOf) -> list[Row]:
    """A list of ranges; each `[start, end]` or a mapping with `start` and `end`. A single one need not be in a list."""
    if isinstance(value, dict) or (isinstance(value, list | tuple) and len(value) == 2 and _all_integers(*value)):
        value = [value]
    return [_range(item, fault) for item in _items(value, fault)]


def entities(value: Value, fault: FaultOf) -> list[Row]:
    """A list of labelled ranges, in the order of the text; with the `text` there (or `name`), where it is given."""
    entities = []
    for item in _items(value, fault):
        if not isinstance(item, dict):
            raise fault(f"found {str(item)[:60]!r}, expected an object with start, end and label")
        label = next((item[name] for name in _LABEL_KEYS if name in item), None)
        if not isinstance(label, str) or not label.strip():
            raise fault(f"{str(item)[:80]!r} has no label; expected one under {', '.join(_LABEL_KEYS)}")
        text = item.get("text", item.get("name"))
        named = {"text": text} if isinstance(text, str) else {}
        entities.append({**_range(item.get("span", item), fault), "label": label, **named})
    return sorted(entities, key=lambda entity: (entity["start"], entity["end"]))


def answers(value: Value, fault: FaultOf) -> list[Row]:
    """A list of answers with their starts: of mappings, or a mapping of lists; empty where there is no answer."""
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        keys = [key for key in ("answer_start", "start") if key in value]
        starts = value[keys[0]] if keys else None
        if not isinstance(starts, list) or len(starts) != len(value["text"]):
            raise fault(f"found {str(value)[:80]!r}, expected as many starts as texts")
        value = [{"text": text, "start": start} for text, start in zip(value["text"], starts, strict=True)]
    answers = []
    for item in _items(value, fault):
        fields = item if isinstance(item, dict) else {}
        text, start = fields.get("text"), fields.get("answer_start", fields.get("start"))
        if not isinstance(text, str) or not _all_integers(start):
            raise fault(f"found {str(item)[:80]!r}, expected an object with text and start")
        answers.append({"text": text, "start": start})
    return answers


CONVERTERS: dict[str, Callable[[Value, FaultOf], list[Row]]] = {
    "ranges": ranges,
    "entities": entities,
    "answers": answers,
}
"""What converts the values of each structured kind."""


def _items(value: Value, fault: FaultOf) -> list[Value]:
    if not isinstance(value, list | tuple):
        raise fault(f"found {str(value)[:60]!r}, expected a list")
    return list(value)


def _range(item: Value, fault: FaultOf) -> Row:
    if isinstance(item, dict):
        pair = next(([item[start], item[end]] for start, end in _SPAN_KEYS if start in item and end in item), None)
    else:
        pair = list(item) if isinstance(item, list | tuple) and len(item) == 2 else None
    if pair is None or not _all_integers(*pair) or not 0 <= pair[0] < pair[1]:
        raise fault(f"found {str(item)[:80]!r}, expected a range: start and end in characters, the end after the start")
    return {"start": pair[0], "end": pair[1]}


def _all_integers(*values: Value) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
