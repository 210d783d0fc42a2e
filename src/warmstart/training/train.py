"""Training a model in place: the one way in which every stage trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import transformers

from warmstart.errors import RecipeError, StoppedError
from warmstart.models.first_token import first_token_only
from warmstart.models.layer_map import LayerMap
from warmstart.models.precision import resolve_precision
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress, silent
from warmstart.runtime.signals import StopRequest, watch_stop_signals
from warmstart.runtime.trackers import set_tensorboard_folder, tracker_errors
from warmstart.training.callbacks import EarlyStopping, EpochEvaluation
from warmstart.training.callbacks.gradual_unfreezing import trainable_layers
from warmstart.training.checkpoints import CheckpointPolicy
from warmstart.training.dropout_trial import Kernel, dropout_kernel
from warmstart.training.fast_dropout import FastDropout
from warmstart.training.fsdp import ShardedModel, check_fsdp
from warmstart.training.history import TrainingResult, training_log
from warmstart.training.job import TrainingHooks, TrainingJob, stateful_callbacks
from warmstart.training.matched_vectors import projection, vector_width
from warmstart.training.settings import SUPERVISED_CONTRASTIVE, training_arguments
from warmstart.training.steps import length_grouped_batches, planned_steps
from warmstart.training.streams import StreamRows
from warmstart.training.supervised_contrastive import check_contrastive
from warmstart.training.task_sampling import MultiTaskRows
from warmstart.training.trainable_task import ComparesPasses
from warmstart.training.trainer import SaveCheckpoints, WarmstartTrainer

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments


def train(
    job: TrainingJob,
    folder: Path,
    progress: Progress = silent,
    policy: CheckpointPolicy | None = None,
    hooks: TrainingHooks = TrainingHooks(),  # noqa: B008
) -> TrainingResult:
    """Train a model in place on encoded rows, resuming from the newest checkpoint if there is one.

    With `fsdp`, the main process alone has the trained weights in the end.

    Args:
        folder: Where the Trainer may write files of its own; removed if it writes none.
        policy: Where and when to save checkpoints; without, a training cannot be resumed.

    Raises:
        TrainingError: The loss is NaN or infinite.
        StoppedError: SIGTERM or SIGINT arrived; a checkpoint was saved first.
    """
    settings = job.settings
    precision = resolve_precision(settings.precision, job.model.config)
    with ExitStack() as stack:
        stop_request = stack.enter_context(watch_stop_signals()) if policy else StopRequest()
        width = vector_width(job.rows)
        stack.enter_context(projection(job.model, width, settings.seed))
        try:
            args = training_arguments(settings, folder, precision)
            job, hooks, sharded = _shard(job, hooks, args)
            stateful = stateful_callbacks(settings, hooks, isinstance(job.rows, StreamRows))
            trainer = WarmstartTrainer(job, args, policy, stop_request, stateful)
        except (ValueError, RuntimeError, ImportError) as error:
            raise RecipeError(f"trainer: {error}") from None
        trainer.remove_callback(transformers.trainer_callback.PrinterCallback)
        trainer.add_callback(_ShowProgress(progress, stack))
        trainer.add_callback(SaveCheckpoints(trainer))
        set_tensorboard_folder(trainer.callback_handler.callbacks, folder)
        steps = planned_steps(settings, args, len(trainer.batches))
        kernel = dropout_kernel(job, steps, policy.checkpoints.folder if policy else None)
        stack.enter_context(_cheap_steps(trainer, kernel))
        early = stateful.get("early_stopping")
        if isinstance(early, EarlyStopping):
            early.log = lambda value: trainer.log({"eval_score": value})
        with tracker_errors(args.report_to):
            output = trainer.train(resume_from_checkpoint=_newest_checkpoint(policy, progress))
        stopped_early = isinstance(early, EarlyStopping) and early.is_over
        if trainer.must_stop and output.global_step < trainer.state.max_steps and not stopped_early:
            name = stop_request.name or "A signal"  # one that another process received
            raise StoppedError(
                f"{name} received: saved after step {output.global_step}; the same command resumes from there"
            )
    if sharded is not None:
        sharded.gather(here=processes.is_main_process())
    trainer.accelerator.wait_for_everyone()  # another process's Trainer may still read the folder
    with suppress(OSError):  # it does not exist, or the Trainer has written something into it
        folder.rmdir()
    evaluation = early or stateful.get("measuring")
    values = evaluation.values if isinstance(evaluation, EarlyStopping | EpochEvaluation) else []
    history = training_log(trainer.state.log_history)
    cached = len(job.lower_blocks.blocks) if job.lower_blocks else 0
    return TrainingResult(output.global_step, trainer.seconds(), precision, history, values, kernel, cached)


@contextmanager
def _cheap_steps(trainer: WarmstartTrainer, kernel: Kernel) -> Iterator[None]:
    """Within it, a step spends little on dropout and on tokens that nobody reads."""
    trainer.dropout = FastDropout if kernel == "fast" else nullcontext
    with ExitStack() as stack:
        if vector_width(trainer.job.rows) is None:
            stack.enter_context(first_token_only(trainer.job.model))
        yield


def _shard(
    job: TrainingJob, hooks: TrainingHooks, args: TrainingArguments
) -> tuple[TrainingJob, TrainingHooks, ShardedModel | None]:
    """The job with its model sharded over the processes, where the settings say so."""
    if not job.settings.fsdp:
        return job, hooks, None
    processes.check_several("training.fsdp")
    sharded = ShardedModel(job.model, args.device)
    evaluate = sharded.on_plain(hooks.evaluate) if hooks.evaluate else None
    return replace(job, model=sharded.model), replace(hooks, evaluate=evaluate), sharded


def check_training(job: TrainingJob, has_dev: bool) -> None:
    """Refuse settings that do not go together, or with the model or the rows, before anything is trained or written.

    Args:
        has_dev: Whether there are rows to evaluate on during training.
    """
    task, settings, layers = job.task, job.settings, LayerMap.of(job.model)
    trainable_layers(len(layers.groups), settings.unfreeze, 0, settings.freeze)
    if settings.unfreeze != "all" and not layers.head.parameters:
        raise RecipeError(
            f"layers.unfreeze: {settings.unfreeze} starts with the head, and this model has none; set all"
        )
    if settings.r_drop and not (isinstance(task, ComparesPasses) and task.supports_r_drop):
        raise RecipeError(
            f"training.r_drop: found {settings.r_drop}, but two passes of {task.name} cannot be compared; set 0"
        )
    if settings.loss == SUPERVISED_CONTRASTIVE:
        check_contrastive(job.model, task, settings)
    stateful_callbacks(settings, TrainingHooks(evaluate=(lambda: 0.0) if has_dev else None))
    task.loss(settings.label_smoothing)
    if settings.fsdp:
        check_fsdp(job.model, task, settings)
        if vector_width(job.rows) is not None:
            raise RecipeError("training.fsdp: sharded weights do not go with stages.distil.match: both; set logits")
    if settings.batch_tokens and isinstance(job.rows, StreamRows):
        raise RecipeError("training.batch_tokens: streams have no lengths to group by; set training.batch_size")
    if settings.batch_tokens and not isinstance(job.rows, MultiTaskRows):
        length_grouped_batches(job.rows, settings, settings.batch_size)


def _newest_checkpoint(policy: CheckpointPolicy | None, progress: Progress) -> str | None:
    """The checkpoint to resume from; it is logged, with those that were skipped."""
    if policy is None:
        return None
    path, skipped = policy.checkpoints.newest()
    for line in skipped:
        progress.log(line)
    if path is None:
        return None
    progress.log(f"resuming from {path.name}")
    return str(path)


class _ShowProgress(transformers.TrainerCallback):  # type: ignore[misc]
    """Advances a progress bar at every step, the latest loss beside it."""

    def __init__(self, progress: Progress, stack: ExitStack) -> None:
        self.progress = progress
        self.stack = stack
        self.note = ""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self.bar = self.stack.enter_context(self.progress.bar("training", state.max_steps))
        self.bar.advance(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        if logs and "loss" in logs:
            self.note = f"loss {logs['loss']:.4f}"

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        self.bar.advance(1, self.note)
