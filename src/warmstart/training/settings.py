"""How to train, as plain values, and the arguments of `transformers.Trainer` for them."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers

from warmstart.errors import RecipeError, nearest
from warmstart.models.precision import Precision
from warmstart.runtime.trackers import resolve_trackers
from warmstart.storage.json_files import JsonObject

_SET_ELSEWHERE = {
    "output_dir": "--out",
    "learning_rate": "training.learning_rate",
    "lr_scheduler_type": "training.lr_schedule",
    "lr_scheduler_kwargs": "training.lr_ratio",
    "warmup_steps": "training.warmup",
    "num_train_epochs": "training.epochs",
    "max_steps": "training.max_steps",
    "per_device_train_batch_size": "training.batch_size",
    "weight_decay": "training.weight_decay",
    "max_grad_norm": "training.max_grad_norm",
    "label_smoothing_factor": "training.label_smoothing",
    "bf16": "training.precision",
    "fp16": "training.precision",
    "seed": "seed",
    "data_seed": "seed",
    "disable_tqdm": "--json",
    "save_strategy": "checkpoints.every_steps or checkpoints.every_minutes",
    "save_steps": "checkpoints.every_steps",
    "save_total_limit": "checkpoints.keep_last",
    "train_sampling_strategy": "training.batching",
    "fsdp": "training.fsdp: true",
    "fsdp_config": "training.fsdp: true",
}
"""Arguments of the Trainer that are fields of the recipe or options, and which."""
_FIXED = {
    "eval_strategy": "the finished model is evaluated on dev and test",
    "save_only_model": "a checkpoint is always complete",
    "resume_from_checkpoint": "the same command on the same folder resumes",
    "ignore_data_skip": "a resumed training sees the rows it would have seen",
    "remove_unused_columns": "the task chooses its columns",
    "dataloader_drop_last": "no row is dropped",
    "hub_token": "a run's recipe.yaml would show it to everybody; set HF_TOKEN in the environment",
    "accelerator_config": "each step is shared between processes without a row twice",
    "deepspeed": "DeepSpeed writes checkpoints of its own, with pickle; training.fsdp: true shards weights, gradients "
    "and optimizer state too, as its ZeRO stage 3 does",
}
"""Arguments of the Trainer that cannot be set, and why."""
NT_ASGD = "nt-asgd"
"""The `optimizer` that is SGD, and averages the weights when the score stops improving."""
SUPERVISED_CONTRASTIVE = "supervised-contrastive"
"""The `loss` that compares the rows of a batch by their labels."""


@dataclass(frozen=True)
class Settings:
    """How to train; each is explained under the recipe's field of the same name."""

    learning_rate: float = 5e-5
    lr_schedule: str = "linear"
    warmup: float = 0.1
    lr_ratio: float = 32.0
    epochs: float | None = None
    min_steps: int | None = 300
    max_steps: int | None = None
    batch_size: int = 32
    batch_tokens: int | None = None
    slices_per_text: int | None = None
    batching: str = "by-length"
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    adam_bias_correction: bool = True
    label_smoothing: float = 0.0
    r_drop: float = 0.0
    loss: str = "task"
    temperature: float = 0.1
    average_last_epochs: int = 1
    early_stopping_patience: int | None = None
    precision: str = "auto"
    dropout_kernel: str = "auto"
    fsdp: bool = False
    lr_decay: float = 1.0
    head_learning_rate: float | None = None
    freeze: int = 0
    cache_frozen: bool | None = None
    unfreeze: str = "all"
    unfreeze_every: int | None = None
    lr_schedule_per_phase: bool = False
    seed: int = 0
    trainer: JsonObject = field(default_factory=dict)


def training_arguments(settings: Settings, folder: Path, precision: Precision) -> transformers.TrainingArguments:
    """The Trainer's arguments for these settings, refusing what it does not know."""
    check_trainer_options(settings.trainer)
    if settings.optimizer == NT_ASGD and "optim" in settings.trainer:
        raise RecipeError(f"trainer.optim: training.optimizer is {NT_ASGD} already; leave one of them out")
    ours: dict[str, object] = {
        "output_dir": str(folder),
        "learning_rate": settings.learning_rate,
        "max_steps": settings.max_steps or -1,
        "per_device_train_batch_size": settings.batch_size,
        "weight_decay": settings.weight_decay,
        **({"optim": "sgd"} if settings.optimizer == NT_ASGD else {}),
        "max_grad_norm": settings.max_grad_norm,
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


def check_trainer_options(options: JsonObject) -> None:
    """Refuse options that the Trainer lacks, ignores here or that a field sets, and trackers it cannot use."""
    known = {argument.name for argument in dataclasses.fields(transformers.TrainingArguments) if argument.init}
    for name in options:
        if name in _SET_ELSEWHERE:
            raise RecipeError(f"trainer.{name}: set {_SET_ELSEWHERE[name]} instead")
        if name in _FIXED:
            raise RecipeError(f"trainer.{name}: cannot be set: {_FIXED[name]}; leave it out")
        if name not in known:
            raise RecipeError(f"trainer.{name} is not one of TrainingArguments; {nearest(name, known)}")
    for name in ("DEEPSPEED", "FSDP"):
        if os.environ.get(f"ACCELERATE_USE_{name}", "").lower() in {"1", "true"}:
            raise RecipeError(
                f"ACCELERATE_USE_{name} is set, as `accelerate launch` does by its configuration: that is not how "
                "weights are sharded here; start with torchrun, and set training.fsdp: true"
            )
    resolve_trackers(options.get("report_to"))
