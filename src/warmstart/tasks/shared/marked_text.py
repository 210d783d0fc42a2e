"""A text with two entities as the encoder is shown it: in parts, each with its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warmstart.errors import ModelError
from warmstart.tasks.shared.entity_markers import Marked
from warmstart.tasks.shared.text_inputs import token_ids

TOKENS = {"markers": ("[E1]", "[/E1]", "[E2]", "[/E2]"), "signs": (), "mask": ("[E1]", "[E2]")}
"""What each way of showing the entities adds to the tokenizer."""
SIGNS = ("$", "#")
TYPE_SIGNS = ("*", "^")
"""What stands around the type of the first and of the second entity, as in Zhou & Chen 2022."""


@dataclass(frozen=True)
class Part:
    """A stretch of a text as it is shown: plain `text`, or one of an entity's `open`, `type`, `entity` and `close`."""

    text: str
    role: str = "text"
    entity: int = 0
    """Which of the two it belongs to, 1 or 2."""
    ids: Sequence[int] = ()


def tokenised(texts: Sequence[Marked], show: str, tokenizer: Any) -> list[list[Part]]:
    """Each text in parts, each part with its tokens.

    Parts are tokenised one by one, an entity with the white space before it: so every tokenizer gives the pieces it
    gives for plain words, and where the entities are needs no search.
    """
    rows = [list(_parts(one, show)) for one in texts]
    ids = iter(token_ids(tokenizer, [part.text for row in rows for part in row]))
    found = [[replace(part, ids=next(ids)) for part in row] for row in rows]
    for part in found[0]:
        if part.text in TOKENS[show] and len(part.ids) != 1:
            raise ModelError(f"the model's tokenizer does not know {part.text}; it is not the one it was trained with")
    return found


def _parts(one: Marked, show: str) -> Iterator[Part]:
    """A text with its entities shown; white space before one goes with it."""
    end = 0
    for number, (start, stop) in sorted(enumerate(one.entities, 1), key=lambda item: item[1]):
        before, name = one.text[end:start], one.text[start:stop]
        bare = before.rstrip()
        yield Part(_apart(bare, end, show))
        kind = _type(one, number)
        if show == "signs":
            sign = SIGNS[number - 1]
            yield Part(f" {sign}" if start else sign, "open", number)
            yield from kind
            yield Part(f" {name}", "entity", number)
            yield Part(f" {sign}", "close", number)
        else:
            yield Part(f"[E{number}]", "open", number)
            yield from kind
            if show == "markers":
                yield Part(f" {name}" if kind else before[len(bare) :] + name, "entity", number)
                yield Part(f"[/E{number}]", "close", number)
        end = stop
    yield Part(_apart(one.text[end:], end, show))


def _type(one: Marked, number: int) -> list[Part]:
    """The type of an entity as words between signs, where there is one."""
    if one.types is None:
        return []
    sign, words = TYPE_SIGNS[number - 1], one.types[number - 1].replace("_", " ").lower()
    return [Part(f" {sign} {words} {sign}", "type", number)]


def _apart(text: str, end: int, show: str) -> str:
    """A text as it follows an entity, if it does: a sign is a word of its own."""
    return f" {text}" if show == "signs" and end and text and not text[0].isspace() else text
