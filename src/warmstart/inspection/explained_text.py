"""A text whose answer is to be explained: its words, and how strongly the model still gives the answer without some.

A word is taken out by a mask token in the place of each of its tokens, so that all other tokens stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.schema import Row
from warmstart.errors import DataError, ModelError
from warmstart.inference.batching import TOKENS
from warmstart.inference.predictor import Predictor
from warmstart.tasks.base import Answer, AnyFeature
from warmstart.tasks.shared.protocols import ExplainsAnswers
from warmstart.tasks.shared.tagging_units import joined, words_of
from warmstart.tasks.shared.text_inputs import count_slices
from warmstart.text.alignment import CharSpan, word_ids

Place = tuple[int, int, int]
"""Where a token is: the feature, the sequence in it, and the position in that."""
Mask = NDArray[np.bool_]
"""Of each word whether it is kept."""


@dataclass(frozen=True)
class Word:
    """A word of a row that the model sees."""

    column: str
    start: int
    end: int
    text: str
    """The row's own characters."""
    places: tuple[Place, ...]
    """Its tokens; a word in the overlap of two windows has them twice."""


class ExplainedText:
    """A row, the model's answer to it, and its words.

    Args:
        row: With the columns that the task reads.
        answer: The answer to explain; None for the model's own.
    """

    def __init__(self, predictor: Predictor, row: Row, answer: Answer | None = None) -> None:
        task = predictor.task
        if not isinstance(task, ExplainsAnswers):
            raise ModelError(f"{task.name}: its answers are not explained; classify, score, tag and span are")
        self.predictor, self.task, self.row = predictor, task, row
        [(_, features)] = encoded = predictor.encode([row])
        self.features: list[AnyFeature] = features
        self.answer = next(predictor.answer(encoded)) if answer is None else answer
        self.words = self._words()
        if not self.words:
            raise DataError("the model sees no word of the text, so there is nothing to explain")

    @property
    def mask_id(self) -> int:
        """The token that stands for a word that is taken out."""
        tokenizer = self.predictor.tokenizer
        ids = (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
        return int(next(number for number in (*ids, 0) if number is not None))

    def scores(self, masks: Sequence[Mask]) -> NDArray[np.float64]:
        """How strongly the model gives the answer with only some of the words, for each choice of words."""
        tokens = sum(len(sequence) for feature in self.features for sequence in sequences_of(feature))
        size = max(1, TOKENS // max(tokens, 1))
        values: list[float] = []
        for start in range(0, len(masks), size):
            some = masks[start : start + size]
            copies = [feature for mask in some for feature in self.without(mask)]
            outputs = self.predictor.engine.compute(self.predictor.collate(copies))
            values += [float(score) for score in self.split(outputs, len(some))]
        return np.array(values)

    def split(self, outputs: dict[str, torch.Tensor], copies: int) -> Iterator[torch.Tensor]:
        """The number that is explained, of each copy of the row's features."""
        count = len(self.features)
        for copy in range(copies):
            own = {name: values[copy * count : (copy + 1) * count] for name, values in outputs.items()}
            yield self.task.explained_output(own, self.features, self.answer)

    def without(self, mask: Mask) -> list[dict[str, Any]]:
        """The row's features with a mask token for each token of the words that are not kept."""
        nested = [[list(sequence) for sequence in sequences_of(feature)] for feature in self.features]
        for word, kept in zip(self.words, mask, strict=True):
            for feature, sequence, position in () if kept else word.places:
                nested[feature][sequence][position] = self.mask_id
        return [
            {**feature, "input_ids": ids[0] if count_slices(feature) is None else ids}
            for feature, ids in zip(self.features, nested, strict=True)
        ]

    def _words(self) -> list[Word]:
        """The words in the order of the row, those without a token left out."""
        tokens: dict[str, list[tuple[CharSpan, Place]]] = {}
        origins = self.task.token_origins(self.row, self.predictor.tokenizer, self.predictor.window)
        for feature, sequences in enumerate(origins):
            for sequence, own in enumerate(sequences):
                for position, origin in enumerate(own):
                    if origin is not None:
                        tokens.setdefault(origin[0], []).append((origin[1], (feature, sequence, position)))
        words = []
        for column, own_tokens in tokens.items():
            text = str(self.row[column])
            ordered = sorted(own_tokens)
            # Characters of a script without spaces are words by themselves, unless a token covers several.
            spans = joined(words_of(text), [span for span, _ in ordered])
            places: dict[int, list[Place]] = {}
            for number, (_, place) in zip(word_ids([span for span, _ in ordered], spans), ordered, strict=True):
                if number >= 0:
                    places.setdefault(number, []).append(place)
            words += [Word(column, *spans[n], text[slice(*spans[n])], tuple(places[n])) for n in sorted(places)]
        return words


def sequences_of(feature: AnyFeature) -> list[list[int]]:
    """The token ids of a feature, a list for each of its sequences."""
    ids = feature["input_ids"]
    return [ids] if count_slices(feature) is None else ids
