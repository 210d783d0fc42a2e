"""Finding the pieces of a tokenizer that tells no places in the text they came from.

Text and pieces are brought to a common form, the least changed one in which they agree: as they are, in NFKC, without
regard to case, without control characters, without accents. An unknown piece stands for what lies between its
neighbours; words, where the tokenizer has them, are found first, so that it never reaches beyond its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from typing import Any

Range = tuple[int, int]
Unit = tuple[str, int, int]
"""A character of the text in some form, and the characters of the text as given that it came from."""
Surface = str | None
"""What a piece says of the text it stands for; None where it is unknown."""

FORMS = [(case, left_out) for left_out in ((), ("C",), ("C", "Mn"), ("C", "Mn", "▁")) for case in (True, False)]
"""Whether case counts, and which kinds of characters do not; the least changed form first."""
MARKS = re.compile(r"^##(?=.)|^▁|(?<=.)@@$|</w>$", re.DOTALL)
"""What vocabularies write at the ends of a piece to say where words begin and end."""


def find_pieces(tokenizer: Any, text: str, ids: Sequence[int]) -> list[Range] | None:
    """The place of every piece in the text, or None where they cannot be found."""
    if not ids:
        return []
    tokens: list[str] = []
    places: list[Range] | None = []
    at = 0
    for part in tokenizer.tokens_trie.split(text):
        some, found = _find_in_part(tokenizer, part)
        tokens += some
        places = None if places is None or found is None else [*places, *((at + a, at + b) for a, b in found)]
        at += len(part)
    if places is not None and tokenizer.convert_tokens_to_ids(tokens) == list(ids):
        return places
    # It cuts the whole in another way than its words.
    tokens = tokenizer.tokenize(text)
    if tokenizer.convert_tokens_to_ids(tokens) != list(ids):
        return None
    return _places(_match(_plain(text), [_surface(tokenizer, token) for token in tokens]))


def normal(units: list[Unit]) -> list[Unit]:
    """Characters in NFKC, each with the shortest stretch of the text that it can be told to come from."""
    text = "".join(character for character, *_ in units)
    if unicodedata.is_normalized("NFKC", text):
        return units
    out: list[Unit] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and _together(text[start:end], text[end]):
            continue
        piece = text[start:end]
        changed = _nfkc(piece)
        if changed == piece:
            out += units[start:end]
        else:
            out += [(character, units[start][1], units[end - 1][2]) for character in changed]
        start = end
    return out


def _together(before: str, character: str) -> bool:
    """Whether normalisation makes one of a stretch and the character after it, or changes their order."""
    if character.isascii():
        return False
    if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return True
    return _nfkc(before + character) != _nfkc(before) + _nfkc(character)


def _find_in_part(tokenizer: Any, part: str) -> tuple[list[str], list[Range] | None]:
    """The pieces of what lies between added tokens, word by word, and their places."""
    words = list(_words(tokenizer, part))
    tokens = [token for _, some in words for token in some]
    surfaces: list[Surface] = [word for word, _ in words]
    # MeCab reads to the first NUL and no further.
    found = _match(_plain(part), surfaces) or _match(_plain(part.partition("\0")[0]), surfaces)
    if found is None:
        return tokens, None
    exact: list[list[Unit]] = []
    for (word, some), inside in zip(words, found, strict=True):
        # What cannot be told apart, as the bytes of a word, shares the word's place.
        exact += _match(inside, _surfaces(tokenizer, word, some)) or [inside] * len(some)
    return tokens, _places(exact)


def _words(tokenizer: Any, part: str) -> Iterator[tuple[str, list[str]]]:
    """Each word as the tokenizer's own first step gives it, with its pieces; else what white space parts."""
    first, second = getattr(tokenizer, "word_tokenizer", None), getattr(tokenizer, "subword_tokenizer", None)
    if part in tokenizer.get_added_vocab():
        yield part, [part]
    elif first is None:
        yield from ((word, tokenizer.tokenize(word)) for word in part.split())
    else:
        for word in first.tokenize(part, never_split=tokenizer.all_special_tokens):
            yield word, [word] if second is None else second.tokenize(word)


def _surfaces(tokenizer: Any, word: str, tokens: list[str]) -> list[Surface]:
    """What the pieces of a word say of it: an unknown one is known by the word where that was cut into characters."""
    unknown = tokenizer.unk_token
    for letters in (word, _nfkc(word)):
        if len(letters) == len(tokens) and all(
            token in (letter, unknown) for token, letter in zip(tokens, letters, strict=True)
        ):
            return list(letters)
    out = [_surface(tokenizer, token) for token in tokens]
    if tokens and tokens[0].startswith("##"):
        # Only a later piece carries the mark: a first "##a" is the beginning of a word.
        out[0] = tokens[0]
    return out


def _surface(tokenizer: Any, token: str) -> Surface:
    return None if token == tokenizer.unk_token else MARKS.sub("", token)


def _plain(text: str) -> list[Unit]:
    return [(character, at, at + 1) for at, character in enumerate(text)]


def _places(found: list[list[Unit]] | None) -> list[Range] | None:
    """The stretch of the text that each piece's characters came from; of none, an empty one where the last ended."""
    if found is None:
        return None
    out: list[Range] = []
    for inside in found:
        at = out[-1][1] if out else 0
        out.append((inside[0][1], max(end for *_, end in inside)) if inside else (at, at))
    return out


def _match(given: list[Unit], surfaces: Sequence[Surface]) -> list[list[Unit]] | None:
    """The characters that each piece stands for, in the least changed form in which all of them agree."""
    if None not in surfaces and "".join(unit[0] for unit in given) == "".join(filter(None, surfaces)):
        # As nearly all words are; what follows would give the same, slowly.
        ends = list(accumulate(len(one or "") for one in surfaces))
        return [given[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    changed = normal(given)
    kinds = [given] if changed is given else [given, changed]
    for form, units in product(FORMS, kinds):
        pairs = [(one, at) for at, (unit, *_) in enumerate(units) for one in _form(unit, *form)]
        wanted = [None if one is None else _form(_nfkc(one) if units is changed else one, *form) for one in surfaces]
        found = _lay("".join(one for one, _ in pairs), wanted)
        if found is not None:
            index = [at for _, at in pairs]
            return [units[index[a] : index[b - 1] + 1] if a < b else [] for a, b in found]
    return None


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _form(text: str, case: bool, left_out: tuple[str, ...]) -> str:
    """A text without white space in one of the forms."""
    if not case:
        text = text.casefold()
    if "Mn" in left_out:
        text = unicodedata.normalize("NFD", text)
    return "".join(one for one in text if not one.isspace() and not _is_left_out(one, left_out))


def _is_left_out(one: str, left_out: tuple[str, ...]) -> bool:
    if one in "▁\ufffd":
        # BERT drops the sign for a character that could not be read as it does control characters.
        return "▁" in left_out if one == "▁" else "C" in left_out
    return unicodedata.category(one).startswith(left_out)


def _lay(text: str, pieces: Sequence[Surface]) -> list[Range] | None:
    """Pieces one after the other over all of a text; unknown ones stand for what is between, at least one character."""
    out: list[Range] = []
    at = number = 0
    while number < len(pieces):
        first = number
        while number < len(pieces) and pieces[number] is None:
            number += 1
        unknown = number - first
        known = []
        while number < len(pieces) and (piece := pieces[number]) is not None:
            known.append(piece)
            number += 1
        begin = at + unknown
        if unknown:
            begin = text.find("".join(known), begin) if number < len(pieces) else len(text) - len("".join(known))
        if begin < at + unknown or not text.startswith("".join(known), begin):
            return None
        # Of several unknown pieces in a row the last has what is left.
        out += [(at + one, begin if one == unknown - 1 else at + one + 1) for one in range(unknown)]
        at = begin
        for piece in known:
            out.append((at, at + len(piece)))
            at += len(piece)
    return out if at == len(text) else None
