"""Writing a smaller model: a model folder like any other, read back and compared before it is used."""

from __future__ import annotations

import copy
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from warmstart.data.schema import Row
from warmstart.errors import ModelError
from warmstart.inference.predictor import Predictor
from warmstart.inspection.ablation import torch_model
from warmstart.models.factorized_embeddings import ApproximatedEmbeddings, factorize_embeddings, main_directions
from warmstart.models.fewer_heads import prune_heads
from warmstart.models.fewer_layers import remove_blocks
from warmstart.models.switches import BlocksOff, HeadsOff, Switches
from warmstart.models.vocabulary import TrimmedVocabulary, trim_embeddings, trim_vocabulary
from warmstart.pipeline.saved_model import save
from warmstart.storage.artifacts import republish
from warmstart.tasks.shared.saved_task import FILE, SavedTask

CLOSE = 1e-4
"""How far outputs may differ where they should not."""
COMPARED = 32
"""Rows whose outputs are compared."""


@dataclass(frozen=True)
class SmallerModel:
    """What is removed from a model: tokens, blocks by number, heads by number in each block, parts of embeddings."""

    predictor: Predictor
    vocabulary: TrimmedVocabulary | None = None
    blocks: Sequence[int] = ()
    heads: Mapping[int, Sequence[int]] = field(default_factory=dict)
    embedding_size: int | None = None

    @property
    def removed(self) -> str:
        """Blocks, heads and what else, in words; tokens are not among them."""
        words = [f"blocks {', '.join(map(str, self.blocks)) or '–'}"]
        words += [f"heads {Switches(self.heads)}"] if self.heads else []
        return " and ".join([*words, f"embeddings beyond {self.embedding_size}"] if self.embedding_size else words)

    @property
    def name(self) -> str:
        """A name for its folder, other than that of any other model of the same shrinking."""
        heads = len(next(iter(self.heads.values()), ()))
        return "-".join(
            map(str, ["blocks", *self.blocks, "heads", heads, "embeddings", self.embedding_size or "whole"])
        )

    def write(self, folder: Path, rows: Sequence[Row]) -> None:
        """Publish the model, where an earlier call has not, and make sure that it can take the original's place.

        Raises:
            ModelError: It does not give what the original gives with those blocks and heads off; nothing is left of it.
        """
        original = torch_model(self.predictor)
        if not isinstance(original, PreTrainedModel):
            raise ModelError(f"{self.predictor.task.name} adds modules of its own to the model, which stays as it is")
        if folder.is_dir():
            with suppress(ModelError):  # of another model, or of another vocabulary
                self._check(original, folder, rows)
                return
        self._save(copy.deepcopy(original), folder)
        self._check(original, folder, rows)

    def _check(self, original: PreTrainedModel, folder: Path, rows: Sequence[Row]) -> None:
        """Compare what was written with the original, and remove it where it differs."""
        try:
            self._compare(original, Predictor.load(folder), list(rows[:COMPARED]))
        except ModelError:
            shutil.rmtree(folder)
            raise

    def _save(self, model: PreTrainedModel, folder: Path) -> None:
        if self.heads:
            prune_heads(model, self.heads)
        if self.blocks:
            remove_blocks(model, self.blocks)
        if (directions := self._directions(model)) is not None:
            factorize_embeddings(model, directions)
        if self.vocabulary:
            trim_embeddings(model, self.vocabulary)
        tokenizer = self.vocabulary.tokenizer if self.vocabulary else self.predictor.tokenizer
        task, window = self.predictor.task, self.predictor.window
        save(model, tokenizer, task, window, folder)
        if self.predictor.temperature != 1.0:
            with republish(folder) as staging:
                (staging / FILE).unlink()
                SavedTask.of(task, window).with_temperature(self.predictor.temperature).write(staging)

    def _directions(self, model: PreTrainedModel) -> torch.Tensor | None:
        """On which the embeddings of the tokens that are left are projected."""
        if self.embedding_size is None:
            return None
        return main_directions(model, self.embedding_size, self.vocabulary.kept if self.vocabulary else None)

    def _compare(self, original: PreTrainedModel, smaller: Predictor, rows: Sequence[Row]) -> None:
        if self.vocabulary:
            check_same_tokens(self.predictor, smaller, self.vocabulary, rows)
        with ExitStack() as stack:
            stack.enter_context(BlocksOff(original, self.blocks))
            stack.enter_context(ApproximatedEmbeddings(original, self._directions(original)))
            if self.heads:
                stack.enter_context(HeadsOff(original, self.heads))
            expected = outputs_of(self.predictor, rows)
        outputs = outputs_of(smaller, rows)
        worst = float(np.abs(expected - outputs).max()) if expected.shape == outputs.shape else math.inf
        if not worst <= CLOSE:
            raise ModelError(f"without {self.removed}, its outputs differ by {worst:.1e} from those with these off")


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


def outputs_of(predictor: Predictor, rows: Sequence[Row]) -> NDArray[np.float32]:
    """All numbers that the model gives for rows, one after the other."""
    numbers = []
    for feature in (feature for _, features in predictor.encode(rows) for feature in features):
        outputs = predictor.engine.compute(predictor.collate([feature]))
        numbers += [outputs[name].numpy().reshape(-1) for name in sorted(outputs)]
    return np.concatenate(numbers)


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
