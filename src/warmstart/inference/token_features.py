"""Vectors of every token, from any layer of an encoder: with the token, its text and its characters, in little memory.

extractor = TokenExtractor.load("sentence-transformers/all-MiniLM-L6-v2", layers="-2")
for chunk in extractor.stream(["one text", "and another"]):
    print(chunk.tokens, chunk.starts, chunk.vectors.shape)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warmstart.inference.batching import ROWS, group_by_length
from warmstart.inference.features import Extractor, TextRow, Vectors, text_rows
from warmstart.inference.predictor import Text
from warmstart.models.hidden_states import hidden_states
from warmstart.models.precision import autocast
from warmstart.tasks.shared.text_inputs import no_panic, pad
from warmstart.text.alignment import CharSpan, TokenizedText, tokenize_with_offsets
from warmstart.text.windows import Frame, View, apply_window, take_ranges, views

INPUTS = ("input_ids", "token_type_ids")
READ_AHEAD = 64
"""Texts whose tokens are held at a time."""
MAX_NUMBERS = 1 << 24
"""Numbers in the vectors that are held at a time: 64 MiB."""


@dataclass(frozen=True)
class TokenVectors:
    """Tokens as the encoder sees them, special ones included, in the order of the texts; a list has one item a token.

    Attributes:
        rows: The text that a token is of, as it was given.
        slices: In which slice of its text it is, from 0.
        segments: 0 for a token of the text, 1 for one of the second text of a pair, None for a special one.
        starts: Where its characters begin in its text; None for a special token.
        ends: Where they end.
        vectors: Of shape (tokens, …).
    """

    rows: list[TextRow]
    slices: list[int]
    segments: list[int | None]
    tokens: list[str]
    starts: list[int | None]
    ends: list[int | None]
    vectors: Vectors


@dataclass(frozen=True)
class TokenSequence:
    """One sequence of tokens for the encoder: a text, or a slice of it."""

    row: TextRow
    number: int
    inputs: dict[str, list[int]]
    origins: list[tuple[int, CharSpan] | None]
    """Of each token its segment and characters; None for a special one."""


class TokenExtractor:
    """Vectors of the tokens of texts; the same numbers as the plain encoder's hidden states.

    Args:
        extractor: Has the encoder, the layers and the window; its pooling is not used.

    Attributes:
        shape: The shape of a vector, as in `Extractor`.
    """

    def __init__(self, extractor: Extractor) -> None:
        self.extractor = extractor
        self.shape = extractor.shape

    @classmethod
    def load(
        cls,
        model: str | Path,
        layers: str | int = "last",
        max_tokens: int | None = None,
        window: str | None = None,
        precision: str = "fp32",
    ) -> TokenExtractor:
        """Open an encoder; the arguments are those of `Extractor.load`."""
        return cls(Extractor.load(model, layers, "mean", max_tokens, window, precision))

    def stream(
        self, texts: Iterable[Text], batch_size: int = ROWS, advance: Callable[[int], object] = lambda count: None
    ) -> Iterator[TokenVectors]:
        """The tokens of all texts, some at a time; the arguments are those of `Extractor.stream`."""
        pending = text_rows(texts)
        size = max(1, MAX_NUMBERS // self.extractor.width)
        while rows := list(itertools.islice(pending, READ_AHEAD)):
            for sequences in _parts(self.sequences(rows), size):
                yield self._tokens(sequences, batch_size)
                advance(len({id(sequence.row) for sequence in sequences if sequence.number == 0}))

    def sequences(self, rows: Sequence[TextRow]) -> Iterator[TokenSequence]:
        extractor, pair = self.extractor, "pair" in rows[0]
        extractor.check_window(pair)
        with no_panic():
            frame = Frame.of(extractor.tokenizer, pair)
            names = ("text", "pair") if pair else ("text",)
            columns = [tokenize_with_offsets(extractor.tokenizer, [row[name] for row in rows]) for name in names]
        for row, *texts in zip(rows, *columns, strict=True):
            feature = apply_window(extractor.window, frame, *(text.ids for text in texts))
            extractor.cut.add(feature)
            shown = views(extractor.window, frame, *(len(text.ids) for text in texts))
            for number, view in enumerate(shown):
                given: dict[str, Any] = {name: feature[name] for name in INPUTS if name in feature}
                slices = extractor.window.method == "slices"
                inputs: dict[str, list[int]] = {name: ids[number] if slices else ids for name, ids in given.items()}
                yield TokenSequence(row, number, inputs, _origins(frame, texts, view))

    @torch.inference_mode()
    def _tokens(self, sequences: Sequence[TokenSequence], batch_size: int) -> TokenVectors:
        extractor = self.extractor
        every = any(pooling.needs_all_layers for pooling in extractor.poolings)
        vectors: list[Vectors] = [np.zeros(0, np.float32)] * len(sequences)
        for chosen in group_by_length([sequence.inputs for sequence in sequences], batch_size):
            batch = pad([sequences[index].inputs for index in chosen], extractor.tokenizer)
            batch = {name: tensor.to(extractor.device) for name, tensor in batch.items()}
            with autocast(extractor.precision, extractor.device):
                states = hidden_states(extractor.encoder, batch, every)
                joined = torch.stack([pooling.join(states) for pooling in extractor.poolings], dim=2)
            mask = batch["attention_mask"].bool()
            for index, own, used in zip(chosen, joined.float(), mask, strict=True):
                vectors[index] = own[used].cpu().numpy().reshape(-1, *self.shape)
        ids = [token for sequence in sequences for token in sequence.inputs["input_ids"]]
        origins = [origin for sequence in sequences for origin in sequence.origins]
        return TokenVectors(
            [sequence.row for sequence in sequences for _ in sequence.origins],
            [sequence.number for sequence in sequences for _ in sequence.origins],
            [origin and origin[0] for origin in origins],
            extractor.tokenizer.convert_ids_to_tokens(ids),
            [origin and origin[1][0] for origin in origins],
            [origin and origin[1][1] for origin in origins],
            np.concatenate(vectors),
        )


def _origins(frame: Frame, texts: Sequence[TokenizedText], view: View) -> list[tuple[int, CharSpan] | None]:
    """Of each token that a view shows, with the special ones around them, its segment and its characters."""
    around: list[list[tuple[int, CharSpan] | None]] = [
        [None] * len(tokens) for tokens in (frame.before, frame.between, frame.after)
    ]
    shown: list[list[tuple[int, CharSpan] | None]] = [
        [(segment, span) for span in take_ranges(text.offsets, ranges)]
        for segment, (text, ranges) in enumerate(zip(texts, view, strict=False))
    ]
    before, between, after = around
    return [*before, *shown[0], *between, *(shown[1] if len(shown) > 1 else []), *after]


def _parts(sequences: Iterable[TokenSequence], size: int) -> Iterator[list[TokenSequence]]:
    """Consecutive sequences, with so many tokens at most, or one alone."""
    part: list[TokenSequence] = []
    tokens = 0
    for sequence in sequences:
        count = len(sequence.origins)
        if part and tokens + count > size:
            yield part
            part, tokens = [], 0
        part.append(sequence)
        tokens += count
    if part:
        yield part
