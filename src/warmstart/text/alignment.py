"""Where each piece of a tokenizer stands in its text, as characters of the text as it was given.

A tagged word, an answer, an entity of a relation: whoever gives characters or asks for them stands on this. Fast
tokenizers tell their places, which are put right here; for those in plain Python, such as `BertJapaneseTokenizer`, the
pieces are found in the text again (see `matching.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from warmstart.errors import ModelError
from warmstart.text.piece_matching import find_pieces

Place = tuple[int, int]
"""Characters of a text, from the first to before the last."""

MARKS = "▁Ġ"
"""What stands for the space before a word in SentencePiece and in byte-level vocabularies."""


@dataclass(frozen=True)
class Pieces:
    """The pieces of one text, without special tokens.

    `text[start:end]` is what a piece stands for, without white space around it. Starts never go back. A piece that
    stands for white space, or for nothing that is in the text, has an empty place. Several pieces share a place where
    they are parts of one character: its bytes, or `株 式 会 社` of `㍿`. Accents, joiners and control characters that
    the tokenizer drops belong to the piece that they directly follow.
    """

    ids: list[int]
    places: list[Place]


def pieces(tokenizer: Any, texts: Sequence[str], by: Literal["text", "character"] = "text") -> list[Pieces]:
    """The pieces of each text with their places; the ids are those the tokenizer itself gives.

    Args:
        by: `text` leaves the cutting to the tokenizer. `character` has it read every character alone, so that a piece
            never crosses a boundary, wherever that is; meant for scripts without spaces and WordPiece vocabularies.

    Raises:
        ModelError: The tokenizer's pieces cannot be found in the text.
    """
    if by == "character":
        return _by_character(tokenizer, texts)
    if not texts:
        return []
    found = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_attention_mask=False,
        return_offsets_mapping=tokenizer.is_fast,
        verbose=False,
    )
    out = []
    for number, text in enumerate(texts):
        ids: list[int] = found["input_ids"][number]
        if tokenizer.is_fast:
            tokens = tokenizer.convert_ids_to_tokens(ids)
            places = [_without_mark(text, *each) for each in zip(tokens, found["offset_mapping"][number], strict=True)]
        else:
            places = _find(tokenizer, text, ids)
        out.append(Pieces(ids, _tidy(text, places)))
    return out


def owners(places: Iterable[Place], ranges: Sequence[Place]) -> list[int]:
    """For each piece the range of characters (a word) it belongs to, or -1.

    That is the first one the piece touches: a piece that covers parts of two words belongs to the first of them, and
    the second may be left with none. A piece with an empty place belongs to no range.

    Args:
        ranges: In order, none overlapping another.
    """
    out, at = [], 0
    for start, end in places:
        while at < len(ranges) and ranges[at][1] <= start:
            at += 1
        out.append(at if at < len(ranges) and max(start, ranges[at][0]) < min(end, ranges[at][1]) else -1)
    return out


def join_words(words: Iterable[str], between: str = " ") -> tuple[str, list[Place]]:
    """Given words (of a CoNLL file) as one text, and where in it each stands: the ranges for `owners`."""
    ranges: list[Place] = []
    parts = list(words)
    at = 0
    for word in parts:
        ranges.append((at, at + len(word)))
        at += len(word) + len(between)
    return between.join(parts), ranges


def span_to_pieces(places: Sequence[Place], start: int, end: int) -> tuple[int, int] | None:
    """Which pieces touch a span of characters, from the first to before the last; None where none does."""
    touched = [number for number, (first, last) in enumerate(places) if max(first, start) < min(last, end)]
    return (touched[0], touched[-1] + 1) if touched else None


def pieces_to_span(places: Sequence[Place], first: int, stop: int) -> Place | None:
    """The characters that pieces `first` to before `stop` stand for; None where they stand for none."""
    full = [place for place in places[first:stop] if place[0] < place[1]]
    return (full[0][0], max(end for _, end in full)) if full else None


def _by_character(tokenizer: Any, texts: Sequence[str]) -> list[Pieces]:
    alphabet = sorted({character for text in texts for character in text if not character.isspace()})
    known = {one: found.ids for one, found in zip(alphabet, pieces(tokenizer, alphabet), strict=True)}
    out = []
    for text in texts:
        each = [(known.get(character, []), (at, at + 1)) for at, character in enumerate(text)]
        ids = [one for some, _ in each for one in some]
        places = [place for some, place in each for _ in some]
        out.append(Pieces(ids, _tidy(text, places)))
    return out


def _find(tokenizer: Any, text: str, ids: list[int]) -> list[Place]:
    found = find_pieces(tokenizer, text, ids)
    if found is None:
        raise ModelError(
            f"{type(tokenizer).__name__}: its pieces cannot be found in the text {text[:60]!r}, so characters cannot "
            "be told from pieces; take a model with a fast tokenizer (tokenizer.json)"
        )
    return found


def _without_mark(text: str, token: str, place: Place) -> Place:
    """A space that a tokenizer put in itself is said to stand on the character after it; it stands for nothing."""
    start, end = place
    if token.strip(MARKS) == "" and text[start:end].strip(MARKS + " ") != "":
        return start, start
    return start, end


def _tidy(text: str, places: Iterable[Place]) -> list[Place]:
    """Places without white space around them, never going back, and holding the dropped characters that follow them."""
    out: list[Place] = []
    last = 0
    seen = bytearray(len(text))
    for start, end in places:
        start, end = max(start, last), max(end, start, last)
        while start < end and text[start].isspace():
            start += 1
        while start < end and text[end - 1].isspace():
            end -= 1
        seen[start:end] = b"\1" * (end - start)
        last = start
        out.append((start, end))
    return [(start, _with_dropped(text, seen, end) if start < end else end) for start, end in out]


def _with_dropped(text: str, seen: bytearray, end: int) -> int:
    while end < len(text) and not seen[end] and unicodedata.category(text[end])[0] in "MC" and not text[end].isspace():
        end += 1
    return end
