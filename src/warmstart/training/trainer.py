"""The only file that touches `transformers.Trainer`: a subclass with our batches, losses and checkpoints."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from warmstart.errors import RecipeError, TrainingError
from warmstart.models.layer_map import LayerMap
from warmstart.models.vocabulary_loss import VOCABULARY_LOSS, few_logits, has_plain_head
from warmstart.runtime.signals import StopRequest
from warmstart.storage.files import write_text
from warmstart.storage.json_files import JsonObject
from warmstart.tasks.base import Batch
from warmstart.tasks.shared.masking import IGNORED
from warmstart.tasks.shared.protocols import CountsLossItems, ScoresTokens, VariesByEpoch
from warmstart.training.batches import EpochBatchSampler, EpochDataLoader, EpochDataset, LengthGroupedBatchSampler
from warmstart.training.callbacks import GradualUnfreezing
from warmstart.training.callbacks.gradual_unfreezing import count_phases
from warmstart.training.carried_state import CarriedState
from warmstart.training.checkpoint_state import StateDict, TrainingState, gather_states, random_state, set_random_state
from warmstart.training.checkpoints import CheckpointPolicy
from warmstart.training.drawn_slices import draw_slices
from warmstart.training.fsdp import mesh_of
from warmstart.training.given_states import given_states, pad_states, take_states
from warmstart.training.job import CARRIED, StatefulCallback, TrainingJob
from warmstart.training.matched_vectors import matched_vectors, teacher_vectors
from warmstart.training.r_drop import divergence, duplicate_batch
from warmstart.training.schedules import Phases, make_scheduler
from warmstart.training.settings import SUPERVISED_CONTRASTIVE
from warmstart.training.steps import count_epochs, count_started_epochs, make_batches
from warmstart.training.streams import StreamBatchSampler
from warmstart.training.supervised_contrastive import (
    VECTORS,
    contrastive_loss_function,
    count_anchors,
    freeze_classifier,
    reading_vectors,
)
from warmstart.training.trainable_task import ComparesPasses

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

ROWS = "rows"
"""What a loss is the mean over where its task counts nothing else."""


def collate(job: TrainingJob, epochs: int, features: list[JsonObject]) -> Batch:
    """The batch of features as they are in their epoch, with the numbers of its rows, for messages."""
    rows = torch.tensor([feature["row"] for feature in features])
    if isinstance(job.task, VariesByEpoch):
        epoch = features[0]["epoch"]
        features = list(job.task.features_for_epoch(features, job.tokenizer, job.settings.seed, epoch, epochs))
    if job.settings.slices_per_text is not None:
        features = draw_slices(features, job.settings.slices_per_text, job.settings.seed)
    features, states = take_states(features)
    batch = {**job.task.collate(features, job.tokenizer), "row": rows, **teacher_vectors(features)}
    batch |= pad_states(states, batch)
    if "is_first" in features[0]:
        batch["is_first"] = torch.tensor([feature["is_first"] for feature in features])
    return batch


class WarmstartTrainer(transformers.Trainer):  # type: ignore[misc]
    """A Trainer that stops at a NaN loss, and whose checkpoints are complete, verified and free of pickle.

    It uses the task's loss, and takes every loss for a mean over a batch, as ours are. By default the Trainer takes the
    loss of a sequence classifier for one divided by the number of rows of all accumulated batches, and does not divide
    it: gradients then grow with `gradient_accumulation_steps`.
    """

    loss_is_scaled_for_ga = False
    optimizer: torch.optim.Optimizer | None
    lr_scheduler: LambdaLR | None

    def __init__(
        self,
        job: TrainingJob,
        args: TrainingArguments,
        policy: CheckpointPolicy | None,
        stop_request: StopRequest,
        stateful: Mapping[str, StatefulCallback],
    ) -> None:
        self.layers = LayerMap.of(job.model)
        self.contrastive = job.settings.loss == SUPERVISED_CONTRASTIVE
        if self.contrastive:
            freeze_classifier(job.model)
        self.mesh = mesh_of(job.model)
        if self.mesh is not None:
            # The Trainer's word for a model that is sharded already: it leaves it as it is.
            job.model._is_distributed_loading_by_transformers = True  # type: ignore[assignment]
        self.batches = make_batches(job.rows, job.settings, args)
        args.num_train_epochs = count_epochs(job.settings, len(self.batches))
        super().__init__(
            model=job.model,
            args=args,
            data_collator=partial(collate, job, count_started_epochs(args, len(self.batches))),
            train_dataset=job.rows,
            callbacks=[*_unfreezing(self.layers, job), *stateful.values()],
        )
        self.job, self.task, self.settings = job, job.task, job.settings
        self.own_loss = (
            contrastive_loss_function(job.settings.temperature)
            if self.contrastive
            else job.task.loss(job.settings.label_smoothing)
        )
        full_precision = not (args.bf16 or args.fp16)
        self.loss_in_head = full_precision and isinstance(job.task, ScoresTokens) and has_plain_head(job.model)
        self.policy, self.stop_request, self.stateful = policy, stop_request, stateful
        self.dropout: Callable[[], AbstractContextManager[object]] = nullcontext
        carried = stateful.get(CARRIED)
        self.carried = carried if isinstance(carried, CarriedState) else None
        self.must_stop = self.must_save = False
        self.mean_items: dict[str, float] = {}
        self.items: dict[str, int] = {}
        self.parts: dict[str, torch.Tensor] = {}
        self.restored: TrainingState | None = None
        self.last_saved = time.monotonic()
        self.last_logged = 0
        self.started = time.perf_counter()
        self.seconds_before = 0.0

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The optimizer that `trainer.optim` names, over the layer map's groups, each with its learning rate."""
        if self.optimizer is None:
            cls, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
            own_groups = {"params", "model", "optimizer_dict"} & set(options)
            if own_groups or not (isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)):
                raise RecipeError(
                    f"trainer.optim: {self.args.optim} makes parameter groups of its own; set one that does not"
                )
            s = self.settings
            groups = self.layers.param_groups(s.learning_rate, s.lr_decay, s.head_learning_rate, s.weight_decay)
            self.optimizer = cls(groups, **options)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None) -> LambdaLR:
        if self.lr_scheduler is None:
            s = self.settings
            betas = None if s.adam_bias_correction else (self.args.adam_beta1, self.args.adam_beta2)
            optimizer = optimizer or self.create_optimizer()
            phases = self._phases() if s.lr_schedule_per_phase else None
            self.lr_scheduler = make_scheduler(
                optimizer, s.lr_schedule, num_training_steps, s.warmup, s.lr_ratio, betas, phases
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def _phases(self) -> Phases:
        """The phases in which layers are unfrozen."""
        s = self.settings
        epoch = math.ceil(len(self.batches) / self.args.gradient_accumulation_steps)
        return Phases(s.unfreeze_every or epoch, count_phases(len(self.layers.groups), s.unfreeze, s.freeze))

    def seconds(self) -> float:
        """Seconds of training, those before an interruption included."""
        return self.seconds_before + time.perf_counter() - self.started

    def get_train_dataloader(self) -> EpochDataLoader:
        """A loader of our batches; the Trainer's own would repeat rows to make the parts of all processes equal."""
        names = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "multiprocessing_context")
        options = {name: getattr(self.args, f"dataloader_{name}") for name in names}
        seed_worker = partial(
            transformers.trainer_utils.seed_worker, num_workers=options["num_workers"], rank=self.args.process_index
        )
        return EpochDataLoader(
            EpochDataset(self.train_dataset),
            batch_sampler=EpochBatchSampler(self.batches),
            collate_fn=self.data_collator,
            worker_init_fn=seed_worker,
            **options,
        )

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], None]:
        """The batches of a step; and, agreed between processes, its items and whether to save or stop after it."""
        batches = list(itertools.islice(epoch_iterator, num_batches))
        counts = [self.count_items(batch) for batch in batches]
        total = {name: sum(count[name] for count in counts) for name in counts[0]}
        self.poll_stop()
        if self.args.world_size > 1:
            own = torch.tensor([*total.values(), self.must_stop, self.must_save], device=device)
            *sums, stop, save = self.accelerator.reduce(own, "sum").tolist()
            total = dict(zip(total, sums, strict=True))
            self.must_stop, self.must_save = bool(stop), bool(save)
        parts = len(batches) * self.args.world_size
        self.mean_items = {name: max(items, 1) / parts for name, items in total.items()}
        if isinstance(self.batches, LengthGroupedBatchSampler) and self.batches.batch_tokens:
            self.mean_items[ROWS] = self.batches.mean_rows
        if isinstance(self.batches, StreamBatchSampler):
            self.mean_items |= dict.fromkeys(total.keys() - {ROWS}, self.batches.mean_tokens)
        return batches, None

    def count_items(self, batch: Batch) -> dict[str, int]:
        """How many rows a batch has, and how many items of other kinds that a loss is the mean over."""
        counts = self.task.loss_counts(batch) if isinstance(self.task, CountsLossItems) else {}
        if self.contrastive:
            counts = {"": count_anchors(batch["labels"])}
        return {ROWS: len(batch["row"]), **counts}

    def poll_stop(self) -> None:
        """Note whether this process should stop, or save because enough minutes have passed."""
        minutes = self.policy.every_minutes if self.policy else None
        self.must_stop = bool(self.stop_request)
        self.must_save = minutes is not None and time.monotonic() - self.last_saved >= minutes * 60

    def training_step(self, model: nn.Module, inputs: Batch, num_items_in_batch: object = None) -> torch.Tensor:
        self.items = self.count_items(inputs)
        rows = inputs.pop("row").tolist()
        if self.carried is not None and inputs.pop("is_first").all():
            self.carried.reset()
        with self.dropout():  # for the backward pass too, where gradient checkpointing runs the model once more
            loss: torch.Tensor = super().training_step(model, inputs, num_items_in_batch)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"step {self.state.global_step + 1}: the loss is {loss.item()}, after which training cannot continue. "
                f"Its batch: {', '.join(str(self.job.location(row)) for row in rows)}. "
                "Try a lower training.learning_rate, or training.precision: fp32"
            )
        return loss

    def compute_loss(
        self, model: nn.Module, inputs: Batch, return_outputs: bool = False, num_items_in_batch: object = None
    ) -> Any:
        # Without the number of items: the loss would be multiplied by the number of processes.
        if self.settings.r_drop:
            inputs = duplicate_batch(inputs)
        labels = inputs.pop("labels") if self.own_loss else None
        with given_states(self.job.lower_blocks, inputs), matched_vectors(self.model, inputs) as matched:
            outputs = self.forward(model, inputs, labels)
        loss = matched.add_to(self.own_loss(outputs, labels) if self.own_loss else outputs["loss"])
        if self.settings.r_drop and isinstance(self.task, ComparesPasses):
            logits = self.task.r_drop_logits(outputs, labels)
            loss = loss + self.settings.r_drop / 2 * divergence(logits, self.model.config.problem_type)
        loss = self.weigh_loss(loss)
        return (loss, outputs) if return_outputs else loss

    def forward(self, model: nn.Module, inputs: Batch, labels: Any) -> Any:
        """The model's outputs: in place of all logits of a vocabulary those that the loss needs, or the loss itself."""
        if self.contrastive:
            with reading_vectors(self.model) as vectors:
                outputs = model(**inputs)
            return {**outputs, VECTORS: vectors[0]}
        if labels is None or not isinstance(self.task, ScoresTokens):
            return model(**inputs)
        targets = self.task.loss_targets(labels)
        with few_logits(self.model, targets, targets != IGNORED, self.loss_in_head) as losses:
            outputs = model(**inputs, **({} if self.carried is None else {"state": self.carried.layers}))
        if self.carried is not None:
            self.carried.keep(outputs["state"])
        return {**outputs, VOCABULARY_LOSS: losses[0]} if losses else outputs

    def weigh_loss(self, loss: torch.Tensor | Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The sum of a loss's parts, each weighted so that the gradient of a step is that of the mean over its items.

        The gradient is averaged over processes and accumulated batches; so the weight of a batch's mean is the share
        that the batch has of the items of all of them.
        """
        if not isinstance(loss, Mapping):
            return loss * self.batch_weight("")
        parts = {name: part * self.batch_weight(name) for name, part in loss.items()}
        for name, part in parts.items():
            value = part.detach().float() / self.current_gradient_accumulation_steps
            self.parts[name] = self.parts.get(name, torch.zeros_like(value)) + value
        total: torch.Tensor = sum(parts.values())  # type: ignore[assignment]
        return total

    def batch_weight(self, part: str) -> float:
        """The weight of the mean of a part of the loss over this batch."""
        name = part if part in self.items else ROWS
        return self.items[name] / self.mean_items[name]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the parts of the loss with it, each as the mean over the steps since the last time."""
        if "loss" in logs:
            steps = self.state.global_step - self.last_logged
            self.last_logged = self.state.global_step
            for name, part in self.parts.items():
                mean = self.accelerator.gather(part.reshape(1)).mean().item() if self.args.world_size > 1 else part
                logs[f"loss_{name}"] = float(mean) / steps
            self.parts = {}
        super().log(logs, start_time)

    def _save_checkpoint(self, model: nn.Module, trial: object) -> None:
        if self.policy is None:
            return
        self.store_flos()
        random_states = gather_states(random_state(), self.args.world_size)
        if self.args.should_save:
            state = self._training_state(random_states)
            trainer_state = json.dumps(dataclasses.asdict(self.state))

            def write(folder: Path) -> None:
                state.save(folder)
                write_text(folder / "trainer_state.json", trainer_state)

            self.policy.checkpoints.save(self.state.global_step, write)
        elif self.mesh is not None:
            self._training_state(random_states).save_shards()
        self.accelerator.wait_for_everyone()

    def _training_state(self, random_states: list[StateDict]) -> TrainingState:
        scaler = getattr(self.accelerator, "scaler", None)
        return TrainingState(
            weights=self.model.state_dict(),
            optimizer=self.create_optimizer().state_dict(),
            schedule=self.lr_scheduler.state_dict() if self.lr_scheduler else {},
            scaler=scaler.state_dict() if scaler else None,
            random=random_states,
            loss=(self._tr_loss, self._total_loss_scalar, self._globalstep_last_logged),
            parts=self.parts,
            callbacks={name: callback.state_dict() for name, callback in self.stateful.items()},
            seconds=self.seconds(),
        )

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        self.restored = TrainingState.load(Path(resume_from_checkpoint), self.mesh)
        self.model.load_state_dict(self.restored.weights)
        for name, state in self.restored.callbacks.items():
            if name in self.stateful:
                self.stateful[name].load_state_dict(state)
        self.seconds_before = self.restored.seconds

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self.restored and checkpoint is not None and self.optimizer and self.lr_scheduler:
            self.optimizer.load_state_dict(self.restored.optimizer)
            self.lr_scheduler.load_state_dict(self.restored.schedule)
            self.restored = dataclasses.replace(self.restored, weights={}, optimizer={})  # they are large

    def _load_scaler(self, checkpoint: str | None) -> None:
        if self.restored and checkpoint is not None and self.restored.scaler:
            self.accelerator.scaler.load_state_dict(self.restored.scaler)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if self.restored and checkpoint is not None:
            # Where there are more processes than before, as the user has accepted, some start from the same state.
            set_random_state(self.restored.random[self.args.process_index % len(self.restored.random)])


class SaveCheckpoints(transformers.TrainerCallback):  # type: ignore[misc]
    """Decides when a training saves a checkpoint, and restores the sums of losses when it resumes."""

    def __init__(self, trainer: WarmstartTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if restored := self.trainer.restored:
            since, total, last = restored.loss
            self.trainer._tr_loss = since.to(args.device)
            self.trainer._total_loss_scalar = total
            self.trainer._globalstep_last_logged = self.trainer.last_logged = last
            self.trainer.parts = {name: part.to(args.device) for name, part in restored.parts.items()}

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        trainer, policy = self.trainer, self.trainer.policy
        if policy is None:
            return
        if args.world_size == 1:  # several have agreed at the beginning of the step
            trainer.poll_stop()
        if trainer.must_stop:
            control.should_save = control.should_training_stop = True
            return
        due = policy.every_steps is not None and state.global_step % policy.every_steps == 0
        last = state.global_step >= state.max_steps
        control.should_save = policy.save_last if last else due or trainer.must_save
        if control.should_save:
            trainer.last_saved = time.monotonic()


def _unfreezing(layers: LayerMap, job: TrainingJob) -> list[GradualUnfreezing]:
    """The callback that unfreezes layers; none where all are trained from the start."""
    s = job.settings
    if s.unfreeze == "all" and not s.freeze:
        return []
    return [GradualUnfreezing(layers, s.unfreeze_every or "epoch", s.unfreeze, s.freeze)]
