"""The one training path: the only file that touches `transformers.Trainer`."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
import transformers

from warmstart.errors import RecipeError, Stopped, TrainingError
from warmstart.models.layer_map import LayerMap
from warmstart.models.precision import Precision, resolve
from warmstart.runtime.progress import Progress, silent
from warmstart.runtime.signals import StopAsked, stop_asked
from warmstart.runtime.trackers import keep_in, tracker_errors
from warmstart.training.batches import EpochBatches, EpochRows, LengthBatches, Loader, RandomBatches
from warmstart.training.callbacks.early_stopping import EarlyStop, Measured, Measuring
from warmstart.training.callbacks.unfreezing import Unfreezing, learning
from warmstart.training.callbacks.watching import Watching
from warmstart.training.callbacks.weight_averaging import Averaging
from warmstart.training.checkpoints import Checkpoints, load_state, random_state, set_random_state
from warmstart.training.r_drop import divergence, doubled
from warmstart.training.schedules import schedule
from warmstart.training.settings import Settings, arguments
from warmstart.training.steps import batches_of, epochs_of, grouped, passes

ROWS = "rows"
"""What a loss is the mean over where its task says nothing else."""


class Learned(Protocol):
    """What a training asks of what is learned: a task, or several at once."""

    @property
    def name(self) -> str: ...

    @property
    def doubles(self) -> bool: ...

    def vary(
        self, features: Sequence[dict[str, Any]], tokenizer: Any, seed: int, epoch: int, epochs: int
    ) -> Sequence[dict[str, Any]]: ...

    def collate(self, features: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, Any]: ...

    def counts(self, batch: Mapping[str, Any]) -> dict[str, int]: ...

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None: ...

    def competing(self, outputs: Any, labels: Any) -> Any: ...


@dataclass(frozen=True)
class Trained:
    """What a training did."""

    steps: int
    seconds: float
    precision: Precision
    history: list[dict[str, float]]
    """One entry each time the loss was noted: step, epoch, loss, rate, gradient norm."""
    measured: list[dict[str, Any]]
    """Where dev was measured on the way, one entry an epoch: epoch, step, value; None where that is undefined."""


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
    task: Learned,
    tokenizer: Any,
    rows: Any,
    settings: Settings,
    folder: Path,
    progress: Progress = silent,
    saving: Saving | None = None,
    where: Callable[[int], str] = lambda row: f"row {row}",
    measure: Callable[[], float] | None = None,
    watch: Watching | None = None,
    measured: Measured | None = None,
) -> Trained:
    """Train a model in place on encoded rows, going on from the newest checkpoint if there is one.

    Args:
        rows: A `datasets.Dataset` of the task's features, each with its number as `row`; or `Mixed` rows.
        folder: Where the Trainer may put files of its own; removed where it puts none.
        saving: Where and when to save; a training without cannot be resumed.
        where: Names the row of a number, for messages.
        measure: Gives how good the model is at present, on rows that it does not learn from; for early stopping.
        watch: Looks at the model on the way; what it saw is kept in checkpoints.
        measured: Told after every epoch but the last what `measure` gives; what it raises ends the training.

    Raises:
        TrainingError: The loss is no number any more.
        Stopped: SIGTERM or SIGINT came; the training was saved first.
    """
    precision = resolve(settings.precision, model.config)
    keeping = {**_keeping(settings, measure, measured), **({"watch": watch} if watch else {})}
    with ExitStack() as stack:
        asked = stack.enter_context(stop_asked()) if saving else StopAsked()
        try:
            args = arguments(settings, folder, precision)
            trainer = _trainer(model, task, tokenizer, rows, settings, args, where, saving, asked, keeping)
        except (ValueError, RuntimeError, ImportError) as error:
            raise RecipeError(f"trainer: {error}") from None
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        trainer.add_callback(_ShowProgress(progress, stack))
        trainer.add_callback(_Save(trainer))
        keep_in(trainer.callback_handler.callbacks, folder)
        early = keeping.get("early_stopping")
        if early:
            early.tell = lambda value: trainer.log({"eval_score": value})
        with tracker_errors(args.report_to):
            done = trainer.train(resume_from_checkpoint=_newest(saving, progress))
        if trainer.stop and done.global_step < trainer.state.max_steps and not (early and early.over):
            name = asked.name or "A signal"  # one that came to another process
            raise Stopped(f"{name} came: saved after step {done.global_step}; the same command goes on from there")
    trainer.accelerator.wait_for_everyone()  # another process's Trainer may still look into the folder
    with suppress(OSError):  # it is not there, or the Trainer has put something into it
        folder.rmdir()
    history = _history(trainer.state.log_history)
    measuring = early or keeping.get("measuring")
    return Trained(done.global_step, trainer.seconds(), precision, history, measuring.values if measuring else [])


def check(model: Any, task: Learned, rows: Any, settings: Settings, measured: bool) -> None:
    """Refuse settings that do not go together, or with the model or the rows, before anything is trained or written.

    Args:
        measured: Whether there are rows to measure on while training.
    """
    learning(len(LayerMap.of(model).groups), settings.unfreeze, 0, settings.freeze)
    if settings.unfreeze != "all" and not LayerMap.of(model).head.parameters:
        raise RecipeError(
            f"layers.unfreeze: {settings.unfreeze} begins with the head, and this model has none; say all"
        )
    if settings.r_drop and not task.doubles:
        raise RecipeError(
            f"training.r_drop: found {settings.r_drop}, but {task.name} cannot hold two passes together; say 0"
        )
    _keeping(settings, (lambda: 0.0) if measured else None)
    task.loss(settings.label_smoothing)
    if settings.batch_tokens:
        grouped(rows, settings, settings.batch_size)


def _trainer(
    model: Any,
    task: Learned,
    tokenizer: Any,
    rows: Any,
    settings: Settings,
    args: transformers.TrainingArguments,
    where: Callable[[int], str],
    saving: Saving | None,
    asked: StopAsked,
    keeping: Mapping[str, Any],
) -> _Trainer:
    """A Trainer over the task's batches, with what lets layers learn and what gathers weights."""
    layers = LayerMap.of(model)
    batches = batches_of(rows, settings, args)
    args.num_train_epochs = epochs_of(settings, len(batches))
    return _Trainer(
        task,
        layers,
        settings,
        keeping,
        where,
        saving,
        asked,
        batches,
        model=model,
        args=args,
        data_collator=partial(_collate, task, tokenizer, settings.seed, passes(args, len(batches))),
        train_dataset=rows,
        callbacks=[*_unfreezing(layers, settings), *keeping.values()],
    )


def _unfreezing(layers: LayerMap, settings: Settings) -> list[Unfreezing]:
    """What lets layers learn by a plan; nothing where all learn from the start."""
    if settings.unfreeze == "all" and not settings.freeze:
        return []
    return [Unfreezing(layers, settings.unfreeze, settings.unfreeze_every, settings.freeze)]


def _keeping(
    settings: Settings, measure: Callable[[], float] | None, measured: Measured | None = None
) -> dict[str, Any]:
    """What gathers weights along the way to leave the model with, or measures; checkpoints keep the state of each."""
    if settings.average_last_epochs > 1 and settings.early_stopping_patience:
        raise RecipeError(
            "training.average_last_epochs and training.early_stopping_patience both say which weights to keep; drop one"
        )
    if settings.early_stopping_patience is None:
        average: dict[str, Any] = (
            {"average": Averaging(settings.average_last_epochs)} if settings.average_last_epochs > 1 else {}
        )
        return {**average, "measuring": Measuring(measure, measured)} if measure and measured else average
    if measure is None:
        raise RecipeError(
            "training.early_stopping_patience: there are no dev rows; set data.dev, or data.split.dev: 0.1"
        )
    return {"early_stopping": EarlyStop(measure, settings.early_stopping_patience, measured)}


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


def _collate(task: Learned, tokenizer: Any, seed: int, epochs: int, features: list[dict[str, Any]]) -> dict[str, Any]:
    """The batch of features as they are learned from in their epoch, with the numbers of its rows, for messages."""
    batch = task.collate(task.vary(features, tokenizer, seed, features[0]["epoch"], epochs), tokenizer)
    return {**batch, "row": torch.tensor([feature["row"] for feature in features])}


class _Trainer(transformers.Trainer):  # type: ignore[misc]
    """A Trainer that stops at a loss that is no number, and whose checkpoints are complete, checked and free of pickle.

    It asks the task for its loss, and takes every loss for what ours are: means over a batch. Left to itself it takes
    the loss of a sequence classifier for one divided by the number of rows of all accumulated batches, and does not
    divide it: gradients then grow with `gradient_accumulation_steps`.
    """

    loss_is_scaled_for_ga = False
    optimizer: Any
    lr_scheduler: Any

    def __init__(
        self,
        task: Learned,
        layers: LayerMap,
        settings: Settings,
        keeping: Mapping[str, Any],
        where: Callable[[int], str],
        saving: Saving | None,
        asked: StopAsked,
        batches: RandomBatches,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.task = task
        self.own_loss = task.loss(settings.label_smoothing)
        self.layers = layers
        self.settings = settings
        self.keeping = keeping
        self.asked = asked
        self.batches = batches
        self.stop = self.late = False
        self.shares: dict[str, float] = {}
        self.items: dict[str, int] = {}
        self.parts: dict[str, torch.Tensor] = {}
        self.saved = time.monotonic()
        self.where = where
        self.saving = saving
        self.restored: dict[str, Any] = {}
        self.noted = 0
        self.started = time.perf_counter()
        self.seconds_before = 0.0

    def create_optimizer(self, model: Any = None) -> Any:
        """The optimizer that `trainer.optim` names, over the layer map's groups, each with its rate."""
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            own_groups = {"params", "model", "optimizer_dict"} & set(options)
            if own_groups or not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
                raise RecipeError(f"trainer.optim: {self.args.optim} makes groups of its own; take one that does not")
            s = self.settings
            groups = self.layers.param_groups(s.learning_rate, s.lr_decay, s.head_learning_rate, s.weight_decay)
            self.optimizer = kind(groups, **options)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.lr_scheduler is None:
            s = self.settings
            betas = None if s.adam_bias_correction else (self.args.adam_beta1, self.args.adam_beta2)
            self.lr_scheduler = schedule(
                optimizer or self.optimizer, s.lr_schedule, num_training_steps, s.warmup, s.lr_ratio, betas
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

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
        return Loader(
            EpochRows(self.train_dataset),
            batch_sampler=EpochBatches(self.batches),
            collate_fn=self.data_collator,
            worker_init_fn=seeding,
            **options,
        )

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], None]:
        """The batches of a step; and, agreed between processes, its items and whether to save or stop after it."""
        batches = list(itertools.islice(epoch_iterator, num_batches))
        counts = [self.count(batch) for batch in batches]
        total = {name: sum(count[name] for count in counts) for name in counts[0]}
        self.look()
        if self.args.world_size > 1:
            own = torch.tensor([*total.values(), self.stop, self.late], device=device)
            *sums, stop, late = self.accelerator.reduce(own, "sum").tolist()
            total = dict(zip(total, sums, strict=True))
            self.stop, self.late = bool(stop), bool(late)
        parts = len(batches) * self.args.world_size
        self.shares = {name: max(items, 1) / parts for name, items in total.items()}
        if isinstance(self.batches, LengthBatches) and self.batches.tokens:
            self.shares[ROWS] = self.batches.mean_rows
        return batches, None

    def count(self, batch: Mapping[str, Any]) -> dict[str, int]:
        """How many rows a batch has, and how many items of other kinds that a loss is the mean over."""
        return {ROWS: len(batch["row"]), **self.task.counts(batch)}

    def look(self) -> None:
        """Note whether this process should stop, or is late to save."""
        minutes = self.saving.minutes if self.saving else None
        self.stop = bool(self.asked)
        self.late = minutes is not None and time.monotonic() - self.saved >= minutes * 60

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Any:
        self.items = self.count(inputs)
        rows = inputs.pop("row").tolist()
        loss = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"step {self.state.global_step + 1}: the loss is {loss.item()}, after which nothing is learned. "
                f"Its batch: {', '.join(map(self.where, rows))}. "
                "Try a lower training.learning_rate, or training.precision: fp32"
            )
        return loss

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        # Without the number of items: it would have the loss multiplied by the number of processes.
        if self.settings.r_drop:
            inputs = doubled(inputs)
        labels = inputs.pop("labels") if self.own_loss else None
        outputs = model(**inputs)
        loss = self.own_loss(outputs, labels) if self.own_loss else outputs["loss"]
        if self.settings.r_drop:
            scores = self.task.competing(outputs, labels)
            loss = loss + self.settings.r_drop / 2 * divergence(scores, self.model.config.problem_type)
        loss = self.weighted(loss)
        return (loss, outputs) if return_outputs else loss

    def weighted(self, loss: Any) -> Any:
        """The sum of a loss's parts, each weighted so that a step learns from the mean over its items.

        The gradient is averaged over processes and accumulated batches; so a batch's mean counts for as much as the
        batch has of the items of all of them.
        """
        if not isinstance(loss, Mapping):
            return loss * self.weight("")
        parts = {name: part * self.weight(name) for name, part in loss.items()}
        for name, part in parts.items():
            noted = part.detach().float() / self.current_gradient_accumulation_steps
            self.parts[name] = self.parts.get(name, torch.zeros_like(noted)) + noted
        return sum(parts.values())

    def weight(self, part: str) -> float:
        """What the mean of a part of the loss over this batch counts for in the step."""
        name = part if part in self.items else ROWS
        return self.items[name] / self.shares[name]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note the parts of the loss beside it, each as the mean over the steps since the last time."""
        if "loss" in logs:
            steps = self.state.global_step - self.noted
            self.noted = self.state.global_step
            for name, part in self.parts.items():
                together = self.accelerator.gather(part.reshape(1)).mean().item() if self.args.world_size > 1 else part
                logs[f"loss_{name}"] = float(together) / steps
            self.parts = {}
        super().log(logs, start_time)

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
                "parts": self.parts,
                "keeping": {name: one.state() for name, one in self.keeping.items()},
                "seconds": self.seconds(),
            }
            told = json.dumps(dataclasses.asdict(self.state))
            self.saving.checkpoints.save(self.state.global_step, state, {"trainer_state.json": told})
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.restored = load_state(Path(resume_from_checkpoint))
        self.model.load_state_dict(self.restored["weights"])
        for name, state in self.restored["keeping"].items():
            if name in self.keeping:
                self.keeping[name].restore(state)
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


class _Save(transformers.TrainerCallback):  # type: ignore[misc]
    """Decides when a training saves itself, and puts the sums of losses back when it goes on."""

    def __init__(self, trainer: _Trainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.trainer.restored:
            since, total, last = self.trainer.restored["loss"]
            self.trainer._tr_loss = since.to(args.device)
            self.trainer._total_loss_scalar = total
            self.trainer._globalstep_last_logged = self.trainer.noted = last
            parts = self.trainer.restored["parts"]
            self.trainer.parts = {name: part.to(args.device) for name, part in parts.items()}

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
    found = []
    for entry in (entry for entry in log if "loss" in entry):
        parts = {name: value for name, value in entry.items() if name.startswith("loss_")}
        found.append({**{ours: entry[theirs] for theirs, ours in words.items() if theirs in entry}, **parts})
    return found
