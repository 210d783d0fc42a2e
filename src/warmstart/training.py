"""The one training path: the only file that touches `transformers.Trainer`."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.encoders.precision import Precision, resolve
from warmstart.errors import RecipeError, nearest
from warmstart.progress import Progress, silent
from warmstart.tasks.base import Task

_SAID_ELSEWHERE = {
    "output_dir": "--out",
    "learning_rate": "learn.rate",
    "lr_scheduler_type": "learn.schedule",
    "warmup_steps": "learn.warmup",
    "num_train_epochs": "learn.epochs",
    "max_steps": "learn.max_steps",
    "per_device_train_batch_size": "learn.batch",
    "weight_decay": "learn.weight_decay",
    "max_grad_norm": "learn.clip",
    "bf16": "learn.precision",
    "fp16": "learn.precision",
    "seed": "seed",
    "data_seed": "seed",
    "disable_tqdm": "--json",
    "eval_strategy": "nothing: the finished model is measured on dev and test",
    "remove_unused_columns": "nothing: the task chooses its columns",
}
"""Arguments of the Trainer that a field of the recipe holds, and the field."""


@dataclass(frozen=True)
class Settings:
    """How to train; the meaning of each is under the recipe's field of the same name."""

    rate: float = 5e-5
    schedule: str = "linear"
    warmup: float = 0.1
    epochs: float = 3.0
    max_steps: int | None = None
    batch: int = 32
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: str = "auto"
    seed: int = 0
    trainer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trained:
    """What a training did."""

    steps: int
    seconds: float
    precision: Precision
    history: list[dict[str, float]]
    """One entry each time the loss was noted: step, epoch, loss, rate, gradient norm."""


def arguments(settings: Settings, folder: Path, precision: Precision) -> transformers.TrainingArguments:
    """The Trainer's arguments for these settings, refusing what it does not know."""
    check_trainer_options(settings.trainer)
    ours: dict[str, Any] = {
        "output_dir": str(folder),
        "learning_rate": settings.rate,
        "lr_scheduler_type": settings.schedule if settings.schedule != "constant" else "constant_with_warmup",
        "warmup_steps": settings.warmup,
        "num_train_epochs": settings.epochs,
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
    }
    try:
        return transformers.TrainingArguments(**{**ours, **settings.trainer})
    except (TypeError, ValueError, ImportError) as error:
        raise RecipeError(f"trainer: {error}") from None


def check_trainer_options(options: Mapping[str, Any]) -> None:
    """Refuse options that the Trainer does not have, or that a field of the recipe holds."""
    known = {one.name for one in dataclasses.fields(transformers.TrainingArguments) if one.init}
    for name in options:
        if name in _SAID_ELSEWHERE:
            raise RecipeError(f"trainer.{name}: say it with {_SAID_ELSEWHERE[name]}")
        if name not in known:
            raise RecipeError(f"trainer.{name} is not one of TrainingArguments; {nearest(name, known)}")


def train(
    model: Any,
    task: Task[Any],
    tokenizer: Any,
    rows: Any,
    settings: Settings,
    folder: Path,
    progress: Progress = silent,
) -> Trained:
    """Train a model in place on encoded rows.

    Args:
        rows: A `datasets.Dataset` of the task's features.
        folder: Where the Trainer may put files of its own; removed where it puts none.
    """
    precision = resolve(settings.precision, model.config)
    args = arguments(settings, folder, precision)
    with ExitStack() as stack:
        try:
            trainer = _Trainer(
                task,
                model=model,
                args=args,
                data_collator=lambda features: task.collate(features, tokenizer),
                train_dataset=rows,
                callbacks=[_ShowProgress(progress, stack)],
            )
        except (ValueError, RuntimeError, ImportError) as error:  # as for a tracker that is not installed
            raise RecipeError(f"trainer: {error}") from None
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        started = time.perf_counter()
        done = trainer.train()
        seconds = time.perf_counter() - started
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return Trained(done.global_step, seconds, precision, _history(trainer.state.log_history))


class _Trainer(transformers.Trainer):  # type: ignore[misc]
    """A Trainer that asks the task for its loss, and takes every loss for what ours are: means over a batch.

    Left to itself it takes the loss of a sequence classifier for one that was divided by the number of rows of all
    accumulated batches, and does not divide it: gradients then grow with `gradient_accumulation_steps`.
    """

    loss_is_scaled_for_ga = False

    def __init__(self, task: Task[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.own_loss = task.loss()
        if self.own_loss and self.label_smoother:
            raise RecipeError(
                "trainer.label_smoothing_factor: this task has a loss of its own (task.weights); drop one"
            )

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if self.own_loss is None:
            # Without the number of items: it would have the loss multiplied by the number of processes.
            return super().compute_loss(model, inputs, return_outputs)
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.own_loss(outputs, labels)
        return (loss, outputs) if return_outputs else loss


class _ShowProgress(transformers.TrainerCallback):  # type: ignore[misc]
    """Moves a progress bar on at every step, the latest loss beside it."""

    def __init__(self, progress: Progress, stack: ExitStack) -> None:
        self.progress = progress
        self.stack = stack
        self.note = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar = self.stack.enter_context(self.progress.bar("training", state.max_steps))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "loss" in (logs or {}):
            self.note = f"loss {logs['loss']:.4f}"

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.advance(1, self.note)


def _history(log: list[dict[str, float]]) -> list[dict[str, float]]:
    """The Trainer's log in our words."""
    words = {
        "step": "step",
        "epoch": "epoch",
        "loss": "loss",
        "learning_rate": "rate",
        "grad_norm": "gradient_norm",
    }
    return [
        {ours: entry[theirs] for theirs, ours in words.items() if theirs in entry} for entry in log if "loss" in entry
    ]
