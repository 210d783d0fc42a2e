"""A plan: an estimate for each stage of a recipe, or for pretraining without data, from its sizes alone."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
import transformers
from transformers import PretrainedConfig

from warmstart.errors import ModelError, RecipeError, nearest
from warmstart.models.architectures import spec_of
from warmstart.models.loading import load_config
from warmstart.plan.cost_curve import BatchShape
from warmstart.plan.decided_trainings import decided_trainings
from warmstart.plan.devices import find_device, this_machine
from warmstart.plan.estimate import StageEstimate, estimate_from_trial, estimate_stage
from warmstart.plan.flops import Inputs, count_flops
from warmstart.plan.stage_recipes import recipes_of_stages
from warmstart.plan.teacher import estimate_teacher
from warmstart.plan.trial_run import trial_run
from warmstart.plan.workload import Workload, workload_of
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress, silent

SHAPE = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "intermediate_size",
    "num_heads": "num_attention_heads",
    "vocab_size": "vocab_size",
}
"""The sizes of a shape, and BERT's name for each."""


def plan(
    recipe: Recipe,
    hardware: str | None = None,
    price: float | None = None,
    measure: bool = False,
    progress: Progress = silent,
) -> list[StageEstimate]:
    """Estimate each stage of a recipe.

    Args:
        hardware: A device of the table; None for the one closest to this machine.
        price: US dollars per hour; None for the table's.
        measure: Train on some batches here first, and estimate time and memory from that.
    """
    if measure and hardware is not None:
        raise RecipeError(f"--measure: it measures this machine, but --hardware is {hardware}; leave one out")
    if recipe.models:
        raise RecipeError(
            f"models: fit trains one of {', '.join(recipe.models)}, and only the data says which; plan one of them "
            f"(--model {recipe.models[0]} --set models=[])"
        )
    device = find_device(hardware) if hardware else this_machine()
    estimates, teachers = [], []
    with tempfile.TemporaryDirectory() as temporary:
        *before, (last, finetuning) = recipes_of_stages(recipe, Path(temporary), progress)
        for options in filter(None, (earlier.distil for earlier in recipe.stages)):
            teachers.append(estimate_teacher(options, recipe, device, price, measure, progress))
        trainings = [*before, *decided_trainings(last, finetuning, progress)]
        for number, (name, stage) in enumerate(trainings):
            folder = Path(temporary) / f"stage-{number}"
            folder.mkdir()
            work = workload_of(stage, device.precision, folder, progress)
            if measure:
                trial = trial_run(stage, folder / "trial", progress)
                minutes = stage.checkpoints.every_minutes
                first_save = 0.0 if stage.checkpoints.every_steps else None if minutes is None else minutes * 60
                estimates.append(estimate_from_trial(name, work, device, trial, price, first_save))
            else:
                estimates.append(estimate_stage(name, work, device, price))
    return [*estimates[: len(before)], *teachers, *estimates[len(before) :]]


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
) -> list[StageEstimate]:
    """Estimate the pretraining of a masked language model from scratch, which needs neither data nor weights.

    Args:
        batch_size: Rows per step, each of `max_tokens` tokens.
        shape: Changes to BERT-base: `num_layers`, `hidden_size`, `intermediate_size`, `num_heads`, `vocab_size`.
        model: A folder or a name on the Hub whose config to use instead.
        devices: The number of devices that share the rows of each step; communication between them is not counted.
    """
    device = find_device(hardware) if hardware else this_machine()
    config = _bert_config(shape or {}, max_tokens) if model is None else load_config(model)
    chosen = device.precision(precision, spec_of(config).half_precision)
    known = transformers.MODEL_FOR_MASKED_LM_MAPPING
    if type(config) not in known:
        raise ModelError(f"{model}: transformers has no masked language model of the architecture {config.model_type}")
    inputs = [_blank(lists, length) for lists, length in ((2, 16), (2, 64), (2, 128), (3, 64))]
    half = chosen != "fp32"
    cost = count_flops(lambda: known[type(config)](config), inputs, lambda network, batch: network(**batch).loss, half)
    own = BatchShape(math.ceil(batch_size / devices), max_tokens)
    work = Workload({}, max_steps, max_steps, [own], own.tokens, cost, chosen)
    single = estimate_stage("pretrain", work, device, price)
    total = {name: devices * getattr(single, name) for name in ("tokens", "flops", "cost")}
    return [replace(single, **total, devices=devices)]


def _bert_config(shape: Mapping[str, int], tokens: int) -> PretrainedConfig:
    for name in shape:
        if name not in SHAPE:
            raise RecipeError(f"--shape {name}: {nearest(name, SHAPE)}")
    values = {SHAPE[name]: value for name, value in shape.items()}
    if "hidden_size" in shape:  # the other sizes follow, as in BERT
        width = shape["hidden_size"]
        values = {"intermediate_size": 4 * width, "num_attention_heads": max(1, width // 64)} | values
    config = transformers.BertConfig(**values, max_position_embeddings=max(512, tokens))
    if config.hidden_size % config.num_attention_heads:
        raise RecipeError(
            f"--shape hidden_size={config.hidden_size}: expected a multiple of num_heads, which is "
            f"{config.num_attention_heads}"
        )
    return config


def _blank(lists: int, length: int) -> Inputs:
    ids = torch.zeros((lists, length), dtype=torch.long)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
