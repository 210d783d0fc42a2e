"""The finetune stage: an encoder and a new head learn one task from labelled rows."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import transformers

from warmstart import tasks
from warmstart.data.table import Table
from warmstart.errors import RecipeError
from warmstart.evaluation.evaluate import answers, evaluate
from warmstart.inference.engines.pytorch import Torch
from warmstart.inference.predictor import Predictor
from warmstart.models.added_tokens import add_tokens, widen
from warmstart.models.heads.selection import PoolingChoice
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import Loaded, has_head, load_config, load_encoder, load_tokenizer, most_tokens, quietly
from warmstart.models.lora import add_lora, merge_lora
from warmstart.models.pooling import MARKED
from warmstart.models.reinit import reinitialize
from warmstart.pipeline.arrange import arrange
from warmstart.pipeline.fingerprint import identity
from warmstart.pipeline.forgetting_monitor import FILE as MEMORY
from warmstart.pipeline.forgetting_monitor import Memory, make_memory
from warmstart.pipeline.frozen_features import check_slices, keep_features
from warmstart.pipeline.prepare import Parts, encode, fit_task
from warmstart.recipe import Head, Layers, Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import describe, publish, verify, write_json
from warmstart.tasks.base import Task
from warmstart.tasks.shared.task_config import save_task
from warmstart.text.windows import DEFAULT_TOKENS, Frame, Window
from warmstart.training.callbacks.early_stopping import Measured
from warmstart.training.callbacks.watching import Watching
from warmstart.training.checkpoints import Checkpoints, check_identity
from warmstart.training.settings import Settings
from warmstart.training.trainer import Saving, check, train


@dataclass(frozen=True)
class Ready:
    """All that a training needs, opened and found to fit together."""

    settings: Settings
    task: Task[Any]
    tokenizer: Any
    window: Window
    loaded: Loaded
    rows: Any
    """The encoded training rows."""
    cut: dict[str, Any]
    """How much of the text the window cut."""
    identity: dict[str, Any]
    where: Callable[[int], str]
    dev: Table | None
    """Rows for choices made during training."""
    lora: bool
    kept: Path | None
    """Where the features of an encoder that is held still are kept; None where it learns."""
    stage: str
    """The stage's folder in the run."""
    memory: Memory | None = None
    """What is asked of the encoder before and after, where the recipe wants to know what it forgets."""


def make_ready(
    recipe: Recipe, parts: Parts, work: Path, progress: Progress, number: int = 1, cache: Path | None = None
) -> Ready:
    """Open the encoder and fit the task to the rows, so that what is wrong is said before the run's folder is laid out.

    Args:
        work: A folder for files that are not needed afterwards.
        number: Which of the run's stages this is.
        cache: A folder for what other runs can use as well; None for `work`.
    """
    config = load_config(recipe.model)
    tokenizer = load_tokenizer(recipe.model)
    task = fit_task(recipe, parts, _saved(recipe, config))
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    # The head's first weights are drawn here, so the seed is set here.
    transformers.set_seed(recipe.seed if recipe.init_seed is None else recipe.init_seed)
    frozen = recipe.layers.freeze == "encoder"
    pooling = _pooling(recipe, config, window, task)
    loaded = load_encoder(recipe.model, task.auto_class, task.config(), tokenizer, recipe.head.reuse, pooling)
    if task.new_tokens:
        widen(loaded.model, tokenizer)
    loaded = _start(replace(loaded, model=task.ready(loaded.model, _kept(recipe, config))), recipe.layers, recipe.head)
    if frozen:
        check_slices(loaded.model, task, window)
    train_rows, path = parts.tables["train"], work / "train.arrow"
    if task.arranges:
        untrained = Torch(task.embedder(loaded.model), recipe.training.precision)
        embedder = Predictor(untrained, tokenizer, task, window)
        train_rows = arrange(train_rows, embedder, work / "arranged.arrow", parts.findings, recipe.seed)
    rows, cut = encode(train_rows, task, tokenizer, window, path, progress, parts.findings)
    settings = settings_of(recipe)
    check(loaded.model, task, rows, settings, measured="dev" in parts.tables)
    same = identity(recipe, parts, describe(path)["sha256"])
    dev, lora = parts.tables.get("dev"), recipe.layers.lora is not None
    kept = work / "features.arrow" if frozen else None
    stage = f"stages/{number:02d}-finetune"
    memory = None
    if recipe.forgetting is not None and processes.is_main():
        memory = make_memory(recipe, recipe.forgetting, cache or work, parts.findings, progress)
    where = train_rows.where
    return Ready(settings, task, tokenizer, window, loaded, rows, cut, same, where, dev, lora, kept, stage, memory)


def check_ahead(recipe: Recipe, parts: Parts) -> None:
    """Refuse rows and a window that the fine-tuning would refuse, before the stages that lead to it are begun."""
    task = fit_task(recipe, parts)
    if recipe.model:
        window_of(recipe, load_config(recipe.model), load_tokenizer(recipe.model), task)


def build(recipe: Recipe, task: Task[Any], tokenizer: Any, window: Window) -> Any:
    """The model as training would find it, but with random weights: to count what it costs before it is loaded."""
    pooling = _pooling(recipe, load_config(recipe.model), window, task)
    loaded = load_encoder(
        recipe.model, task.auto_class, task.config(), tokenizer, recipe.head.reuse, pooling, weights=False
    )
    if task.new_tokens:
        widen(loaded.model, tokenizer)
    return _start(replace(loaded, model=task.ready(loaded.model, None)), recipe.layers, recipe.head).model


def _pooling(recipe: Recipe, config: Any, window: Window, task: Task[Any]) -> PoolingChoice:
    """What the head is to read: as the recipe says, or the task where it is the task's business."""
    said, own = recipe.head.pooling, task.tokens
    if own != "auto" and said != "auto":
        raise RecipeError(f"head.pooling: found {said}, but what a head of {task.name} reads is said by its options")
    if own == "auto" and _saved(recipe, config) is not None and getattr(config, "tokens", None) in MARKED:
        raise RecipeError(
            "head.reuse: the model's head reads marked entities, as for relate; set head.reuse: false for a new one"
        )
    slices = recipe.window.slice_pooling if window.method == "slices" and not task.own_windows else None
    # A stock head has no place to hand kept features to.
    frozen = recipe.layers.freeze == "encoder"
    head = "linear" if frozen and recipe.head.type == "auto" else recipe.head.type
    return PoolingChoice(recipe.head.layers, own if said == "auto" else said, slices, head)


def _start(loaded: Loaded, layers: Layers, head: Head) -> Loaded:
    """The model as training is to find it: parts of it drawn anew, LoRA beside its weights."""
    changed = reinitialize(loaded.model, layers.reinit_top, layers.reinit_norms, head.init)
    if layers.lora:
        add_lora(loaded.model, layers.lora.rank, layers.lora.alpha, layers.lora.dropout)
    if layers.freeze == "encoder":
        loaded.model.encoder.requires_grad_(False)
    return replace(loaded, fresh=tuple(sorted({*loaded.fresh, *changed})))


def _measure(ready: Ready, dev: Table) -> Callable[[], float]:
    """How good the model is at present on the dev rows, by the task's headline."""

    def measure() -> float:
        predictor = Predictor(
            Torch(ready.loaded.model, ready.settings.precision), ready.tokenizer, ready.task, ready.window
        )
        found = evaluate(predictor, dev)[ready.task.headline]
        return math.nan if found is None else float(found)

    return measure


def _watching(ready: Ready) -> Watching | None:
    """What looks at the encoder on the way, with the score on the dev rows where there are any."""
    if ready.memory is None:
        return None
    if ready.dev is None:
        return ready.memory.watching(ready.loaded.model)
    measure = _measure(ready, ready.dev)
    return ready.memory.watching(ready.loaded.model, lambda: {ready.task.headline: measure()})


def saving_of(recipe: Recipe, ready: Ready, folder: Path, anyway: Iterable[str] = ()) -> Saving:
    """Where and when the run saves itself, after what is there already was found to be of the same training."""
    checkpoints = Checkpoints(folder / "checkpoints", ready.identity, recipe.checkpoints.keep_last, frozenset(anyway))
    stage = folder / ready.stage
    if stage.exists():
        check_identity(stage, verify(stage).get("identity"), ready.identity, anyway)
    else:
        checkpoints.newest()
    keep = recipe.checkpoints.when_finished == "keep"
    return Saving(checkpoints, recipe.checkpoints.every_steps, recipe.checkpoints.every_minutes, last=keep)


def finetune(ready: Ready, saving: Saving, folder: Path, progress: Progress, measured: Measured | None = None) -> None:
    """Train on the training rows; publish the model and what the stage did into the run's folder.

    A stage that is finished is used as it stands; one that was stopped goes on from its newest checkpoint. `measured`
    is told the headline on dev after every epoch but the last; what it raises ends the training.
    """
    if (folder / ready.stage).exists():
        progress.say(f"{ready.stage} is finished; used as it stands")
        return
    task, tokenizer, window, loaded = ready.task, ready.tokenizer, ready.window, ready.loaded
    if processes.is_main():  # A model without its stage is from a run stopped between the two, and is made again.
        shutil.rmtree(folder / "model", ignore_errors=True)
    rows = ready.rows
    if ready.kept is not None:
        precision = ready.settings.precision
        with processes.main_first():
            rows = keep_features(loaded.model, rows, task, tokenizer, precision, ready.kept, progress)
    # What the Trainer itself writes, such as a tracker's logs, stays with the run.
    own = folder / "trainer"
    watching = _watching(ready)
    first = watching.look() if watching else {}
    trained = train(
        loaded.model,
        task,
        tokenizer,
        rows,
        ready.settings,
        own,
        progress,
        saving,
        ready.where,
        _measure(ready, ready.dev) if ready.dev is not None else None,
        watching,
        measured,
    )
    if not processes.is_main():
        return
    if ready.lora:
        merge_lora(loaded.model)
    if task.tunes and ready.dev is not None:
        predictor = Predictor(Torch(loaded.model, ready.settings.precision), tokenizer, task, window)
        task = task.tune(*answers(predictor, ready.dev, progress))
    save(loaded.model, tokenizer, task, window, folder / "model")
    about = {
        "steps": trained.steps,
        "seconds": round(trained.seconds, 3),
        "precision": trained.precision,
        "window": {**asdict(window), "train": ready.cut},
        "new_parameters": list(loaded.fresh),
        "unused_tensors": list(loaded.unused),
        "layers": [group.name if group.parameters else "" for group in LayerMap.of(loaded.model).groups],
        "history": trained.history,
        "measured": trained.measured,
    }
    with publish(folder / ready.stage, {"identity": ready.identity}) as staging:
        write_json(staging / "history.json", about)
        if watching and ready.memory:
            write_json(staging / MEMORY, ready.memory.told(watching, first, trained.steps))
    if not saving.last:
        shutil.rmtree(saving.checkpoints.folder, ignore_errors=True)


def settings_of(recipe: Recipe) -> Settings:
    """The recipe's training settings as plain arguments."""
    layers = recipe.layers.model_dump(include={"lr_decay", "freeze", "unfreeze", "unfreeze_every"})
    if layers["freeze"] == "encoder":  # its parameters are held still by themselves
        layers["freeze"] = 0
    return Settings(
        **recipe.training.model_dump(),
        **layers,
        head_learning_rate=recipe.head.learning_rate,
        seed=recipe.seed,
        trainer=recipe.trainer,
    )


def window_of(recipe: Recipe, config: Any, tokenizer: Any, task: Task[Any]) -> Window:
    """The recipe's window, refusing one that is wider than the encoder takes or leaves no room for text."""
    said, most = recipe.window, most_tokens(config, tokenizer)
    tokens = said.max_tokens or min(most, DEFAULT_TOKENS)
    if tokens > most:
        raise RecipeError(f"window.max_tokens: found {tokens}, but {recipe.model} takes at most {most}")
    keep, overlap = said.method, said.overlap or 0
    if keep not in task.keeps:
        raise RecipeError(f"window.method: found {keep}, but {task.name} takes {', '.join(task.keeps)}")
    if task.own_windows:
        if keep not in {"head", "slices"} or said.max_slices or said.slice_pooling != "mean":
            raise RecipeError(f"window: {task.name} sees all of a text, window by window; say tokens and overlap")
        keep, overlap = "slices", int(tokens * task.own_overlap) if said.overlap is None else said.overlap
    try:
        window = Window(tokens, keep, said.head_tokens, overlap, said.max_slices)
        window.check(Frame.of(tokenizer, task.pair), task.pair)
    except ValueError as error:
        raise RecipeError(f"window.{error}") from None
    return window


def save(model: Any, tokenizer: Any, task: Task[Any], window: Window, folder: Path) -> None:
    """Publish a folder that opens in plain `transformers` and in `warmstart.load`."""
    with publish(folder) as staging, quietly():
        task.write(model, tokenizer, staging)
        task.hand_off(model, window, staging)
        save_task(task, window, staging)


def _kept(recipe: Recipe, config: Any) -> Path | None:
    """The folder whose head is kept, where what the task added to it lies too."""
    return Path(recipe.model) if _saved(recipe, config) is not None and Path(recipe.model).is_dir() else None


def _saved(recipe: Recipe, config: Any) -> Any:
    """The config of the head that is kept, or None where one is drawn."""
    options = tasks.options_of(recipe.task.name, recipe.task.options)
    auto_class = tasks.find(recipe.task.name).auto_class_for(options)
    return config if recipe.head.reuse and has_head(config, auto_class) else None
