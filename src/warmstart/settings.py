"""How to train, as plain values, and the arguments of `transformers.Trainer` that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.encoders.precision import Precision
from warmstart.errors import RecipeError, nearest
from warmstart.trackers import trackers_of

_SAID_ELSEWHERE = {
    "output_dir": "--out",
    "learning_rate": "learn.rate",
    "lr_scheduler_type": "learn.schedule",
    "lr_scheduler_kwargs": "learn.ratio",
    "warmup_steps": "learn.warmup",
    "num_train_epochs": "learn.epochs",
    "max_steps": "learn.max_steps",
    "per_device_train_batch_size": "learn.batch",
    "weight_decay": "learn.weight_decay",
    "max_grad_norm": "learn.clip",
    "label_smoothing_factor": "learn.smoothing",
    "bf16": "learn.precision",
    "fp16": "learn.precision",
    "seed": "seed",
    "data_seed": "seed",
    "disable_tqdm": "--json",
    "eval_strategy": "nothing: the finished model is measured on dev and test",
    "save_strategy": "checkpoints.steps or checkpoints.minutes",
    "save_steps": "checkpoints.steps",
    "save_total_limit": "checkpoints.keep",
    "save_only_model": "nothing: a checkpoint is complete, or it is none",
    "resume_from_checkpoint": "nothing: the same command on the same folder goes on",
    "ignore_data_skip": "nothing: a resumed training sees the rows it would have seen",
    "remove_unused_columns": "nothing: the task chooses its columns",
    "train_sampling_strategy": "learn.order",
    "dataloader_drop_last": "nothing: no row is dropped",
    "accelerator_config": "nothing: each step is shared between processes without a row twice",
}
"""Arguments of the Trainer that a field of the recipe holds, and the field."""


@dataclass(frozen=True)
class Settings:
    """How to train; the meaning of each is under the recipe's field of the same name."""

    rate: float = 5e-5
    schedule: str = "linear"
    warmup: float = 0.1
    ratio: float = 32.0
    epochs: float | None = None
    least_steps: int | None = 300
    max_steps: int | None = None
    batch: int = 32
    batch_tokens: int | None = None
    order: str = "by-length"
    weight_decay: float = 0.01
    clip: float = 1.0
    bias_correction: bool = True
    smoothing: float = 0.0
    rdrop: float = 0.0
    average: int = 1
    stop_early: int | None = None
    precision: str = "auto"
    decay: float = 1.0
    head_rate: float | None = None
    freeze: int = 0
    unfreeze: str = "all"
    unfreeze_every: int | None = None
    seed: int = 0
    trainer: Mapping[str, Any] = field(default_factory=dict)


def arguments(settings: Settings, folder: Path, precision: Precision) -> transformers.TrainingArguments:
    """The Trainer's arguments for these settings, refusing what it does not know."""
    check_trainer_options(settings.trainer)
    ours: dict[str, Any] = {
        "output_dir": str(folder),
        "learning_rate": settings.rate,
        "max_steps": settings.max_steps or -1,
        "per_device_train_batch_size": settings.batch,
        "weight_decay": settings.weight_decay,
        "max_grad_norm": settings.clip,
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "seed": settings.seed,
        "data_seed": settings.seed,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "save_strategy": "no",
        "logging_steps": 10,
        "logging_nan_inf_filter": False,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "use_cpu": not (torch.cuda.is_available() or torch.backends.mps.is_available()),
        "report_to": "none",
        "run_name": folder.parent.name,
    }
    try:
        return transformers.TrainingArguments(**{**ours, **settings.trainer})
    except (TypeError, ValueError, ImportError) as error:
        raise RecipeError(f"trainer: {error}") from None


def check_trainer_options(options: Mapping[str, Any]) -> None:
    """Refuse options that the Trainer lacks, or that a field of the recipe holds, and trackers it cannot use."""
    known = {one.name for one in dataclasses.fields(transformers.TrainingArguments) if one.init}
    for name in options:
        if name in _SAID_ELSEWHERE:
            raise RecipeError(f"trainer.{name}: say it with {_SAID_ELSEWHERE[name]}")
        if name not in known:
            raise RecipeError(f"trainer.{name} is not one of TrainingArguments; {nearest(name, known)}")
    trackers_of(options.get("report_to"))
