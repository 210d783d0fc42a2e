"""Which characters of a text each of its tokens covers, in the text as the user wrote it.

Everything that is given or returned as characters stands on this: a tagged word, an answer, an entity of a relation.
Fast tokenizers report offsets, which are corrected here; for slow ones in plain Python, such as
`BertJapaneseTokenizer`, the tokens are located in the text again (see `token_matching.py`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from warmstart.errors import ModelError
from warmstart.text.token_matching import CharSpan as CharSpan
from warmstart.text.token_matching import find_offsets

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPACE_MARKS = "▁Ġ"
"""What stands for the space before a word in SentencePiece and in byte-level vocabularies."""


@dataclass(frozen=True)
class TokenizedText:
    """The tokens of one text, without special tokens.

    `text[start:end]` is what a token covers, without white space around it. Starts never decrease. A token that
    stands for white space, or for nothing in the text, has an empty span. Tokens share a span where they are parts of
    one character: its bytes, or `株 式 会 社` of `㍿`. Accents, joiners and control characters that the tokenizer drops
    belong to the token that they directly follow.
    """

    ids: list[int]
    offsets: list[CharSpan]


def tokenize_with_offsets(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], by: Literal["text", "character"] = "text"
) -> list[TokenizedText]:
    """The tokens of each text with their character offsets; the ids are the tokenizer's own.

    Args:
        by: `text` leaves the splitting to the tokenizer. `character` tokenizes every character by itself, so that no
            token ever crosses a boundary; meant for scripts without spaces and WordPiece vocabularies.

    Raises:
        ModelError: The tokens cannot be located in the text.
    """
    if by == "character":
        return _by_character(tokenizer, texts)
    if not texts:
        return []
    encoding = tokenizer(
        list(texts),
        add_special_tokens=False,
        return_attention_mask=False,
        return_offsets_mapping=tokenizer.is_fast,
        verbose=False,
    )
    out = []
    for number, text in enumerate(texts):
        ids: list[int] = encoding["input_ids"][number]
        if tokenizer.is_fast:
            tokens = tokenizer.convert_ids_to_tokens(ids)
            mapping = encoding["offset_mapping"][number]
            offsets = [_without_space_mark(text, token, span) for token, span in zip(tokens, mapping, strict=True)]
        else:
            offsets = _locate(tokenizer, text, ids)
        out.append(TokenizedText(ids, _tidy(text, offsets)))
    return out


def word_ids(offsets: Iterable[CharSpan], words: Sequence[CharSpan]) -> list[int]:
    """For each token the index of the word it belongs to, or -1.

    That is the first word the token touches: a token that covers parts of two words belongs to the first of them, and
    the second may be left without a token. A token with an empty span belongs to no word.

    Args:
        words: In order, without overlap.
    """
    out, word = [], 0
    for start, end in offsets:
        while word < len(words) and words[word][1] <= start:
            word += 1
        touches = word < len(words) and max(start, words[word][0]) < min(end, words[word][1])
        out.append(word if touches else -1)
    return out


def join_words(words: Iterable[str], between: str = " ") -> tuple[str, list[CharSpan]]:
    """Words (of a CoNLL file) joined to one text, and the span of each in it."""
    spans: list[CharSpan] = []
    parts = list(words)
    start = 0
    for word in parts:
        spans.append((start, start + len(word)))
        start += len(word) + len(between)
    return between.join(parts), spans


def char_span_to_tokens(offsets: Sequence[CharSpan], start: int, end: int) -> tuple[int, int] | None:
    """Which tokens touch a span of characters, from the first to before the last; None where none does."""
    touched = [number for number, (first, last) in enumerate(offsets) if max(first, start) < min(last, end)]
    return (touched[0], touched[-1] + 1) if touched else None


def tokens_to_char_span(offsets: Sequence[CharSpan], first: int, stop: int) -> CharSpan | None:
    """The characters that tokens `first` to before `stop` cover; None where they cover none."""
    filled = [span for span in offsets[first:stop] if span[0] < span[1]]
    return (filled[0][0], max(end for _, end in filled)) if filled else None


def _by_character(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[TokenizedText]:
    alphabet = sorted({character for text in texts for character in text if not character.isspace()})
    encoded = tokenize_with_offsets(tokenizer, alphabet)
    known = {character: tokens.ids for character, tokens in zip(alphabet, encoded, strict=True)}
    out = []
    for text in texts:
        characters = [(known.get(character, []), (at, at + 1)) for at, character in enumerate(text)]
        ids = [token for tokens, _ in characters for token in tokens]
        offsets = [span for tokens, span in characters for _ in tokens]
        out.append(TokenizedText(ids, _tidy(text, offsets)))
    return out


def _locate(tokenizer: PreTrainedTokenizerBase, text: str, ids: list[int]) -> list[CharSpan]:
    offsets = find_offsets(tokenizer, text, ids)
    if offsets is None:
        raise ModelError(
            f"{type(tokenizer).__name__}: its tokens cannot be located in the text {text[:60]!r}, so characters cannot "
            "be mapped to tokens; use a model with a fast tokenizer (tokenizer.json)"
        )
    return offsets


def _without_space_mark(text: str, token: str, span: CharSpan) -> CharSpan:
    """The span of a token; that of a space which the tokenizer added itself is empty, whatever it reports."""
    start, end = span
    if token.strip(SPACE_MARKS) == "" and text[start:end].strip(SPACE_MARKS + " ") != "":
        return start, start
    return start, end


def _tidy(text: str, offsets: Iterable[CharSpan]) -> list[CharSpan]:
    """Spans without white space around them, in order, extended by the dropped characters that follow them."""
    out: list[CharSpan] = []
    last = 0
    seen = bytearray(len(text))
    for start, end in offsets:
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
