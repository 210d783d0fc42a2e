"""Two marked entities of a text: read from `<e1>…</e1>` and `<e2>…</e2>` in it, or given as character spans."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from warmstart.errors import DataError

TAG = re.compile(r"</?e[12]>")
TYPES = ("first_type", "second_type")
"""The columns with the types of the two entities."""
EXAMPLE = "'The <e1>author</e1> uses a <e2>tool</e2>.'"


@dataclass(frozen=True)
class Marked:
    """A text without marks, and where its entities are: the first and the second by name, in any order in the text."""

    text: str
    entities: tuple[tuple[int, int], tuple[int, int]]
    types: tuple[str, str] | None = None
    """The type of each, such as `person`, where that is to be shown."""


def marked(row: Mapping[str, Any]) -> Marked:
    """A row's text and entities.

    Raises:
        DataError: What is wrong with the marks, without the location of the row.
    """
    given = [name for name in ("first", "second") if row.get(name) is not None]
    if not given:
        marked_text = _from_tags(row["text"])
    elif len(given) == 2:
        marked_text = Marked(row["text"], (_span(row, "first"), _span(row, "second")))
    else:
        raise DataError(f"has {given[0]!r} alone. Expected 'first' and 'second', or marks in the text.", "mark-missing")
    (a, b), (c, d) = marked_text.entities
    if a < d and c < b:
        raise DataError("the two entities overlap. Expected one before the other.", "mark-overlap")
    if all(row.get(name) is not None for name in TYPES):
        return replace(marked_text, types=tuple(row[name] for name in TYPES))
    return marked_text


def _from_tags(text: str) -> Marked:
    """Take the tags out of a text; white space just inside of them is not the entity's."""
    plain, positions, end = "", {}, 0
    for tag in TAG.finditer(text):
        plain += text[end : tag.start()]
        end = tag.end()
        if tag[0] in positions:
            raise DataError(f"'text' has {tag[0]} twice. Expected each mark once: {EXAMPLE}.", "mark-repeated")
        positions[tag[0]] = len(plain)
    plain += text[end:]
    missing = [tag for tag in ("<e1>", "</e1>", "<e2>", "</e2>") if tag not in positions]
    if missing:
        raise DataError(
            f"'text' has no {', '.join(missing)}. Expected two marked entities, as in {EXAMPLE}, or their spans in "
            "columns of their own: --column first=NAME --column second=NAME.",
            "mark-missing",
        )
    return Marked(plain, (_trimmed(plain, "e1", positions), _trimmed(plain, "e2", positions)))


def _trimmed(text: str, name: str, positions: Mapping[str, int]) -> tuple[int, int]:
    start, end = positions[f"<{name}>"], positions[f"</{name}>"]
    if end < start:
        raise DataError(f"'text' closes <{name}> before it opens it. Expected <{name}>…</{name}>.", "mark-order")
    return _filled(text, start, end, f"<{name}>")


def _span(row: Mapping[str, Any], name: str) -> tuple[int, int]:
    """The one span that a column gives."""
    text, given = row["text"], row[name]
    if TAG.search(text):
        raise DataError(f"'text' holds marks, and {name!r} is given too. Expected one of the two.", "mark-repeated")
    if isinstance(given, list | tuple) and len(given) == 1:
        [given] = given
    pair = [given.get("start"), given.get("end")] if isinstance(given, Mapping) else given
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(type(edge) is int for edge in pair):
        raise DataError(f"{name!r} is {str(given)[:60]}. Expected one span, as [start, end].", "mark-missing")
    start, end = pair
    if not 0 <= start <= end <= len(text):
        raise DataError(
            f"{name!r} is {start} to {end}, and 'text' has {len(text)} characters. Expected a span inside it, counted "
            "from 0, the end not included.",
            "mark-outside",
        )
    return _filled(text, start, end, repr(name))


def _filled(text: str, start: int, end: int, mark: str) -> tuple[int, int]:
    """The span without white space at its ends."""
    inside = text[start:end]
    if not inside.strip():
        raise DataError(f"{mark} marks {inside!r}. Expected an entity: some text.", "mark-empty")
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
