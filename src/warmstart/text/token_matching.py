"""Locating the tokens of a slow tokenizer, which reports no offsets, in the text they came from.

Text and tokens are brought to a common form, the least changed one in which they agree: as they are, in NFKC,
case-insensitive, without control characters, without accents. An unknown token covers what lies between its
neighbours; words, where the tokenizer splits into words first, are located first, so that an unknown token never
reaches beyond its own word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CharSpan = tuple[int, int]
"""Characters of a text, from the first to before the last."""
Unit = tuple[str, int, int]
"""A character of the text in some form, and the span of the original text that it came from."""
Surface = str | None
"""The text that a token spells; None for the unknown token."""

FORMS = [(case, dropped) for dropped in ((), ("C",), ("C", "Mn"), ("C", "Mn", "▁")) for case in (True, False)]
"""Whether case counts, and which categories of characters do not; the least changed form first."""
AFFIXES = re.compile(r"^##(?=.)|^▁|(?<=.)@@$|</w>$", re.DOTALL)
"""What vocabularies write at the ends of a token to mark where words begin and end."""


def find_offsets(tokenizer: PreTrainedTokenizerBase, text: str, ids: Sequence[int]) -> list[CharSpan] | None:
    """The span of every token in the text, or None where they cannot be located."""
    if not ids:
        return []
    tokens: list[str] = []
    offsets: list[CharSpan] | None = []
    start = 0
    for part in tokenizer.tokens_trie.split(text):
        part_tokens, spans = _find_in_part(tokenizer, part)
        tokens += part_tokens
        offsets = None if offsets is None or spans is None else [*offsets, *((start + a, start + b) for a, b in spans)]
        start += len(part)
    if offsets is not None and tokenizer.convert_tokens_to_ids(tokens) == list(ids):
        return offsets
    # It splits the whole text otherwise than its words one by one.
    tokens = tokenizer.tokenize(text)
    if tokenizer.convert_tokens_to_ids(tokens) != list(ids):
        return None
    return _char_spans(_match(_units(text), [_surface(tokenizer, token) for token in tokens]))


def normalize_nfkc(units: list[Unit]) -> list[Unit]:
    """Characters in NFKC, each with the shortest span of the original text that it can be traced back to."""
    text = "".join(character for character, *_ in units)
    if unicodedata.is_normalized("NFKC", text):
        return units
    out: list[Unit] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and _combines(text[start:end], text[end]):
            continue
        cluster = text[start:end]
        changed = _nfkc(cluster)
        if changed == cluster:
            out += units[start:end]
        else:
            out += [(character, units[start][1], units[end - 1][2]) for character in changed]
        start = end
    return out


def _combines(before: str, character: str) -> bool:
    """Whether normalization merges a character with what stands before it, or changes their order."""
    if character.isascii():
        return False
    if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
        return True
    return _nfkc(before + character) != _nfkc(before) + _nfkc(character)


def _find_in_part(tokenizer: PreTrainedTokenizerBase, part: str) -> tuple[list[str], list[CharSpan] | None]:
    """The tokens of what lies between added tokens, word by word, and their spans."""
    words = list(_words(tokenizer, part))
    tokens = [token for _, word_tokens in words for token in word_tokens]
    surfaces: list[Surface] = [word for word, _ in words]
    # MeCab reads to the first NUL and no further.
    located = _match(_units(part), surfaces) or _match(_units(part.partition("\0")[0]), surfaces)
    if located is None:
        return tokens, None
    exact: list[list[Unit]] = []
    for (word, word_tokens), inside in zip(words, located, strict=True):
        # Tokens that cannot be told apart, as the bytes of a word, share the word's span.
        exact += _match(inside, _surfaces(tokenizer, word, word_tokens)) or [inside] * len(word_tokens)
    return tokens, _char_spans(exact)


def _words(tokenizer: PreTrainedTokenizerBase, part: str) -> Iterator[tuple[str, list[str]]]:
    """Each word as the tokenizer's own first step gives it, with its tokens; else what white space separates."""
    first, second = getattr(tokenizer, "word_tokenizer", None), getattr(tokenizer, "subword_tokenizer", None)
    if part in tokenizer.get_added_vocab():
        yield part, [part]
    elif first is None:
        yield from ((word, tokenizer.tokenize(word)) for word in part.split())
    else:
        for word in first.tokenize(part, never_split=tokenizer.all_special_tokens):
            yield word, [word] if second is None else second.tokenize(word)


def _surfaces(tokenizer: PreTrainedTokenizerBase, word: str, tokens: list[str]) -> list[Surface]:
    """What the tokens of a word spell; in a word split into characters, an unknown one spells its character."""
    unknown = tokenizer.unk_token
    for letters in (word, _nfkc(word)):
        if len(letters) == len(tokens) and all(
            token in (letter, unknown) for token, letter in zip(tokens, letters, strict=True)
        ):
            return list(letters)
    out = [_surface(tokenizer, token) for token in tokens]
    if tokens and tokens[0].startswith("##"):
        # Only a later token carries the prefix: a first "##a" is how the word itself begins.
        out[0] = tokens[0]
    return out


def _surface(tokenizer: PreTrainedTokenizerBase, token: str) -> Surface:
    return None if token == tokenizer.unk_token else AFFIXES.sub("", token)


def _units(text: str) -> list[Unit]:
    return [(character, at, at + 1) for at, character in enumerate(text)]


def _char_spans(located: list[list[Unit]] | None) -> list[CharSpan] | None:
    """The span of the text that each token's characters came from; of none, an empty one where the last ended."""
    if located is None:
        return None
    out: list[CharSpan] = []
    for inside in located:
        end = out[-1][1] if out else 0
        out.append((inside[0][1], max(stop for *_, stop in inside)) if inside else (end, end))
    return out


def _match(original: list[Unit], surfaces: Sequence[Surface]) -> list[list[Unit]] | None:
    """The characters that each token covers, in the least changed form in which all of them agree."""
    if None not in surfaces and "".join(unit[0] for unit in original) == "".join(filter(None, surfaces)):
        # As nearly all words are; what follows would give the same, slowly.
        ends = list(accumulate(len(surface or "") for surface in surfaces))
        return [original[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    changed = normalize_nfkc(original)
    variants = [original] if changed is original else [original, changed]
    for form, units in product(FORMS, variants):
        pairs = [(character, at) for at, (unit, *_) in enumerate(units) for character in _form(unit, *form)]
        targets = [
            None if surface is None else _form(_nfkc(surface) if units is changed else surface, *form)
            for surface in surfaces
        ]
        spans = _lay_out("".join(character for character, _ in pairs), targets)
        if spans is not None:
            index = [at for _, at in pairs]
            return [units[index[a] : index[b - 1] + 1] if a < b else [] for a, b in spans]
    return None


def _nfkc(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _form(text: str, case: bool, dropped: tuple[str, ...]) -> str:
    """A text without white space in one of the forms."""
    if not case:
        text = text.casefold()
    if "Mn" in dropped:
        text = unicodedata.normalize("NFD", text)
    return "".join(character for character in text if not character.isspace() and not _is_dropped(character, dropped))


def _is_dropped(character: str, dropped: tuple[str, ...]) -> bool:
    if character in "▁\ufffd":
        # BERT drops the replacement character as it drops control characters.
        return "▁" in dropped if character == "▁" else "C" in dropped
    return unicodedata.category(character).startswith(dropped)


def _lay_out(text: str, surfaces: Sequence[Surface]) -> list[CharSpan] | None:
    """Tokens one after another over a whole text; unknown ones cover what is between, at least one character each."""
    out: list[CharSpan] = []
    at = number = 0
    while number < len(surfaces):
        first = number
        while number < len(surfaces) and surfaces[number] is None:
            number += 1
        unknown = number - first
        known = []
        while number < len(surfaces) and (surface := surfaces[number]) is not None:
            known.append(surface)
            number += 1
        begin = at + unknown
        if unknown:
            begin = text.find("".join(known), begin) if number < len(surfaces) else len(text) - len("".join(known))
        if begin < at + unknown or not text.startswith("".join(known), begin):
            return None
        # Of several unknown tokens in a row the last takes what is left.
        out += [(at + offset, begin if offset == unknown - 1 else at + offset + 1) for offset in range(unknown)]
        at = begin
        for surface in known:
            out.append((at, at + len(surface)))
            at += len(surface)
    return out if at == len(text) else None
