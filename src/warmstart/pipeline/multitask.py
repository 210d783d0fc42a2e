"""The multitask stage: one encoder learns several tasks at once, each with a head of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warmstart.data.findings import Findings
from warmstart.evaluation.evaluate import answers, evaluate
from warmstart.inference.engines.pytorch import Torch
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import quietly
from warmstart.models.shared_encoder import ManyHeads
from warmstart.pipeline.finetune import Ready, save
from warmstart.pipeline.forgetting_monitor import FILE as MEMORY
from warmstart.pipeline.forgetting_monitor import Memory, make_memory
from warmstart.pipeline.multitask_recipes import Together, prepare
from warmstart.pipeline.prepare import Parts, Rows
from warmstart.recipe import Checkpoints as CheckpointOptions
from warmstart.recipe import Forgetting, Multitask, Recipe, absolute
from warmstart.runtime import processes
from warmstart.runtime.environment import environment
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import publish, sweep, verify, write_json, write_text
from warmstart.training.checkpoints import Checkpoints, check_identity
from warmstart.training.task_sampling import Mixed
from warmstart.training.trainer import Saving, train

TRAINED = "trained"
"""What the training did, published when its models are in place."""
TEMPERATURE = 5.0


def multitask(
    recipes: Mapping[str, Recipe],
    options: Multitask,
    folder: Path,
    *,
    cache: Path,
    work: Path,
    seed: int = 0,
    saves: CheckpointOptions = CheckpointOptions(),  # noqa: B008
    trainer: Mapping[str, Any] | None = None,
    rows: Mapping[str, Rows] | None = None,
    progress: Progress = silent,
    resume_anyway: Iterable[str] = (),
    forgetting: Forgetting | None = None,
) -> None:
    """Learn the tasks of several recipes on one encoder, into a folder, or go on with what was stopped there.

    The folder then holds `model/`, the encoder alone; `heads/NAME/`, a complete model of each task, which opens in
    `warmstart predict` and in plain `transformers`; and `metrics.json`, each task measured on its own dev and test.

    Args:
        recipes: The tasks by name, all with the same model. Each says its task, data, window and what its head reads;
            its seed decides what is held out. How to train is said by `options`.
        cache: Where rows are kept as Arrow.
        work: A folder for files that are not needed afterwards.
        seed: Decides the heads' first weights, the order of rows, and dropout.
        saves: When the training saves itself.
        trainer: Passed on to `transformers.TrainingArguments`.
        rows: Rows handed over in Python for tasks by name, which take the place of their files.
        resume_anyway: What may differ from when the stage was stopped, though the model may then differ too.
        forgetting: What to ask the encoder before and after, to see what it forgets.
    """
    main = processes.is_main()
    progress = progress if main else silent
    with processes.main_first():
        stage = prepare(recipes, options, cache, work, seed, trainer or {}, rows or {}, progress)
        saving = _saving(folder, stage.identity, saves, resume_anyway)
        if main:
            _begin(folder, recipes, stage)
    if (folder / TRAINED).exists():
        progress.say(f"{folder.name} is trained; used as it stands")
    else:
        memory = None
        if forgetting is not None and main:
            memory = make_memory(next(iter(recipes.values())), forgetting, cache, Findings(), progress)
        _train(stage, saving, folder, progress, memory)
    with processes.main_first():
        if main and not (folder / "metrics.json").exists():
            write_json(folder / "metrics.json", _measure(folder, stage.parts, progress))


def _saving(folder: Path, identity: dict[str, Any], saves: CheckpointOptions, anyway: Iterable[str]) -> Saving:
    """Where and when the stage saves itself, after what is there already was found to be of the same training."""
    checkpoints = Checkpoints(folder / "checkpoints", identity, saves.keep_last, frozenset(anyway))
    if (folder / TRAINED).exists():
        check_identity(folder / TRAINED, verify(folder / TRAINED).get("identity"), identity, anyway)
    else:
        checkpoints.newest()
    return Saving(checkpoints, saves.every_steps, saves.every_minutes, last=saves.when_finished == "keep")


def _begin(folder: Path, recipes: Mapping[str, Recipe], stage: Together) -> None:
    """Write down what is asked, on what, with what; what a kill left half written goes."""
    (folder / "recipes").mkdir(parents=True, exist_ok=True)
    for place in (folder, folder / "checkpoints", folder / "heads"):
        sweep(place)
    for name, recipe in recipes.items():
        write_text(folder / "recipes" / f"{name}.yaml", absolute(recipe).yaml())
    write_json(folder / "multitask.json", {"seed": stage.seed, **stage.options.model_dump(mode="json")})
    write_json(folder / "environment.json", environment())
    write_json(folder / "data.json", {name: parts.about() for name, parts in stage.parts.items()})


class _Dispatch:
    """What a training asks of several tasks: each batch is of one of them, and goes its way."""

    name = "multitask"
    doubles = False

    def __init__(self, ready: Mapping[str, Ready]) -> None:
        self.ready = ready

    def vary(
        self, features: Sequence[dict[str, Any]], tokenizer: Any, seed: int, epoch: int, epochs: int
    ) -> Sequence[dict[str, Any]]:
        own = self.ready[features[0]["which"]]
        return own.task.vary(features, own.tokenizer, seed, epoch, epochs)

    def counts(self, batch: Mapping[str, Any]) -> dict[str, int]:
        return {}  # a task's loss is one number here, and counts by the rows of its batch

    def collate(self, features: Sequence[dict[str, Any]], tokenizer: Any) -> dict[str, Any]:
        own = self.ready[features[0]["which"]]
        return {**own.task.collate(features, own.tokenizer), "which": features[0]["which"]}

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        return None  # the model has it, since it must know whose it is

    def competing(self, outputs: Any, labels: Any) -> Any:
        raise NotImplementedError


def _train(stage: Together, saving: Saving, folder: Path, progress: Progress, memory: Memory | None) -> None:
    """Train all tasks together; publish each task's model, the encoder alone, and what was done."""
    ready, options = stage.ready, stage.options
    settings = next(iter(ready.values())).settings
    losses = {name: one.task.loss(settings.label_smoothing) for name, one in ready.items()}
    model = ManyHeads({name: one.loaded.model for name, one in ready.items()}, losses, options.loss_weights)
    rows = Mixed({name: one.rows for name, one in ready.items()}, options.sampling, options.temperature or TEMPERATURE)
    if processes.is_main():
        # Models without the record of their training are from a stage stopped between the two.
        for place in (folder / "heads", folder / "model"):
            shutil.rmtree(place, ignore_errors=True)

    def where(row: int) -> str:
        name, own = rows.place(row)
        return ready[name].where(own)

    own, together = folder / "trainer", _Dispatch(ready)
    watching = memory.watching(model) if memory else None
    first = watching.look() if watching else {}
    trained = train(model, together, None, rows, settings, own, progress, saving, where, watch=watching)
    if not processes.is_main():
        return
    for name, one in ready.items():
        _save_head(one, folder / "heads" / name, progress)
    tokenizer = max((one.tokenizer for one in ready.values()), key=len)
    with publish(folder / "model") as staging, quietly():
        model.encoder.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
    about = {
        **{name: value for name, value in asdict(trained).items() if name != "measured"},
        "weights": model.counts(),
        "tasks": {name: _about(one) for name, one in ready.items()},
    }
    with publish(folder / TRAINED, {"identity": stage.identity}) as staging:
        write_json(staging / "history.json", about)
        if memory and watching:
            write_json(staging / MEMORY, memory.told(watching, first, trained.steps))
    if not saving.last:
        shutil.rmtree(saving.checkpoints.folder, ignore_errors=True)


def _save_head(ready: Ready, folder: Path, progress: Progress) -> None:
    """Publish one task's model, with what the task chooses on its dev rows."""
    model, task = ready.loaded.model, ready.task
    if task.tunes and ready.dev is not None:
        predictor = Predictor(Torch(model, ready.settings.precision), ready.tokenizer, task, ready.window)
        task = task.tune(*answers(predictor, ready.dev, progress))
    save(model, ready.tokenizer, task, ready.window, folder)


def _about(ready: Ready) -> dict[str, Any]:
    return {
        "rows": len(ready.rows),
        "window": {**asdict(ready.window), "train": ready.cut},
        "new_parameters": list(ready.loaded.fresh),
        "unused_tensors": list(ready.loaded.unused),
    }


def _measure(folder: Path, parts: Mapping[str, Parts], progress: Progress) -> dict[str, Any]:
    """Each task's model as it was saved, on its dev and test rows."""
    (folder / "predictions").mkdir(exist_ok=True)
    found: dict[str, Any] = {}
    for name, own in parts.items():
        predictor = Predictor.load(folder / "heads" / name)
        found[name] = {
            part: evaluate(predictor, own.tables[part], folder / "predictions" / f"{name}-{part}.parquet", progress)
            for part in ("dev", "test")
            if part in own.tables
        }
    return found
