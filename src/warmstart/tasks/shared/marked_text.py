"""A text with two entities as the encoder sees it: in parts, each with its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warmstart.errors import ModelError
from warmstart.tasks.shared.entity_markers import Marked
from warmstart.tasks.shared.text_inputs import token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENS = {"markers": ("[E1]", "[/E1]", "[E2]", "[/E2]"), "punctuation": (), "mask": ("[E1]", "[E2]")}
"""What each way of marking the entities adds to the tokenizer."""
PUNCTUATION = ("$", "#")
TYPE_PUNCTUATION = ("*", "^")
"""What stands around the type of the first and of the second entity, as in Zhou & Chen 2022."""


@dataclass(frozen=True)
class Part:
    """A stretch of a text as it is seen: plain `text`, or one of an entity's `open`, `type`, `entity` and `close`."""

    text: str
    role: str = "text"
    entity: int = 0
    """Which of the two it belongs to, 1 or 2."""
    ids: Sequence[int] = ()


def tokenized(texts: Sequence[Marked], marking: str, tokenizer: PreTrainedTokenizerBase) -> list[list[Part]]:
    """Each text in parts, each part with its tokens.

    Parts are tokenized one by one, an entity with the white space before it: so every tokenizer gives the tokens it
    gives for plain words, and where the entities are needs no search.
    """
    rows = [list(_parts(text, marking)) for text in texts]
    ids = iter(token_ids(tokenizer, [part.text for row in rows for part in row]))
    split = [[replace(part, ids=next(ids)) for part in row] for row in rows]
    for part in split[0]:
        if part.text in TOKENS[marking] and len(part.ids) != 1:
            raise ModelError(f"the model's tokenizer does not know {part.text}; it is not the one it was trained with")
    return split


def appended(
    texts: Sequence[Marked], between: Sequence[int], most: int, tokenizer: PreTrainedTokenizerBase
) -> list[list[int]]:
    """Of each text the tokens of its first entity and of its second, with special ones between.

    Args:
        most: How many tokens of an entity are kept.
    """
    names = [text.text[start:end] for text in texts for start, end in text.entities]
    ids = iter(token_ids(tokenizer, names))
    return [[*next(ids)[:most], *between, *next(ids)[:most]] for _ in texts]


def _parts(marked: Marked, marking: str) -> Iterator[Part]:
    """A text with its entities marked; white space before one goes with it."""
    end = 0
    for number, (start, stop) in sorted(enumerate(marked.entities, 1), key=lambda item: item[1]):
        before, name = marked.text[end:start], marked.text[start:stop]
        bare = before.rstrip()
        yield Part(_apart(bare, end, marking))
        kind = _type(marked, number)
        if marking == "punctuation":
            sign = PUNCTUATION[number - 1]
            yield Part(f" {sign}" if start else sign, "open", number)
            yield from kind
            yield Part(f" {name}", "entity", number)
            yield Part(f" {sign}", "close", number)
        else:
            yield Part(f"[E{number}]", "open", number)
            yield from kind
            if marking == "markers":
                yield Part(f" {name}" if kind else before[len(bare) :] + name, "entity", number)
                yield Part(f"[/E{number}]", "close", number)
        end = stop
    yield Part(_apart(marked.text[end:], end, marking))


def _type(marked: Marked, number: int) -> list[Part]:
    """The type of an entity as words between signs, where there is one."""
    if marked.types is None:
        return []
    sign, words = TYPE_PUNCTUATION[number - 1], marked.types[number - 1].replace("_", " ").lower()
    return [Part(f" {sign} {words} {sign}", "type", number)]


def _apart(text: str, end: int, marking: str) -> str:
    """A text as it follows an entity, if it does: a sign is a word of its own."""
    return f" {text}" if marking == "punctuation" and end and text and not text[0].isspace() else text
