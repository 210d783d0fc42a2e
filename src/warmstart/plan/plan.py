"""A plan: an estimate for each stage of a recipe, or for a training that is described by numbers alone."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import row_of
from warmstart.models.loading import load_config
from warmstart.plan.cost_curve import Shape
from warmstart.plan.devices import find, here
from warmstart.plan.estimate import Estimate, estimate, from_measured
from warmstart.plan.flops import Inputs, count
from warmstart.plan.stage_recipes import stages_of
from warmstart.plan.trial_run import rehearse
from warmstart.plan.workload import Work, work_of
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress, silent

SHAPE = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "inner": "intermediate_size",
    "heads": "num_attention_heads",
    "vocabulary": "vocab_size",
}
"""What a shape can say, and BERT's config for it."""


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
    with tempfile.TemporaryDirectory() as place:
        for number, (name, stage) in enumerate(stages_of(recipe, Path(place), progress)):
            folder = Path(place) / f"stage-{number}"
            folder.mkdir()
            work = work_of(stage, device.precision, folder, progress)
            if measure:
                seen = rehearse(stage, folder / "rehearsal", progress)
                minutes = stage.checkpoints.every_minutes
                saves = 0.0 if stage.checkpoints.every_steps else None if minutes is None else minutes * 60
                found.append(from_measured(name, work, device, seen, price, saves))
            else:
                found.append(estimate(name, work, device, price))
    return found


def plan_pretraining(
    max_steps: int,
    batch_size: int,
    max_tokens: int,
    shape: Mapping[str, int] | None = None,
    model: str | None = None,
    hardware: str | None = None,
    price: float | None = None,
    precision: str = "auto",
    devices: int = 1,
) -> list[Estimate]:
    """Estimate a masked language model trained from scratch, which needs neither data nor weights.

    Args:
        batch_size: Rows of a step, each of `max_tokens` tokens.
        shape: Changes to BERT-base: `layers`, `width`, `inner`, `heads`, `vocabulary`.
        model: A folder or a name on the Hub whose config to take instead.
        devices: How many devices share the rows of each step; what they lose by waiting for each other is not counted.
    """
    device = find(hardware) if hardware else here()
    config = _described(shape or {}, max_tokens) if model is None else load_config(model)
    chosen = device.precision(precision, row_of(config).half)
    known = transformers.MODEL_FOR_MASKED_LM_MAPPING
    if type(config) not in known:
        raise ModelError(f"{model}: transformers has no masked language model of the architecture {config.model_type}")
    inputs = [_blank(lists, length) for lists, length in ((2, 16), (2, 64), (2, 128), (3, 64))]
    half = chosen != "fp32"
    counted = count(lambda: known[type(config)](config), inputs, lambda one, given: one(**given).loss, half)
    own = Shape(math.ceil(batch_size / devices), max_tokens)
    one = estimate("pretrain", Work({}, max_steps, max_steps, [own], own.tokens, counted, chosen), device, price)
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
