"""The multitask stage: one encoder is trained on several tasks at once, each with a head of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.data.findings import Findings
from warmstart.errors import Location
from warmstart.evaluation.evaluate import evaluate, predict_rows
from warmstart.evaluation.records import data as data_record
from warmstart.evaluation.records import forgetting as forgetting_record
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.records import training as training_record
from warmstart.evaluation.records.files import as_json, write_record
from warmstart.evaluation.records.metrics import Metrics, finish_run
from warmstart.evaluation.records.training import MultitaskTrainingRecord, TaskTrainingRecord
from warmstart.evaluation.run import ENVIRONMENT
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import load_pooler, quiet_transformers
from warmstart.models.sentence_transformers_folder import keep_pooling
from warmstart.models.shared_encoder import MultiTaskModel
from warmstart.pipeline.finetune import PreparedTraining
from warmstart.pipeline.forgetting_monitor import ForgettingMonitor, make_monitor
from warmstart.pipeline.multitask_recipes import TRAINED, MultitaskStage, PreparedMultitask, prepare_multitask
from warmstart.pipeline.prepare import Parts
from warmstart.pipeline.saved_model import save
from warmstart.pipeline.stage_store import Identity
from warmstart.recipe import CheckpointOptions, absolute
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, remove_stale_staging, verify
from warmstart.storage.files import write_json, write_text
from warmstart.storage.folders import make_folder
from warmstart.tasks.shared.protocols import TunesOnDev, VariesByEpoch
from warmstart.training.checkpoints import CheckpointPolicy, CheckpointStore, check_identity
from warmstart.training.job import TrainingHooks, TrainingJob
from warmstart.training.task_sampling import MultiTaskRows
from warmstart.training.train import train

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEMPERATURE = 5.0


def train_multitask(
    stage: MultitaskStage,
    folder: Path,
    cache: Path,
    work: Path,
    progress: Progress = silent,
    resume_anyway: Iterable[str] = (),
) -> None:
    """Train the tasks of several recipes on one encoder, into a folder, or resume what was stopped there.

    The folder then holds `model/`, the encoder, with the pooler it was pretrained with; `heads/NAME/`, a complete model
    of each task, which opens in `warmstart predict` and in plain `transformers`; and `metrics.json`, each task measured
    on its own dev and test.

    Args:
        cache: Where rows are stored as Arrow.
        work: A folder for files that are not needed afterwards.
        resume_anyway: What may differ from when the stage was stopped, though the model may then differ too.
    """
    main = processes.is_main_process()
    progress = progress if main else silent
    with processes.main_process_first():
        prepared = prepare_multitask(stage, cache, work, progress)
        saving = _saving(folder, prepared.identity, stage.checkpoints, resume_anyway)
        if main:
            _begin(folder, prepared)
    if (folder / TRAINED).exists():
        progress.log(f"{folder.name} is trained; reused")
        saving.end()  # a kill may have come before
    else:
        monitor = None
        if stage.forgetting is not None and main:
            first = next(iter(stage.recipes.values()))
            monitor = make_monitor(first, stage.forgetting, cache, Findings(), progress)
        _train(prepared, saving, folder, progress, monitor)
    with processes.main_process_first():
        if main and not (folder / metrics_record.FILE).exists():
            finish_run(_measure(folder, prepared.parts, progress), folder)


def _saving(folder: Path, identity: Identity, options: CheckpointOptions, anyway: Iterable[str]) -> CheckpointPolicy:
    """Where and when to save checkpoints, after checking that those in the folder are of the same training."""
    checkpoints = CheckpointStore(folder / "checkpoints", identity, options.keep_last, frozenset(anyway))
    if (folder / TRAINED).exists():
        check_identity(folder / TRAINED, verify(folder / TRAINED).get("identity"), identity, anyway)
    else:
        checkpoints.newest()
    return CheckpointPolicy(
        checkpoints, options.every_steps, options.every_minutes, save_last=options.when_finished == "keep"
    )


def _begin(folder: Path, prepared: PreparedMultitask) -> None:
    """Record the recipes, the data and the environment; remove what a kill left half written."""
    stage = prepared.stage
    make_folder(folder / "recipes")
    for place in (folder, folder / "checkpoints", folder / "heads"):
        remove_stale_staging(place)
    for name, recipe in stage.recipes.items():
        write_text(folder / "recipes" / f"{name}.yaml", absolute(recipe).yaml())
    write_json(folder / "multitask.json", {"seed": stage.seed, **stage.options.model_dump(mode="json")})
    write_json(folder / ENVIRONMENT, environment())
    write_json(folder / data_record.FILE, {name: as_json(parts.record()) for name, parts in prepared.parts.items()})


class _Dispatch:
    """Several tasks as one for the trainer: each batch belongs to one of them, which handles it."""

    name = "multitask"

    def __init__(self, tasks: Mapping[str, PreparedTraining]) -> None:
        self.tasks = tasks

    def features_for_epoch(
        self, features: Sequence[dict[str, Any]], tokenizer: Any, seed: int, epoch: int, epochs: int
    ) -> Sequence[dict[str, Any]]:
        own = self.tasks[features[0]["task"]]
        if not isinstance(own.task, VariesByEpoch):
            return features
        return own.task.features_for_epoch(features, own.tokenizer, seed, epoch, epochs)

    def collate(self, features: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, Any]:
        own = self.tasks[features[0]["task"]]
        return {**own.task.collate(features, own.tokenizer), "task": features[0]["task"]}

    def loss(self, label_smoothing: float = 0.0) -> Callable[..., Any] | None:
        return None  # the model has it, since it must know whose it is


def _train(
    prepared: PreparedMultitask,
    saving: CheckpointPolicy,
    folder: Path,
    progress: Progress,
    monitor: ForgettingMonitor | None,
) -> None:
    """Train all tasks together; publish each task's model, the encoder, and the record of the training."""
    tasks, options = prepared.tasks, prepared.stage.options
    settings = next(iter(tasks.values())).settings
    losses = {name: ready.task.loss(settings.label_smoothing) for name, ready in tasks.items()}
    model = MultiTaskModel({name: ready.loaded.model for name, ready in tasks.items()}, losses, options.loss_weights)
    parts = {name: ready.rows for name, ready in tasks.items()}
    rows = MultiTaskRows(parts, options.sampling, options.temperature or TEMPERATURE)
    if processes.is_main_process():
        # Models without the record of their training are from a stage that was stopped between the two.
        for place in (folder / "heads", folder / "model"):
            shutil.rmtree(place, ignore_errors=True)

    def location(row: int) -> Location:
        name, own = rows.locate(row)
        return tasks[name].train.location(own)

    own, dispatch = folder / "trainer", _Dispatch(tasks)
    monitoring = monitor.callback(model) if monitor else None
    first = monitoring.measure() if monitoring else {}
    job = TrainingJob(model, dispatch, None, rows, settings, location)
    trained = train(job, own, progress, saving, TrainingHooks(monitor=monitoring))
    if not processes.is_main_process():
        return
    for name, ready in tasks.items():
        _save_head(ready, folder / "heads" / name, progress)
    _save_encoder(prepared, model.encoder, folder / "model")
    record = MultitaskTrainingRecord(
        steps=trained.steps,
        seconds=trained.seconds,
        precision=trained.precision,
        history=trained.history,
        weights=model.current_weights(),
        tasks={name: _task_record(ready) for name, ready in tasks.items()},
    )
    with publish(folder / TRAINED, {"identity": prepared.identity}) as staging:
        write_record(record, staging / training_record.FILE)
        if monitor and monitoring:
            write_record(monitor.record(monitoring, first, trained.steps), staging / forgetting_record.FILE)
    saving.end()


def _save_encoder(prepared: PreparedMultitask, encoder: PreTrainedModel, folder: Path) -> None:
    """Publish the encoder for what follows, with its pretrained pooler: each task has trained one of its own, if any.

    Without it, a stock head that reads the pooler would start from random weights, unlike one on the encoder as it was.
    """
    tokenizer = max((ready.tokenizer for ready in prepared.tasks.values()), key=len)
    pooler = load_pooler(next(iter(prepared.stage.recipes.values())).model)
    if pooler is not None:
        encoder.pooler = pooler
    with publish(folder) as staging, quiet_transformers():
        encoder.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        keep_pooling(encoder, staging)


def _save_head(ready: PreparedTraining, folder: Path, progress: Progress) -> None:
    """Publish one task's model, tuned on its dev rows where the task does that."""
    task = ready.task
    if isinstance(task, TunesOnDev) and task.tunes_on_dev and ready.dev is not None:
        task = task.tune(*predict_rows(ready.predictor, ready.dev, progress))
    save(ready.loaded.model, ready.tokenizer, task, ready.window, folder)


def _task_record(ready: PreparedTraining) -> TaskTrainingRecord:
    loaded = ready.loaded
    new, unused = list(loaded.new_parameters), list(loaded.unused_tensors)
    return TaskTrainingRecord(len(ready.rows), ready.window_record(), new, unused)


def _measure(folder: Path, parts: Mapping[str, Parts], progress: Progress) -> dict[str, Metrics]:
    """Each task's model as it was saved, measured on its dev and test rows."""
    make_folder(folder / "predictions")
    metrics: dict[str, Metrics] = {}
    for name, own in parts.items():
        predictor = Predictor.load(folder / "heads" / name)
        metrics[name] = {
            part: evaluate(predictor, own.tables[part], folder / "predictions" / f"{name}-{part}.parquet", progress)
            for part in ("dev", "test")
            if part in own.tables
        }
    return metrics
