"""The finetune stage: an encoder and a new head are trained for one task on labelled rows."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import transformers

from warmstart.data.table import Table
from warmstart.evaluation.evaluate import evaluate, predict_rows
from warmstart.evaluation.records import forgetting as forgetting_record
from warmstart.evaluation.records import training as training_record
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.records.final_model import FinalModelRecord
from warmstart.evaluation.records.linear_probe import ProbeRecord
from warmstart.evaluation.records.training import RuleRecord, TrainingRecord, WindowRecord
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.models.added_tokens import add_tokens
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import (
    LoadedModel,
    load_config,
    load_tokenizer,
)
from warmstart.models.lora import merge_lora
from warmstart.models.precision import resolve_precision
from warmstart.pipeline.arrange import arrange
from warmstart.pipeline.final_model import WEIGHT_AVERAGE, FinalModel, choose_final, copy_weights
from warmstart.pipeline.fingerprint import identity
from warmstart.pipeline.forgetting_monitor import ForgettingMonitor, make_monitor
from warmstart.pipeline.frozen_features import FeatureWriter, check_slices
from warmstart.pipeline.frozen_layers import store_states
from warmstart.pipeline.linear_probe import ProbedHead, ProbeStart, check_probe
from warmstart.pipeline.model_start import PROBE, load_start, reused_config, window_of
from warmstart.pipeline.prepare import Parts, RowEncoder, fit_task
from warmstart.pipeline.saved_model import save
from warmstart.pipeline.stage_store import Identity
from warmstart.pipeline.time_limit import limit_steps
from warmstart.pipeline.token_probe import TokenProbeStart
from warmstart.recipe import Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import checksum, publish, verify
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import (
    ArrangesRows,
    KnowsTrainingRows,
    TunesOnDev,
)
from warmstart.tasks.shared.token_probe import has_token_probe
from warmstart.text.windows import Truncation, Window
from warmstart.training.callbacks.early_stopping import OnEvaluate
from warmstart.training.callbacks.step_monitor import StepMonitor
from warmstart.training.checkpoints import CheckpointPolicy, CheckpointStore, check_identity
from warmstart.training.history import TrainingResult
from warmstart.training.job import TrainingHooks, TrainingJob
from warmstart.training.settings import NT_ASGD, Settings
from warmstart.training.streams import as_stream
from warmstart.training.train import check_training, train

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class PreparedTraining:
    """All that a training needs, opened and checked."""

    settings: Settings
    task: AnyTask
    tokenizer: PreTrainedTokenizerBase
    window: Window
    loaded: LoadedModel
    rows: Dataset
    """The encoded training rows."""
    truncation: Truncation
    """How much of the text the window truncated."""
    identity: Identity
    train: Table
    """The training rows before they were encoded."""
    dev: Table | None
    """Rows for choices made during training."""
    lora: bool
    frozen: bool
    """Whether the encoder is frozen, and the head trained on its features."""
    features: Path
    """Where features of the encoder as it is before training are stored, where they are needed."""
    probe: bool
    """Whether the head starts from a linear probe."""
    refit: bool
    """Whether the head is solved once more after training."""
    stage: str
    """The stage's folder in the run."""
    final_model: str
    """As in the recipe; `dev` where there are dev rows to choose it by."""
    time_limit: float | None = None
    """As in the recipe."""
    started: float = field(default_factory=time.monotonic)
    """When work on the run began."""
    rules: Sequence[RuleRecord] = ()
    """What rules decided of the recipe."""
    choice: FinalModelRecord | None = None
    """How the final model was chosen before this training."""
    monitor: ForgettingMonitor | None = None
    """Measures what the encoder forgets, where the recipe asks for it."""
    test: Table | None = None
    """Rows that baselines are measured on, beside the model."""

    @property
    def predictor(self) -> Predictor:
        """The model as it is now."""
        engine = TorchEngine(self.loaded.model, self.settings.precision)
        return Predictor(engine, self.tokenizer, self.task, self.window)

    @property
    def is_solved(self) -> bool:
        """Whether nothing is left to train: the head is the probe's solution, and no length of training is set."""
        return self.frozen and self.probe and self.settings.epochs is None and self.settings.max_steps is None

    @property
    def probe_answers_test(self) -> bool:
        """Whether the probe is measured on test rows: it is not the model itself, and reads no long texts in slices."""
        return self.probe and not self.is_solved and self.test is not None and self.window.method != "slices"

    @property
    def has_choice(self) -> bool:
        """Whether the weights before training count for the model that the run ends with."""
        return self.probe and not self.is_solved and self.final_model in {"dev", WEIGHT_AVERAGE}

    def window_record(self) -> WindowRecord:
        """The window, and what it truncated."""
        return WindowRecord.of(self.window, self.truncation)


def prepare_training(
    recipe: Recipe, parts: Parts, work: Path, progress: Progress, number: int = 1, cache: Path | None = None
) -> PreparedTraining:
    """Open the encoder and fit the task to the rows, so that errors come before the run's folder is written.

    Args:
        work: A folder for files that are not needed afterwards.
        number: Which of the run's stages this is.
        cache: A folder for what other runs can use as well; None to use `work`.
    """
    started = time.monotonic()
    config = load_config(recipe.model)
    tokenizer = load_tokenizer(recipe.model)
    task = fit_task(recipe, parts, reused_config(recipe, config))
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    # The head is initialized here, so the seed is set here.
    transformers.set_seed(recipe.seed if recipe.init_seed is None else recipe.init_seed)
    frozen = recipe.layers.freeze == "encoder"
    loaded = load_start(recipe, config, task, tokenizer, window)
    if recipe.head.init == PROBE:
        check_probe(task)
    if frozen or recipe.head.init == PROBE:
        check_slices(loaded.model, task, window)
    train_rows, path = parts.tables["train"], work / "train.arrow"
    if isinstance(task, ArrangesRows) and task.arranges_rows:
        untrained = TorchEngine(task.embedding_model(loaded.model), recipe.training.precision)
        embedder = Predictor(untrained, tokenizer, task, window)
        train_rows = arrange(train_rows, embedder, work / "arranged.arrow", parts.findings, recipe.seed)
    rows, truncation = RowEncoder(task, tokenizer, window).encode(train_rows, path, progress, parts.findings)
    if isinstance(task, KnowsTrainingRows):
        task.read_training_rows(rows)
    settings, read = settings_of(recipe), as_stream(task, rows)
    check_training(TrainingJob(loaded.model, task, tokenizer, read, settings), has_dev="dev" in parts.tables)
    monitor = None
    if recipe.forgetting is not None and processes.is_main_process():
        monitor = make_monitor(recipe, recipe.forgetting, cache or work, parts.findings, progress)
    return PreparedTraining(
        settings,
        task,
        tokenizer,
        window,
        loaded,
        rows,
        truncation,
        identity(recipe, parts, checksum(path)["sha256"]),
        train_rows,
        dev=parts.tables.get("dev"),
        lora=recipe.layers.lora is not None,
        frozen=frozen,
        features=work / "features.arrow",
        probe=recipe.head.init == PROBE,
        refit=bool(recipe.head.refit),
        stage=f"stages/{number:02d}-finetune",
        final_model=recipe.training.final_model,
        time_limit=recipe.training.time_limit,
        started=started,
        monitor=monitor,
        test=parts.tables.get("test"),
    )


def check_before_stages(recipe: Recipe, parts: Parts) -> None:
    """Refuse rows and a window that the fine-tuning would refuse, before the stages that lead to it are trained."""
    task = fit_task(recipe, parts)
    if recipe.model:
        window_of(recipe, load_config(recipe.model), load_tokenizer(recipe.model), task)


def _measure(ready: PreparedTraining, dev: Table) -> Callable[[], float]:
    """Measures the model as it is now on the dev rows, by the task's headline."""

    def measure() -> float:
        metrics = evaluate(ready.predictor, dev)
        # NT-ASGD watches the perplexity of a language model, as in the paper; of another model its headline.
        by_loss = ready.settings.optimizer == NT_ASGD and "loss" in metrics
        value = metrics["loss" if by_loss else ready.task.headline]
        return math.nan if value is None else -float(value) if by_loss else float(value)

    return measure


def _monitoring(ready: PreparedTraining) -> StepMonitor | None:
    """The callback that measures what the encoder forgets, with the score on the dev rows where there are any."""
    if ready.monitor is None:
        return None
    if ready.dev is None:
        return ready.monitor.callback(ready.loaded.model)
    measure = _measure(ready, ready.dev)
    return ready.monitor.callback(ready.loaded.model, lambda: {ready.task.headline: measure()})


def saving_of(recipe: Recipe, ready: PreparedTraining, folder: Path, anyway: Iterable[str] = ()) -> CheckpointPolicy:
    """Where and when to save checkpoints, after checking that those in the folder are of the same training."""
    checkpoints = CheckpointStore(
        folder / "checkpoints", ready.identity, recipe.checkpoints.keep_last, frozenset(anyway)
    )
    stage = folder / ready.stage
    if stage.exists():
        check_identity(stage, verify(stage).get("identity"), ready.identity, anyway)
    else:
        checkpoints.newest()
    keep = recipe.checkpoints.when_finished == "keep"
    return CheckpointPolicy(
        checkpoints, recipe.checkpoints.every_steps, recipe.checkpoints.every_minutes, save_last=keep
    )


def finetune(
    ready: PreparedTraining,
    saving: CheckpointPolicy,
    folder: Path,
    progress: Progress,
    measured: OnEvaluate | None = None,
) -> None:
    """Train on the training rows; publish the model and the stage's records into the run's folder.

    A finished stage is reused as it is; one that was stopped resumes from its newest checkpoint. `measured` is called
    with the headline on dev after every epoch but the last; what it raises ends the training.
    """
    if (folder / ready.stage).exists():
        progress.log(f"{ready.stage} is finished; reused")
        saving.end()  # a kill may have come before
        return
    task, tokenizer, loaded = ready.task, ready.tokenizer, ready.loaded
    if processes.is_main_process():
        # A model without its stage is from a run that was stopped between the two, and is written again.
        shutil.rmtree(folder / "model", ignore_errors=True)
    rows, probed = _features(ready, folder, progress)
    monitoring = _monitoring(ready)
    first = monitoring.measure() if monitoring else {}
    before = copy_weights(loaded.model) if ready.has_choice else {}
    measure = _measure(ready, ready.dev) if ready.dev is not None else None
    hooks = TrainingHooks(measure, measured, monitoring)
    trained = _train(ready, rows, probed, saving, folder, progress, hooks)
    if not processes.is_main_process():
        return
    if ready.lora:
        merge_lora(loaded.model)
    if ready.refit and probed is not None and trained.steps:
        probed.start.refit(probed.record, progress)
    final = None
    if before and probed is not None:
        final = FinalModel(loaded.model, before, copy_weights(loaded.model), probed.start, probed.record)
    choice = _end_training(ready, final, progress)
    if isinstance(task, TunesOnDev) and task.tunes_on_dev and ready.dev is not None:
        task = task.tune(*predict_rows(ready.predictor, ready.dev, progress))
    save(loaded.model, tokenizer, task, ready.window, folder / "model")
    with publish(folder / ready.stage, {"identity": ready.identity}) as staging:
        write_record(_record(ready, trained, probed.record if probed else None, choice), staging / training_record.FILE)
        if monitoring and ready.monitor:
            forgotten = ready.monitor.record(monitoring, first, trained.steps)
            write_record(forgotten, staging / forgetting_record.FILE)
    saving.end()


def _train(
    ready: PreparedTraining,
    rows: Dataset,
    probed: ProbedHead | None,
    saving: CheckpointPolicy,
    folder: Path,
    progress: Progress,
    hooks: TrainingHooks,
) -> TrainingResult:
    """Train on the rows, for as long as the time limit allows."""
    read = as_stream(ready.task, rows)
    job = TrainingJob(ready.loaded.model, ready.task, ready.tokenizer, read, ready.settings, ready.train.location)
    untrained = ready.is_solved
    if not untrained and not ready.lora:
        job = store_states(job, ready.features.with_name("states.arrow"), progress)
    if ready.time_limit is not None and not untrained:
        spent = time.monotonic() - ready.started
        steps = limit_steps(job, ready.time_limit, spent, probed is not None, folder, progress).steps
        job, untrained = replace(job, settings=replace(job.settings, max_steps=steps or None)), not steps
    if untrained:
        precision = resolve_precision(ready.settings.precision, ready.loaded.model.config)
        return TrainingResult(0, probed.record.seconds if probed else 0.0, precision, [], [])
    if probed is not None:
        probed.start.begin(folder)
    # What the Trainer itself writes, such as a tracker's logs, stays with the run.
    return train(job, folder / "trainer", progress, saving, hooks)


def _features(ready: PreparedTraining, folder: Path, progress: Progress) -> tuple[Dataset, ProbedHead | None]:
    """The rows to train on, with their features if the encoder is frozen, and the probe that the head starts from."""
    rows = ready.rows
    writer = FeatureWriter(ready.loaded.model, ready.task, ready.tokenizer, ready.settings.precision)
    if ready.frozen:
        with processes.main_process_first():
            rows = writer.write(rows, ready.features, progress)
    if not ready.probe:
        return rows, None
    features = rows if ready.frozen else None
    given = writer, ready.train, ready.rows, features, ready.features, ready.settings.seed, ready.window, ready.test
    kind = TokenProbeStart if has_token_probe(ready.task) else ProbeStart
    start = kind(*given, answers_test=ready.probe_answers_test)
    return rows, ProbedHead(start, start.solve(folder, progress))


def _end_training(ready: PreparedTraining, final: FinalModel | None, progress: Progress) -> FinalModelRecord | None:
    """Make the trained model the one that the run ends with, and give the choice where it was made here."""
    if ready.final_model == "dev" and ready.dev is not None and not ready.is_solved:
        record = choose_final(ready.predictor, ready.dev, final, progress)
        progress.log(record.sentence)
        return record
    if final is not None:
        final.use(ready.final_model, progress)
    return ready.choice


def _record(
    ready: PreparedTraining, trained: TrainingResult, probe: ProbeRecord | None, choice: FinalModelRecord | None
) -> TrainingRecord:
    loaded = ready.loaded
    return TrainingRecord(
        steps=trained.steps,
        seconds=round(trained.seconds, 3),
        precision=trained.precision,
        window=ready.window_record(),
        new_parameters=list(loaded.new_parameters),
        unused_tensors=list(loaded.unused_tensors),
        layers=[group.name if group.parameters else "" for group in LayerMap.of(loaded.model).groups],
        history=trained.history,
        measured=[
            {"epoch": entry["epoch"], "step": entry["step"], "value": entry["value"]} for entry in trained.evaluations
        ],
        linear_probe=probe,
        final_model=choice,
        rules=list(ready.rules),
        dropout_kernel=trained.dropout_kernel,
        cached_blocks=trained.cached_blocks,
    )


def settings_of(recipe: Recipe) -> Settings:
    """The recipe's training settings as plain arguments."""
    layers = recipe.layers.model_dump(include={"lr_decay", "freeze", "cache_frozen", "unfreeze", "unfreeze_every"})
    if layers["freeze"] == "encoder":  # its parameters are frozen when the model is loaded
        layers["freeze"] = 0
    return Settings(
        **recipe.training.for_trainer(),
        **layers,
        lr_schedule_per_phase=recipe.layers.schedules_phases,
        head_learning_rate=recipe.head.learning_rate,
        seed=recipe.seed,
        trainer=recipe.trainer,
    )
