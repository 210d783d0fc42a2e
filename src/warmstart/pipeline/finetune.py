"""The finetune stage: an encoder and a new head are trained for one task on labelled rows."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import transformers

from warmstart import tasks
from warmstart.data.table import Table
from warmstart.errors import Location, RecipeError
from warmstart.evaluation.evaluate import evaluate, predict_rows
from warmstart.evaluation.records import forgetting as forgetting_record
from warmstart.evaluation.records import training as training_record
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.records.training import TrainingRecord, WindowRecord
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.models.added_tokens import add_tokens, resize_embeddings
from warmstart.models.heads.selection import HeadChoice
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import (
    LoadedModel,
    has_head,
    load_config,
    load_model,
    load_tokenizer,
    max_tokens_of,
    quiet_transformers,
)
from warmstart.models.lora import add_lora, merge_lora
from warmstart.models.pooling import MARKED_POOLINGS
from warmstart.models.reinit import reinitialize
from warmstart.pipeline.arrange import arrange
from warmstart.pipeline.fingerprint import identity
from warmstart.pipeline.forgetting_monitor import ForgettingMonitor, make_monitor
from warmstart.pipeline.frozen_features import FeatureWriter, check_slices
from warmstart.pipeline.prepare import Parts, RowEncoder, fit_task
from warmstart.pipeline.stage_store import Identity
from warmstart.recipe import HeadOptions, LayerOptions, Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import checksum, publish, verify
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import (
    ArrangesRows,
    ExtendsModel,
    KnowsTrainingRows,
    ReadsWindows,
    TunesOnDev,
    WritesLibraryFiles,
    extended_model,
)
from warmstart.tasks.shared.saved_task import SavedTask
from warmstart.text.windows import DEFAULT_TOKENS, Frame, Truncation, Window
from warmstart.training.callbacks.early_stopping import OnEvaluate
from warmstart.training.callbacks.step_monitor import StepMonitor
from warmstart.training.checkpoints import CheckpointPolicy, CheckpointStore, check_identity
from warmstart.training.job import TrainingHooks, TrainingJob
from warmstart.training.settings import Settings
from warmstart.training.train import check_training, train

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


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
    location: Callable[[int], Location]
    """Where a training row came from."""
    dev: Table | None
    """Rows for choices made during training."""
    lora: bool
    features: Path | None
    """Where the features of a frozen encoder are stored; None where it is trained."""
    stage: str
    """The stage's folder in the run."""
    monitor: ForgettingMonitor | None = None
    """Measures what the encoder forgets, where the recipe asks for it."""

    @property
    def predictor(self) -> Predictor:
        """The model as it is now."""
        engine = TorchEngine(self.loaded.model, self.settings.precision)
        return Predictor(engine, self.tokenizer, self.task, self.window)

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
    config = load_config(recipe.model)
    tokenizer = load_tokenizer(recipe.model)
    task = fit_task(recipe, parts, _reused_config(recipe, config))
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    # The head is initialized here, so the seed is set here.
    transformers.set_seed(recipe.seed if recipe.init_seed is None else recipe.init_seed)
    frozen = recipe.layers.freeze == "encoder"
    head = head_choice(recipe, config, window, task)
    loaded = load_model(recipe.model, task.auto_class, task.config_kwargs(), tokenizer, head)
    if task.new_tokens:
        resize_embeddings(loaded.model, tokenizer)
    loaded = _start(
        replace(loaded, model=extended_model(task, loaded.model, _reused_folder(recipe, config))),
        recipe.layers,
        recipe.head,
    )
    if frozen:
        check_slices(loaded.model, task, window)
    train_rows, path = parts.tables["train"], work / "train.arrow"
    if isinstance(task, ArrangesRows) and task.arranges_rows:
        untrained = TorchEngine(task.embedding_model(loaded.model), recipe.training.precision)
        embedder = Predictor(untrained, tokenizer, task, window)
        train_rows = arrange(train_rows, embedder, work / "arranged.arrow", parts.findings, recipe.seed)
    encoder = RowEncoder(task, tokenizer, window)
    rows, truncation = encoder.encode(train_rows, path, progress, parts.findings)
    if isinstance(task, KnowsTrainingRows):
        task.read_training_rows(rows)
    settings = settings_of(recipe)
    check_training(TrainingJob(loaded.model, task, tokenizer, rows, settings), has_dev="dev" in parts.tables)
    identity_ = identity(recipe, parts, checksum(path)["sha256"])
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
        identity_,
        train_rows.location,
        dev=parts.tables.get("dev"),
        lora=recipe.layers.lora is not None,
        features=work / "features.arrow" if frozen else None,
        stage=f"stages/{number:02d}-finetune",
        monitor=monitor,
    )


def check_before_stages(recipe: Recipe, parts: Parts) -> None:
    """Refuse rows and a window that the fine-tuning would refuse, before the stages that lead to it are trained."""
    task = fit_task(recipe, parts)
    if recipe.model:
        window_of(recipe, load_config(recipe.model), load_tokenizer(recipe.model), task)


def build_model(recipe: Recipe, task: AnyTask, tokenizer: PreTrainedTokenizerBase, window: Window) -> PreTrainedModel:
    """The model as training starts from it, but with random weights: to count what it costs before it is loaded."""
    head = head_choice(recipe, load_config(recipe.model), window, task)
    loaded = load_model(recipe.model, task.auto_class, task.config_kwargs(), tokenizer, head, weights=False)
    if task.new_tokens:
        resize_embeddings(loaded.model, tokenizer)
    return _start(replace(loaded, model=extended_model(task, loaded.model, None)), recipe.layers, recipe.head).model


def head_choice(recipe: Recipe, config: PretrainedConfig, window: Window, task: AnyTask) -> HeadChoice:
    """The head that the recipe asks for, or the task where it has its own."""
    pooling, own = recipe.head.pooling, task.pooling
    if own != "auto" and pooling != "auto":
        raise RecipeError(f"head.pooling: found {pooling}, but {task.name} sets the pooling by its own options")
    if (
        own == "auto"
        and _reused_config(recipe, config) is not None
        and getattr(config, "pooling", None) in MARKED_POOLINGS
    ):
        raise RecipeError(
            "head.reuse: the model's head reads marked entities, as for relate; set head.reuse: false for a new one"
        )
    slices = recipe.window.slice_pooling if window.method == "slices" and not isinstance(task, ReadsWindows) else None
    # A stock head cannot be given stored features.
    frozen = recipe.layers.freeze == "encoder"
    head = "linear" if frozen and recipe.head.type == "auto" else recipe.head.type
    return HeadChoice(recipe.head.layers, own if pooling == "auto" else pooling, head, slices, recipe.head.reuse)


def _start(loaded: LoadedModel, layers: LayerOptions, head: HeadOptions) -> LoadedModel:
    """The model as training starts from it: parts of it re-initialized, LoRA added to its weights."""
    changed = reinitialize(loaded.model, layers.reinit_top, layers.reinit_norms, head.init)
    if layers.lora:
        add_lora(loaded.model, layers.lora.rank, layers.lora.alpha, layers.lora.dropout)
    if layers.freeze == "encoder":
        loaded.model.encoder.requires_grad_(False)
    return replace(loaded, new_parameters=tuple(sorted({*loaded.new_parameters, *changed})))


def _measure(ready: PreparedTraining, dev: Table) -> Callable[[], float]:
    """Measures the model as it is now on the dev rows, by the task's headline."""

    def measure() -> float:
        value = evaluate(ready.predictor, dev)[ready.task.headline]
        return math.nan if value is None else float(value)

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
        return
    task, tokenizer, loaded = ready.task, ready.tokenizer, ready.loaded
    if processes.is_main_process():
        # A model without its stage is from a run that was stopped between the two, and is written again.
        shutil.rmtree(folder / "model", ignore_errors=True)
    rows = ready.rows
    if ready.features is not None:
        with processes.main_process_first():
            writer = FeatureWriter(loaded.model, task, tokenizer, ready.settings.precision)
            rows = writer.write(rows, ready.features, progress)
    # What the Trainer itself writes, such as a tracker's logs, stays with the run.
    own = folder / "trainer"
    monitoring = _monitoring(ready)
    first = monitoring.measure() if monitoring else {}
    job = TrainingJob(loaded.model, task, tokenizer, rows, ready.settings, ready.location)
    measure = _measure(ready, ready.dev) if ready.dev is not None else None
    trained = train(job, own, progress, saving, TrainingHooks(measure, measured, monitoring))
    if not processes.is_main_process():
        return
    if ready.lora:
        merge_lora(loaded.model)
    if isinstance(task, TunesOnDev) and ready.dev is not None:
        task = task.tune(*predict_rows(ready.predictor, ready.dev, progress))
    save(loaded.model, tokenizer, task, ready.window, folder / "model")
    record = TrainingRecord(
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
    )
    with publish(folder / ready.stage, {"identity": ready.identity}) as staging:
        write_record(record, staging / training_record.FILE)
        if monitoring and ready.monitor:
            forgotten = ready.monitor.record(monitoring, first, trained.steps)
            write_record(forgotten, staging / forgetting_record.FILE)
    if not saving.save_last:
        shutil.rmtree(saving.checkpoints.folder, ignore_errors=True)


def settings_of(recipe: Recipe) -> Settings:
    """The recipe's training settings as plain arguments."""
    layers = recipe.layers.model_dump(include={"lr_decay", "freeze", "unfreeze", "unfreeze_every"})
    if layers["freeze"] == "encoder":  # its parameters are frozen when the model is loaded
        layers["freeze"] = 0
    return Settings(
        **recipe.training.model_dump(),
        **layers,
        lr_schedule_per_phase=recipe.layers.schedules_phases,
        head_learning_rate=recipe.head.learning_rate,
        seed=recipe.seed,
        trainer=recipe.trainer,
    )


def window_of(recipe: Recipe, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase, task: AnyTask) -> Window:
    """The recipe's window, refusing one that is wider than the encoder takes or leaves no room for text."""
    options, most = recipe.window, max_tokens_of(config, tokenizer)
    tokens = options.max_tokens or min(most, DEFAULT_TOKENS)
    if tokens > most:
        raise RecipeError(f"window.max_tokens: found {tokens}, but {recipe.model} takes at most {most}")
    method, overlap = options.method, options.overlap or 0
    if method not in task.window_methods:
        raise RecipeError(f"window.method: found {method}, but {task.name} takes {', '.join(task.window_methods)}")
    if isinstance(task, ReadsWindows):
        if method not in {"head", "slices"} or options.max_slices or options.slice_pooling != "mean":
            raise RecipeError(f"window: {task.name} sees all of a text, window by window; set max_tokens and overlap")
        method, overlap = "slices", int(tokens * task.window_overlap) if options.overlap is None else options.overlap
    try:
        window = Window(tokens, method, options.head_tokens, overlap, options.max_slices)
        window.check(Frame.of(tokenizer, task.pair), task.pair)
    except ValueError as error:
        raise RecipeError(f"window.{error}") from None
    return window


def save(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: AnyTask, window: Window, folder: Path
) -> None:
    """Publish a folder that opens in plain `transformers` and in `warmstart.load`."""
    with publish(folder) as staging, quiet_transformers():
        plain = task.plain_model(model) if isinstance(task, ExtendsModel) else model
        plain.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        if isinstance(task, WritesLibraryFiles):
            task.write_library_files(model, window, staging)
        SavedTask.of(task, window).write(staging)


def _reused_folder(recipe: Recipe, config: PretrainedConfig) -> Path | None:
    """The folder whose head is reused, with what the task added to it."""
    return Path(recipe.model) if _reused_config(recipe, config) is not None and Path(recipe.model).is_dir() else None


def _reused_config(recipe: Recipe, config: PretrainedConfig) -> PretrainedConfig | None:
    """The config of the head that is reused; None where the head is new."""
    options = tasks.options_of(recipe.task.name, recipe.task.options)
    auto_class = tasks.find(recipe.task.name).auto_class_for(options)
    return config if recipe.head.reuse and has_head(config, auto_class) else None
