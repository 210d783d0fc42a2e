"""Documents as the sequences that a language model learns from: windows of one document, or pairs of its stretches.

A sequence never holds two documents, but for the pairs of next-sentence prediction that are wrong on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NotRequired, cast

import numpy as np

from warmstart.errors import MissingExtraError, RecipeError
from warmstart.tasks.base import FlatFeature
from warmstart.tasks.shared.masking import IGNORED, NEVER
from warmstart.tasks.shared.tagging_units import joined, words_of
from warmstart.tasks.shared.text_inputs import flat, no_panic, token_ids
from warmstart.text.alignment import TokenizedText, tokenize_with_offsets, word_ids
from warmstart.text.windows import Frame, Range, Window, slices

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

CONTINUES = "##"
"""What begins a WordPiece token that continues a word, whatever the script."""
DRAWS = 32
"""Stretches of other documents of which one is taken for a wrong pair."""


class DocumentFeature(FlatFeature):
    """A sequence of one document, or a pair of stretches."""

    units: NotRequired[list[int]]
    """The unit of each token that is masked as a whole, `NEVER` for special tokens."""
    next_sentence_label: NotRequired[int]
    """0 where the two stretches belong so, 1 where not, and `IGNORED` where there is one alone."""


@dataclass(frozen=True)
class Document:
    """The tokens of one text, of each the number of the unit it belongs to, and where its sentences are."""

    ids: list[int]
    units: list[int]
    sentences: list[Range]


def documents(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, words: bool, language: str | None
) -> list[Document]:
    """Each text in tokens.

    Args:
        words: Units are words; else every token is one.
        language: What sentences are split by; None where they are not needed.
    """
    with no_panic():
        if not words and language is None:
            return [Document(ids, list(range(len(ids))), []) for ids in token_ids(tokenizer, texts)]
        tokenized = tokenize_with_offsets(tokenizer, texts)
    split = []
    for text, tokens in zip(texts, tokenized, strict=True):
        units = _words(text, tokens, tokenizer) if words else list(range(len(tokens.ids)))
        split.append(Document(tokens.ids, units, _sentences(text, tokens, language) if language else []))
    return split


def windows(document: Document, frame: Frame, window: Window, special: frozenset[int]) -> Iterator[DocumentFeature]:
    """All of a document, in as many sequences as it needs."""
    for start, end in slices(len(document.ids), window.max_tokens - frame.size, window.overlap):
        yield _feature(frame, special, (document, (start, end)))


def pairs(
    all_documents: Sequence[Document],
    number: int,
    frames: tuple[Frame, Frame],
    window: Window,
    objective: Literal["nsp", "sop"],
    special: frozenset[int],
) -> Iterator[DocumentFeature]:
    """All of a document, as pairs of stretches of sentences, with their `next_sentence_label`.

    Half of the pairs are wrong: with `nsp` the second stretch is one of another document ("BERT", Devlin et al. 2019,
    §3.1), and what it replaces comes later; with `sop` the two change places ("ALBERT", Lan et al. 2020, §3.1), as they
    do with `nsp` where there is no other document: the second does not follow the first then either. What is left of a
    document with a single sentence comes alone, and says nothing of order.

    Args:
        number: Which of the documents; the others are those that wrong stretches are taken from.
        frames: The special tokens around one text, and around a pair.
    """
    own = all_documents[number]
    budget = window.max_tokens - frames[1].size
    if budget < 2 or window.overlap:
        key = f"overlap: found {window.overlap}" if budget >= 2 else f"max_tokens: found {window.max_tokens}"
        raise RecipeError(f"window.{key}; pairs of sentences need room for two, and no overlap")
    candidates = all_documents if objective == "nsp" else ()
    others = [document for document in candidates if document.ids and document.ids != own.ids]
    random = _random(own)
    left = _short(own.sentences, budget // 2)
    while left:
        stretch = _first(left, budget)
        if len(stretch) == 1:
            yield {**_feature(frames[0], special, (own, stretch[0])), "next_sentence_label": IGNORED}
            left = left[1:]
            continue
        middle = int(random.integers(1, len(stretch)))
        a, b = _whole(stretch[:middle]), _whole(stretch[middle:])
        wrong = random.random() < 0.5
        first, second = (own, a), (own, b)
        borrows = wrong and bool(others)
        if borrows:
            second = _borrowed(others, b[1] - b[0], budget - (a[1] - a[0]), budget // 2, random)
        elif wrong:
            first, second = second, first
        left = left[middle if borrows else len(stretch) :]
        yield {**_feature(frames[1], special, first, second), "next_sentence_label": int(wrong)}


def _feature(frame: Frame, special: frozenset[int], *parts: tuple[Document, Range]) -> DocumentFeature:
    """A sequence of one stretch or two, with the unit of every token; the units of two never touch."""
    ids = [document.ids[start:end] for document, (start, end) in parts]
    shift, units = 0, []
    for (document, (start, end)), tokens in zip(parts, ids, strict=True):
        first = document.units[start] if start < end else 0
        own = [unit - first + shift for unit in document.units[start:end]]
        shift = max(own, default=0) + 2
        units.append([NEVER if token in special else unit for token, unit in zip(tokens, own, strict=True)])
    first_units, second_units = units[0], units[1] if len(units) > 1 else []
    around = [[NEVER] * len(part) for part in (frame.before, frame.between, frame.after)]
    every = [*around[0], *first_units, *around[1], *second_units, *around[2]]
    return cast(DocumentFeature, {**flat(frame.put_around(*ids), 0, 0), "units": every})


def _words(text: str, tokens: TokenizedText, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The number of the word of each token; a token that stands for no character is one by itself."""
    spans = word_ids(tokens.offsets, joined(words_of(text), tokens.offsets))
    words: list[int] = []
    before = NEVER
    for word, token in zip(spans, tokenizer.convert_ids_to_tokens(tokens.ids), strict=True):
        same = words and (token.startswith(CONTINUES) or (word == before and word != NEVER))
        words.append(words[-1] + (not same) if words else 0)
        before = word
    return words


def _sentences(text: str, tokens: TokenizedText, language: str) -> list[Range]:
    """The tokens of each sentence; one that stands for no character goes with the sentence before it."""
    ends, position = [], 0
    for sentence in segmenter()(language, text):
        position += len(sentence)
        ends.append(position)
    starts = [0]
    current = 0
    for token, (start, end) in enumerate(tokens.offsets):
        reached = current
        while start < end and reached < len(ends) - 1 and start >= ends[reached]:
            reached += 1
        if reached > current and token:
            starts.append(token)
        current = reached
    return [(a, b) for a, b in zip(starts, [*starts[1:], len(tokens.ids)], strict=True) if a < b]


def segmenter() -> Callable[[str, str], Iterable[str]]:
    """The function that splits a text of a language into sentences, losing no character."""
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtraError("sentences are split by sentencex: pip install 'warmstart[text]'") from None
    split: Callable[[str, str], Iterable[str]] = segment
    return split


def _random(document: Document) -> np.random.Generator:
    """Choices that depend on the document alone, so that a training that is resumed makes the same."""
    digest = hashlib.blake2b(np.array(document.ids, dtype=np.int64).tobytes(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def _short(sentences: Sequence[Range], most: int) -> list[Range]:
    """The sentences, those longer than `most` split into several, so that two always fit."""
    return [(start + a, start + b) for start, end in sentences for a, b in slices(end - start, most)]


def _first(sentences: Sequence[Range], room: int) -> list[Range]:
    """As many sentences from the first on as fit."""
    count = 1
    while count < len(sentences) and sentences[count][1] - sentences[0][0] <= room:
        count += 1
    return list(sentences[:count])


def _whole(stretch: Sequence[Range]) -> Range:
    return stretch[0][0], stretch[-1][1]


def _borrowed(
    others: Sequence[Document], wanted: int, room: int, most: int, random: np.random.Generator
) -> tuple[Document, Range]:
    """Sentences of another document, as long as those they replace: else a pair's length would tell that it is wrong.

    Of some stretches drawn at random the one nearest in length is taken.

    Args:
        most: The longest a sentence may be, as in the documents' own.
    """
    best: tuple[int, Document, Range] | None = None
    for _ in range(DRAWS):
        other = others[int(random.integers(len(others)))]
        sentences = _short(other.sentences, most)
        first = int(random.integers(len(sentences)))
        start = sentences[first][0]
        for _, end in sentences[first:]:
            away = abs(end - start - wanted)
            if best is None or away < best[0]:
                best = away, other, (start, min(end, start + room))
            if end - start >= wanted:
                break
        if best is not None and best[0] == 0:
            break
    assert best is not None
    return best[1], best[2]
