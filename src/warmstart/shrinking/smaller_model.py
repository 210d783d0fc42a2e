"""Writing a smaller model: a model folder like any other, read back and compared before it is used."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.data.schema import Row
from warmstart.errors import ModelError
from warmstart.inference.predictor import Predictor
from warmstart.inspection.ablation import torch_model
from warmstart.models.fewer_blocks import remove_blocks
from warmstart.models.switches import BlocksOff
from warmstart.models.vocabulary import TrimmedVocabulary, trim_embeddings, trim_vocabulary
from warmstart.storage.artifacts import publish
from warmstart.tasks.shared.saved_task import SavedTask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CLOSE = 1e-4
"""How far outputs may differ where they should not."""
COMPARED = 32
"""Rows whose outputs are compared."""


@dataclass(frozen=True)
class SmallerModel:
    """What is removed from a model: blocks by their numbers, and tokens."""

    predictor: Predictor
    vocabulary: TrimmedVocabulary | None = None
    blocks: Sequence[int] = ()

    def write(self, folder: Path, rows: Sequence[Row]) -> None:
        """Publish the model, once it gives what the original gives with those blocks off.

        Raises:
            ModelError: It does not; nothing is written.
        """
        original = cast("PreTrainedModel", torch_model(self.predictor))
        model = copy.deepcopy(original)
        if self.blocks:
            remove_blocks(model, self.blocks)
        if self.vocabulary:
            trim_embeddings(model, self.vocabulary)
        tokenizer = self.vocabulary.tokenizer if self.vocabulary else self.predictor.tokenizer
        saved = SavedTask.of(self.predictor.task, self.predictor.window)
        with publish(folder) as staging:
            model.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
            saved.with_temperature(self.predictor.temperature).write(staging)
        # Read back: what counts is what the folder gives.
        smaller = Predictor.load(folder)
        chosen = list(rows[:COMPARED])
        if self.vocabulary:
            check_same_tokens(self.predictor, smaller, self.vocabulary, chosen)
        with BlocksOff(original, self.blocks):
            expected = logits(self.predictor, chosen)
        worst = float(np.abs(expected - logits(smaller, chosen)).max())
        if not worst <= CLOSE:
            raise ModelError(
                f"without blocks {list(self.blocks)}, its outputs differ by {worst:.1e} from those with these off"
            )


def trimmed_vocabulary(predictor: Predictor, rows: Iterable[Row]) -> TrimmedVocabulary:
    """The vocabulary that rows use, as the task reads them."""
    used: set[int] = set()
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == 256:
            used |= _ids(predictor, chunk)
            chunk = []
    if chunk:
        used |= _ids(predictor, chunk)
    return trim_vocabulary(predictor.tokenizer, used)


def check_same_tokens(
    original: Predictor, smaller: Predictor, vocabulary: TrimmedVocabulary, rows: Sequence[Row]
) -> None:
    """Refuse a vocabulary with which rows are read differently."""
    new_ids = vocabulary.new_ids
    for (row, before), (_, after) in zip(original.encode(rows), smaller.encode(rows), strict=True):
        expected = [[new_ids[number] for number in _flat(feature["input_ids"])] for feature in before]
        if expected != [list(_flat(feature["input_ids"])) for feature in after]:
            raise ModelError(f"its tokenizer reads {next(iter(row.values()))!r:.60} differently with fewer tokens")


def logits(predictor: Predictor, rows: Sequence[Row]) -> NDArray[np.float32]:
    """The model's outputs for each feature of rows."""
    features = [feature for _, features in predictor.encode(rows) for feature in features]
    return np.concatenate(
        [
            np.asarray(predictor.engine.compute(predictor.collate([feature]))["logits"]).reshape(-1)
            for feature in features
        ]
    )


def _ids(predictor: Predictor, rows: Sequence[Row]) -> set[int]:
    return {
        number
        for _, features in predictor.encode(rows)
        for feature in features
        for number in _flat(feature["input_ids"])
    }


def _flat(ids: Any) -> Iterable[int]:
    for value in ids:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield int(value)
