"""The one training path: the only file that touches `transformers.Trainer`."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

from warmstart.checkpoints import Checkpoints, load_state, random_state, set_random_state
from warmstart.encoders.precision import Precision, resolve
from warmstart.errors import RecipeError, Stopped, TrainingError, nearest
from warmstart.progress import Progress, silent
from warmstart.signals import StopAsked, stop_asked
from warmstart.tasks.base import Task
from warmstart.tuning.batches import LengthBatches, RandomBatches, lengths_of

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
    epochs: float = 3.0
    max_steps: int | None = None
    batch: int = 32
    batch_tokens: int | None = None
    order: str = "random"
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


@dataclass(frozen=True)
class Saving:
    """Where a training saves itself, and when."""

    checkpoints: Checkpoints
    steps: int | None = None
    """Every so many optimizer steps."""
    minutes: float | None = 5
    """And whenever so much time has passed."""
    last: bool = False
    """After the last step too."""


def train(
    model: Any,
    task: Task[Any],
    tokenizer: Any,
    rows: Any,
    settings: Settings,
    folder: Path,
    progress: Progress = silent,
    saving: Saving | None = None,
    where: Callable[[int], str] = lambda row: f"row {row}",
) -> Trained:
    """Train a model in place on encoded rows, going on from the newest checkpoint if there is one.

    Args:
        rows: A `datasets.Dataset` of the task's features, each with its number as `row`.
        folder: Where the Trainer may put files of its own; removed where it puts none.
        saving: Where and when to save; a training without cannot be resumed.
        where: Names the row of a number, for messages.

    Raises:
        TrainingError: The loss is no number any more.
        Stopped: SIGTERM or SIGINT came; the training was saved first.
    """
    precision = resolve(settings.precision, model.config)
    args = arguments(settings, folder, precision)
    batches = _batches(rows, settings, args)
    with ExitStack() as stack:
        asked = stack.enter_context(stop_asked()) if saving else StopAsked()
        try:
            trainer = _Trainer(
                task,
                where,
                saving,
                asked,
                batches,
                model=model,
                args=args,
                data_collator=lambda features: _with_rows(task.collate(features, tokenizer), features),
                train_dataset=rows,
                callbacks=[_ShowProgress(progress, stack)],
            )
        except (ValueError, RuntimeError, ImportError) as error:  # as for a tracker that is not installed
            raise RecipeError(f"trainer: {error}") from None
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        trainer.add_callback(_Save(trainer))
        done = trainer.train(resume_from_checkpoint=_newest(saving, progress))
        if trainer.stop and done.global_step < trainer.state.max_steps:
            name = asked.name or "A signal"  # one that came to another process
            raise Stopped(f"{name} came: saved after step {done.global_step}; the same command goes on from there")
    with suppress(OSError):  # it is not there, or the Trainer has put something into it
        folder.rmdir()
    return Trained(done.global_step, trainer.seconds(), precision, _history(trainer.state.log_history))


def _batches(rows: Any, settings: Settings, args: transformers.TrainingArguments) -> RandomBatches:
    """The batches that the settings ask for, those of this process."""
    mine = {"seed": settings.seed, "processes": args.world_size, "process": args.process_index}
    if settings.order == "random":
        if settings.batch_tokens:
            raise RecipeError("learn.batch_tokens: needs rows of like length together; say learn.order: by-length, too")
        return RandomBatches(len(rows), args.train_batch_size, **mine)
    return LengthBatches(lengths_of(rows), args.train_batch_size, tokens=settings.batch_tokens, **mine)


def _newest(saving: Saving | None, progress: Progress) -> str | None:
    """The checkpoint to go on from, told to the user with those that were passed over."""
    if saving is None:
        return None
    path, passed = saving.checkpoints.newest()
    for line in passed:
        progress.say(line)
    if path is None:
        return None
    progress.say(f"going on from {path.name}")
    return str(path)


def _with_rows(batch: dict[str, Any], features: list[dict[str, Any]]) -> dict[str, Any]:
    """The batch with the numbers of its rows, for messages."""
    return {**batch, "row": torch.tensor([feature["row"] for feature in features])}


class _Trainer(transformers.Trainer):  # type: ignore[misc]
    """A Trainer that stops at a loss that is no number, and whose checkpoints are complete, checked and free of pickle.

    It asks the task for its loss, and takes every loss for what ours are: means over a batch. Left to itself it takes
    the loss of a sequence classifier for one divided by the number of rows of all accumulated batches, and does not
    divide it: gradients then grow with `gradient_accumulation_steps`.
    """

    loss_is_scaled_for_ga = False

    def __init__(
        self,
        task: Task[Any],
        where: Callable[[int], str],
        saving: Saving | None,
        asked: StopAsked,
        batches: RandomBatches,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.asked = asked
        self.batches = batches
        self.stop = self.late = False
        self.share = self.weight = 1.0
        self.saved = time.monotonic()
        self.own_loss = task.loss()
        if self.own_loss and self.label_smoother:
            raise RecipeError(
                "trainer.label_smoothing_factor: this task has a loss of its own (task.weights); drop one"
            )
        self.where = where
        self.saving = saving
        self.restored: dict[str, Any] = {}
        self.started = time.perf_counter()
        self.seconds_before = 0.0

    def seconds(self) -> float:
        """Seconds of training, those before an interruption included."""
        return self.seconds_before + time.perf_counter() - self.started

    def get_train_dataloader(self) -> Any:
        """A loader of our batches; the Trainer's own would repeat rows to make the parts of all processes equal."""
        names = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "multiprocessing_context")
        options = {name: getattr(self.args, f"dataloader_{name}") for name in names}
        seeding = partial(
            transformers.trainer_utils.seed_worker, num_workers=options["num_workers"], rank=self.args.process_index
        )
        return _Loader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            worker_init_fn=seeding,
            **options,
        )

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], None]:
        """The batches of a step; and, agreed between processes, its rows and whether to save or stop after it."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        rows = sum(len(batch["row"]) for batch in batches)
        self.look()
        if self.args.world_size > 1:
            own = torch.tensor([rows, self.stop, self.late], device=device)
            rows, stop, late = self.accelerator.reduce(own, "sum").tolist()
            self.stop, self.late = bool(stop), bool(late)
        if isinstance(self.batches, LengthBatches) and self.batches.tokens:
            rows = self.batches.mean_rows * len(batches) * self.args.world_size
        self.share = rows / (len(batches) * self.args.world_size)
        return batches, None

    def look(self) -> None:
        """Note whether this process should stop, or is late to save."""
        minutes = self.saving.minutes if self.saving else None
        self.stop = bool(self.asked)
        self.late = minutes is not None and time.monotonic() - self.saved >= minutes * 60

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Any:
        rows = inputs.pop("row").tolist()
        # The gradient is averaged over processes and accumulated batches; this makes it the mean over a step's rows.
        self.weight = len(rows) / self.share
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"step {self.state.global_step + 1}: the loss is {loss.item()}, after which nothing is learned. "
                f"Its batch: {', '.join(map(self.where, rows))}. Try a lower learn.rate, or learn.precision: fp32"
            )
        return loss

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if self.own_loss is None:
            # Without the number of items: it would have the loss multiplied by the number of processes.
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        else:
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            loss = self.own_loss(outputs, labels)
        loss = loss * self.weight
        return (loss, outputs) if return_outputs else loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        if self.saving is None:
            return
        self.store_flos()
        generators = _gathered(random_state(), self.args.world_size)
        if self.args.should_save:
            scaler = getattr(self.accelerator, "scaler", None)
            state = {
                "weights": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.lr_scheduler.state_dict(),
                "scaler": scaler.state_dict() if scaler else None,
                "random": generators,
                "loss": (self._tr_loss, self._total_loss_scalar, self._globalstep_last_logged),
                "seconds": self.seconds(),
            }
            told = json.dumps(dataclasses.asdict(self.state))
            self.saving.checkpoints.save(self.state.global_step, state, {"trainer_state.json": told})
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.restored = load_state(Path(resume_from_checkpoint))
        self.model.load_state_dict(self.restored["weights"])
        self.seconds_before = self.restored["seconds"]

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self.optimizer.load_state_dict(self.restored["optimizer"])
            self.lr_scheduler.load_state_dict(self.restored["schedule"])

    def _load_scaler(self, checkpoint: str | None) -> None:
        if checkpoint is not None and self.restored["scaler"]:
            self.accelerator.scaler.load_state_dict(self.restored["scaler"])

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            set_random_state(self.restored["random"][self.args.process_index])


def _gathered(state: dict[str, Any], processes: int) -> list[Any]:
    """The state of every process, in order."""
    if processes == 1:
        return [state]
    found: list[Any] = [None] * processes
    torch.distributed.all_gather_object(found, state)
    return found


class _Loader(torch.utils.data.DataLoader[Any]):
    """A loader that the Trainer can tell the epoch."""

    def set_epoch(self, epoch: int) -> None:
        self.batch_sampler.set_epoch(epoch)  # type: ignore[union-attr]


class _Save(transformers.TrainerCallback):  # type: ignore[misc]
    """Decides when a training saves itself, and puts the sums of losses back when it goes on."""

    def __init__(self, trainer: _Trainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.trainer.restored:
            since, total, last = self.trainer.restored["loss"]
            self.trainer._tr_loss = since.to(args.device)
            self.trainer._total_loss_scalar = total
            self.trainer._globalstep_last_logged = last

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer, saving = self.trainer, self.trainer.saving
        if saving is None:
            return
        if args.world_size == 1:  # several have agreed at the beginning of the step
            trainer.look()
        if trainer.stop:
            control.should_save = control.should_training_stop = True
            return
        due = saving.steps is not None and state.global_step % saving.steps == 0
        last = state.global_step >= state.max_steps
        control.should_save = saving.last if last else due or trainer.late
        if control.should_save:
            trainer.saved = time.monotonic()


class _ShowProgress(transformers.TrainerCallback):  # type: ignore[misc]
    """Moves a progress bar on at every step, the latest loss beside it."""

    def __init__(self, progress: Progress, stack: ExitStack) -> None:
        self.progress = progress
        self.stack = stack
        self.note = ""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar = self.stack.enter_context(self.progress.bar("training", state.max_steps))
        self.bar.advance(state.global_step)

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
