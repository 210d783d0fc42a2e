"""Documents as the sequences that a language model learns from: windows of one document, or pairs of its stretches.

A sequence never holds two documents, but for the pairs of next-sentence prediction that are wrong on purpose.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from warmstart.errors import MissingExtra, RecipeError
from warmstart.tasks.base import Feature
from warmstart.tasks.shared.masking import IGNORED, NEVER
from warmstart.tasks.shared.tagging_units import joined, words_of
from warmstart.tasks.shared.text_inputs import no_panic, token_ids
from warmstart.text.alignment import Pieces, owners, pieces
from warmstart.text.windows import Frame, Window, slices

Range = tuple[int, int]
CONTINUES = "##"
"""What begins a WordPiece that goes on with a word, whatever the script."""
DRAWS = 32
"""Stretches of other documents of which one is taken for a wrong pair."""


@dataclass(frozen=True)
class Document:
    """The pieces of one text, of each the number of the unit it belongs to, and where its sentences are."""

    ids: list[int]
    units: list[int]
    sentences: list[Range]


def documents(texts: Sequence[str], tokenizer: Any, words: bool, language: str | None) -> list[Document]:
    """Each text in pieces.

    Args:
        words: Units are words; else every piece is one.
        language: What sentences are found by; None where they are not wanted.
    """
    with no_panic():
        if not words and language is None:
            return [Document(ids, list(range(len(ids))), []) for ids in token_ids(tokenizer, texts)]
        cut = pieces(tokenizer, texts)
    found = []
    for text, each in zip(texts, cut, strict=True):
        units = _words(text, each, tokenizer) if words else list(range(len(each.ids)))
        found.append(Document(each.ids, units, _sentences(text, each, language) if language else []))
    return found


def windows(document: Document, frame: Frame, window: Window, special: frozenset[int]) -> Iterator[Feature]:
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
) -> Iterator[Feature]:
    """All of a document, as pairs of stretches of sentences; `follows` says whether they belong so (0) or not (1).

    Half of the pairs are wrong: with `nsp` the second stretch is one of another document ("BERT", Devlin et al. 2019,
    §3.1), and what it stands for comes later; with `sop` the two change places ("ALBERT", Lan et al. 2020, §3.1). What
    is left of a document with a single sentence comes alone, and says nothing of order.

    Args:
        number: Which of the documents; the others are those that wrong stretches are taken from.
        frames: The special tokens around one text, and around a pair.
    """
    own = all_documents[number]
    budget = window.max_tokens - frames[1].size
    if budget < 2 or window.overlap:
        found = f"overlap: found {window.overlap}" if budget >= 2 else f"tokens: found {window.max_tokens}"
        raise RecipeError(f"window.{found}; pairs of sentences need room for two, and no overlap")
    others = [one for one in all_documents if one.ids and one.ids != own.ids] if objective == "nsp" else []
    random = _random(own)
    left = _short(own.sentences, budget // 2)
    while left:
        stretch = _first(left, budget)
        if len(stretch) == 1:
            yield {**_feature(frames[0], special, (own, stretch[0])), "follows": IGNORED}
            left = left[1:]
            continue
        middle = int(random.integers(1, len(stretch)))
        a, b = _whole(stretch[:middle]), _whole(stretch[middle:])
        wrong = random.random() < 0.5
        first, second = (own, a), (own, b)
        if objective == "sop":
            first, second = (second, first) if wrong else (first, second)
        elif wrong and others:
            second = _borrowed(others, b[1] - b[0], budget - (a[1] - a[0]), budget // 2, random)
        left = left[middle if second[0] is not own else len(stretch) :]
        label = int(second[0] is not own if objective == "nsp" else wrong)
        yield {**_feature(frames[1], special, first, second), "follows": label}


def _feature(frame: Frame, special: frozenset[int], *parts: tuple[Document, Range]) -> Feature:
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
    return {**frame.put_around(*ids), "units": every, "tokens": 0, "cut": 0}


def _words(text: str, cut: Pieces, tokenizer: Any) -> list[int]:
    """The number of the word of each piece; a piece that stands for no character is one by itself."""
    held = owners(cut.places, joined(words_of(text), cut.places))
    found: list[int] = []
    before = NEVER
    for owner, token in zip(held, tokenizer.convert_ids_to_tokens(cut.ids), strict=True):
        same = found and (token.startswith(CONTINUES) or (owner == before and owner != NEVER))
        found.append(found[-1] + (not same) if found else 0)
        before = owner
    return found


def _sentences(text: str, cut: Pieces, language: str) -> list[Range]:
    """The pieces of each sentence; one that stands for no character goes with the sentence before it."""
    ends, at = [], 0
    for sentence in segmenter()(language, text):
        at += len(sentence)
        ends.append(at)
    starts = [0]
    current = 0
    for piece, (start, end) in enumerate(cut.places):
        reached = current
        while start < end and reached < len(ends) - 1 and start >= ends[reached]:
            reached += 1
        if reached > current and piece:
            starts.append(piece)
        current = reached
    return [(a, b) for a, b in zip(starts, [*starts[1:], len(cut.ids)], strict=True) if a < b]


def segmenter() -> Any:
    """The function that cuts a text of a language into sentences, losing no character."""
    try:
        from sentencex import segment
    except ImportError:
        raise MissingExtra("sentences are found by sentencex: pip install 'warmstart[text]'") from None
    return segment


def _random(document: Document) -> np.random.Generator:
    """Choices that depend on the document alone, so that a training that goes on makes the same."""
    digest = hashlib.blake2b(np.array(document.ids, dtype=np.int64).tobytes(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little"))


def _short(sentences: Sequence[Range], most: int) -> list[Range]:
    """The sentences, those longer than `most` cut into several, so that two always fit."""
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
    """Sentences of another document, as long as what they stand for: else a pair's length would tell that it is wrong.

    Of some stretches drawn by chance the one nearest in length is taken.

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
