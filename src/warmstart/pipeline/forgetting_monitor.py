"""Forgetting during a training: what the encoder knew before it, knows on the way, and still knows after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.errors import RecipeError
from warmstart.evaluation.records.forgetting import ForgettingPoint, ForgettingRecord
from warmstart.inspection.forgetting import measure_forgetting
from warmstart.inspection.masked_texts import MaskedTexts, mask_texts
from warmstart.inspection.token_reader import TokenReader, fitted_reader, has_own_head, own_reader
from warmstart.models.loading import load_config, load_encoder, load_tokenizer, max_tokens_of
from warmstart.models.precision import Precision, resolve_precision
from warmstart.recipe import ForgettingOptions, Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.json_files import JsonObject
from warmstart.tasks.shared.text_inputs import TEXT
from warmstart.training.callbacks.step_monitor import StepMonitor
from warmstart.training.checkpoint_state import random_state, set_random_state

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TIMES = 10
"""How many times as many texts a reader is fitted on as are measured, where there are so many."""


@dataclass(frozen=True)
class ForgettingMonitor:
    """Measures what an encoder still knows of general text, compared with a reference encoder."""

    texts: MaskedTexts
    reference: PreTrainedModel
    reader: TokenReader | None
    precision: Precision
    every: int | None

    def callback(self, model: nn.Module, scores: Callable[[], Mapping[str, float]] = dict) -> StepMonitor:
        """A callback that measures the model during its training.

        Args:
            scores: How good the model is at its tasks now, by metric, to be recorded with what it still knows.
        """

        def look() -> JsonObject:
            before = random_state()
            try:
                point = asdict(measure_forgetting(model, self.texts, self.reference, self.reader, self.precision))
                point["cka"] = [None if math.isnan(value) else value for value in point["cka"]]
                modes = [(module, module.training) for module in model.modules()]
                now = {name: None if math.isnan(value) else value for name, value in scores().items()}
                for module, training in modes:
                    module.training = training
            finally:
                set_random_state(before)
            return {**point, **({"scores": now} if now else {})}

        return StepMonitor(look, self.every)

    def record(self, callback: StepMonitor, first: JsonObject, steps: int) -> ForgettingRecord:
        """All measurements: before the training, during it, and now that it is over."""
        seen = [{"step": 0, **first}, *callback.measurements, {"step": steps, **callback.measure()}]
        return ForgettingRecord(
            **self.texts.counts(),
            reader=self.reader.kind if self.reader else None,
            precision=self.precision,
            seen=[ForgettingPoint(**point) for point in seen],
        )


def make_monitor(
    recipe: Recipe, options: ForgettingOptions, cache: Path, findings: Findings, progress: Progress
) -> ForgettingMonitor:
    """Read the general text and open the reference encoder; fit a reader to it where it has none and none is stored.

    Args:
        cache: Where rows are stored as Arrow, and readers.
    """
    before = random_state()
    origin = options.reference or recipe.model
    tokenizer = load_tokenizer(origin)
    reads = tokenizer.mask_token_id is not None
    fits = reads and not has_own_head(origin)
    chosen, others = _texts(options, cache, findings, fits, progress)
    tokens = min(options.max_tokens, max_tokens_of(load_config(origin), tokenizer))
    reference = load_encoder(origin).eval().requires_grad_(False)
    reference.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    precision = resolve_precision(recipe.training.precision, reference.config)
    reader = None
    if fits:
        reader = fitted_reader(reference, mask_texts(others, tokenizer, tokens), cache / "readers", precision, progress)
    elif reads:
        reader = own_reader(origin)
    set_random_state(before)
    texts = mask_texts(chosen, tokenizer, tokens)
    return ForgettingMonitor(texts, reference, reader, precision, options.every_steps)


def _texts(
    options: ForgettingOptions, cache: Path, findings: Findings, fits: bool, progress: Progress
) -> tuple[list[str], list[str]]:
    """The texts to measure on, and others to fit a reader on; the same ones for the same file."""
    files = (options.text,) if isinstance(options.text, str) else tuple(options.text)
    source = Source(files, {"text": options.column})
    rows = table.load(source, Schema((TEXT,)), cache, findings, progress=progress)
    least = 2 * options.rows if fits else options.rows
    if len(rows) < least:
        why = ", as many again to fit a reader of masked tokens on" if fits else ""
        raise RecipeError(
            f"forgetting.rows: found {options.rows:,}, which needs {least:,} texts{why}, "
            f"but {files[0]} has {len(rows):,}; give more text, or set {max(1, len(rows) // (2 if fits else 1))}"
        )
    drawn = np.random.default_rng(0).permutation(len(rows))[: (1 + TIMES) * options.rows]
    texts = list(rows.select(drawn).column("text"))
    return texts[: options.rows], texts[options.rows :]
