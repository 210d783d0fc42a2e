"""Around a training: what the encoder knew before it, knows on the way, and still knows after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warmstart.data import table
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.errors import RecipeError
from warmstart.inspection.forgetting import measure
from warmstart.inspection.masked_texts import Exam, set_exam
from warmstart.inspection.token_reader import Reader, fitted_reader, has_own_head, own_reader
from warmstart.models.loading import load_alone, load_config, load_tokenizer, most_tokens
from warmstart.models.precision import Precision, resolve
from warmstart.recipe import Forgetting, Recipe
from warmstart.runtime.progress import Progress
from warmstart.tasks.shared.text_inputs import TEXT
from warmstart.training.callbacks.watching import Watching
from warmstart.training.checkpoints import random_state, set_random_state

FILE = "forgetting.json"
"""What was seen, among the files of a stage."""
TIMES = 10
"""How many times as many texts a reader is fitted on as it is asked about, where there are so many."""


@dataclass(frozen=True)
class Memory:
    """What is asked of the encoder, by whom it is read, and what it is held against."""

    exam: Exam
    start: Any
    """The starting encoder."""
    reader: Reader | None
    precision: Precision
    every: int | None

    def watching(self, model: Any, scores: Callable[[], Mapping[str, float]] = dict) -> Watching:
        """What looks at the model during its training.

        Args:
            scores: How good the model is at present at its tasks, by name, to be kept beside what it remembers.
        """

        def look() -> dict[str, Any]:
            before = random_state()
            try:
                found = asdict(measure(model, self.exam, self.start, self.reader, self.precision))
                found["agreement"] = [None if math.isnan(one) else one for one in found["agreement"]]
                modes = [(module, module.training) for module in model.modules()]
                good = {name: None if math.isnan(value) else value for name, value in scores().items()}
                for module, learning in modes:
                    module.training = learning
            finally:
                set_random_state(before)
            return {**found, **({"scores": good} if good else {})}

        return Watching(look, self.every)

    def told(self, watching: Watching, first: Mapping[str, Any], steps: int) -> dict[str, Any]:
        """All that was seen: before the training, on its way, and now that it is over."""
        seen = [{"step": 0, **first}, *watching.seen, {"step": steps, **watching.look()}]
        return {**self.about(), "seen": seen}

    def about(self) -> dict[str, Any]:
        """What was asked, in plain values."""
        return {**self.exam.about(), "reader": self.reader.kind if self.reader else None, "precision": self.precision}


def make_memory(recipe: Recipe, asked: Forgetting, cache: Path, findings: Findings, progress: Progress) -> Memory:
    """Read the general text and open the starting encoder; fit a reader to it where it has none and none is kept.

    Args:
        cache: Where rows are kept as Arrow, and readers.
    """
    before = random_state()
    origin = asked.reference or recipe.model
    tokenizer = load_tokenizer(origin)
    reads = tokenizer.mask_token_id is not None
    fits = reads and not has_own_head(origin)
    chosen, others = _texts(asked, cache, findings, fits, progress)
    tokens = min(asked.max_tokens, most_tokens(load_config(origin), tokenizer))
    start = load_alone(origin).eval().requires_grad_(False)
    start.to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    precision = resolve(recipe.training.precision, start.config)
    reader = None
    if fits:
        reader = fitted_reader(start, set_exam(others, tokenizer, tokens), cache / "readers", precision, progress)
    elif reads:
        reader = own_reader(origin)
    set_random_state(before)
    return Memory(set_exam(chosen, tokenizer, tokens), start, reader, precision, asked.every_steps)


def _texts(
    asked: Forgetting, cache: Path, findings: Findings, fits: bool, progress: Progress
) -> tuple[list[str], list[str]]:
    """The texts to ask about, and others to fit a reader on; the same ones for the same file."""
    files = (asked.text,) if isinstance(asked.text, str) else tuple(asked.text)
    source = Source(files, {"text": asked.column})
    rows = table.load(source, Schema((TEXT,)), cache, findings, progress=progress)
    least = 2 * asked.rows if fits else asked.rows
    if len(rows) < least:
        why = ", as many again to fit a reader of masked tokens on" if fits else ""
        raise RecipeError(
            f"forgetting.rows: found {asked.rows:,}, which needs {least:,} texts{why}, "
            f"but {files[0]} has {len(rows):,}; give more text, or say {max(1, len(rows) // (2 if fits else 1))}"
        )
    drawn = np.random.default_rng(0).permutation(len(rows))[: (1 + TIMES) * asked.rows]
    texts = list(rows.select(drawn).column("text"))
    return texts[: asked.rows], texts[asked.rows :]
