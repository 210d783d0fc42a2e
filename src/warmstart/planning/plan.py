"""A plan: an estimate for each stage of a recipe, or for a training that is described by numbers alone."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.encoders.architectures import row_of
from warmstart.encoders.load import load_config
from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.planning.counting import Inputs, count
from warmstart.planning.curve import Shape
from warmstart.planning.devices import find, here
from warmstart.planning.estimate import Estimate, estimate, from_measured
from warmstart.planning.rehearsal import rehearse
from warmstart.planning.work import Work, work_of
from warmstart.progress import Progress, silent
from warmstart.recipe import Recipe
from warmstart.stages.prepare import Rows

SHAPE = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "inner": "intermediate_size",
    "heads": "num_attention_heads",
    "vocabulary": "vocab_size",
}
"""What a shape can say, and BERT's config for it."""


def stages_of(recipe: Recipe) -> list[tuple[str, Recipe, Rows | None]]:
    """The stages of a recipe in their order: a name, a recipe of its own, and its rows where no file holds them."""
    return [("finetune", recipe, None)]


def plan(
    recipe: Recipe,
    hardware: str | None = None,
    price: float | None = None,
    measure: bool = False,
    progress: Progress = silent,
) -> list[Estimate]:
    """Estimate each stage of a recipe.

    Args:
        hardware: A device of the table; None for the one nearest to this machine.
        price: US dollars an hour; None for the table's.
        measure: Train on some batches first, here, and tell time and memory from that.
    """
    if measure and hardware is not None:
        raise RecipeError(f"--measure: it measures this machine, and --hardware says {hardware}; leave one out")
    device = find(hardware) if hardware else here()
    found = []
    for name, stage, rows in stages_of(recipe):
        with tempfile.TemporaryDirectory() as folder:
            if rows is not None:
                stage = on_disk(stage, rows, Path(folder))
            work = work_of(stage, device.precision, Path(folder), progress)
            if measure:
                seen = rehearse(stage, Path(folder) / "rehearsal", progress)
                minutes = stage.checkpoints.minutes
                saves = 0.0 if stage.checkpoints.steps else None if minutes is None else minutes * 60
                found.append(from_measured(name, work, device, seen, price, saves))
            else:
                found.append(estimate(name, work, device, price))
    return found


def on_disk(recipe: Recipe, rows: Rows, folder: Path) -> Recipe:
    """The same recipe on rows that were handed over, written into a folder: another process is to read them."""
    files = {}
    for part, some in rows.items():
        files[part] = str(folder / f"{part}.jsonl")
        with Path(files[part]).open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(dict(row))}\n" for row in some)
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=files)})


def plan_pretraining(
    steps: int,
    batch: int,
    tokens: int,
    shape: Mapping[str, int] | None = None,
    model: str | None = None,
    hardware: str | None = None,
    price: float | None = None,
    precision: str = "auto",
    devices: int = 1,
) -> list[Estimate]:
    """Estimate a masked language model trained from scratch, which needs neither data nor weights.

    Args:
        batch: Rows of a step, each of so many `tokens`.
        shape: Changes to BERT-base: `layers`, `width`, `inner`, `heads`, `vocabulary`.
        model: A folder or a name on the Hub whose config to take instead.
        devices: How many devices share the rows of each step; what they lose by waiting for each other is not counted.
    """
    device = find(hardware) if hardware else here()
    config = _described(shape or {}, tokens) if model is None else load_config(model)
    chosen = device.precision(precision, row_of(config).half)
    known = transformers.MODEL_FOR_MASKED_LM_MAPPING
    if type(config) not in known:
        raise ModelError(f"{model}: transformers has no masked language model of the architecture {config.model_type}")
    inputs = [_blank(lists, length) for lists, length in ((2, 16), (2, 64), (2, 128), (3, 64))]
    half = chosen != "fp32"
    counted = count(lambda: known[type(config)](config), inputs, lambda one, given: one(**given).loss, half)
    own = Shape(math.ceil(batch / devices), tokens)
    one = estimate("pretrain", Work({}, steps, steps, [own], own.tokens, counted, chosen), device, price)
    return [
        replace(
            one,
            tokens=devices * one.tokens,
            operations=devices * one.operations,
            cost=devices * one.cost,
            devices=devices,
        )
    ]


def _described(shape: Mapping[str, int], tokens: int) -> Any:
    for name in shape:
        if name not in SHAPE:
            raise RecipeError(f"--shape {name}: {nearest(name, SHAPE)}")
    values = {SHAPE[name]: value for name, value in shape.items()}
    if "width" in shape:  # as BERT has it, where nothing else is said
        values = {"intermediate_size": 4 * shape["width"], "num_attention_heads": max(1, shape["width"] // 64)} | values
    config = transformers.BertConfig(**values, max_position_embeddings=max(512, tokens))
    if config.hidden_size % config.num_attention_heads:
        raise RecipeError(
            f"--shape width={config.hidden_size}: expected a multiple of heads, which is {config.num_attention_heads}"
        )
    return config


def _blank(lists: int, length: int) -> Inputs:
    ids = torch.zeros((lists, length), dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
