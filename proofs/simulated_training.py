"""Trainings in miniature: their bytes follow from their settings, all else is the pipeline's own code.

`run_recipe` claims, records, resumes, publishes and finishes as ever; what would read rows, open a model, compute or
measure is replaced by a few lines that read and write as many files in the same places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from simulated_disk import ROOT
from warmstart.evaluation import run as run_module
from warmstart.evaluation.records import files as records
from warmstart.evaluation.records.data import DataRecord
from warmstart.evaluation.records.training import TrainingRecord, WindowRecord
from warmstart.pipeline import finetune, multitask, reuse, run_recipe, stage_store
from warmstart.pipeline.earlier_stages import EarlierStage
from warmstart.pipeline.finetune import PreparedTraining
from warmstart.pipeline.multitask_recipes import OWN, PreparedMultitask
from warmstart.pipeline.rules import Decision
from warmstart.pipeline.stage_store import stage_folder
from warmstart.recipe import Recipe, absolute, make_recipe
from warmstart.recipe.multitask import MultitaskOptions
from warmstart.storage.artifacts import publish, verify
from warmstart.storage.files import atomic_file
from warmstart.text.windows import Truncation, Window
from warmstart.training.checkpoints import CheckpointPolicy
from warmstart.training.history import TrainingResult

STEPS = 3
CACHE = Path(ROOT) / "cache"
ROWS = f"{ROOT}/rows.csv"
TODAY = datetime(2026, 1, 1, tzinfo=UTC)
ENVIRONMENT = {"python": "3", "versions": dict.fromkeys(stage_store.VERSIONS, "1"), "threads": 1}


def digest(*parts: object) -> str:
    """Bytes that follow from others."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass
class Promises:
    """What processes were told is done, which no fault may undo afterwards."""

    finished: set[Path] = field(default_factory=set)
    saved: dict[Path, int] = field(default_factory=dict)
    """The step of the newest checkpoint, by folder."""
    broken: list[str] = field(default_factory=list)
    trained: dict[Path, int] = field(default_factory=dict)
    """How often the training of a folder came to its end."""
    attempts: int = 0
    """How often the work was begun."""
    damaged: bool = False
    """An error was met, after which a checkpoint may be passed over."""

    def copy(self) -> Promises:
        return replace(self, finished=set(self.finished), saved=dict(self.saved), broken=[], trained=dict(self.trained))

    def key(self) -> str:
        return f"{sorted(self.finished)} {sorted(self.saved.items())} {self.attempts}"


class Model:
    """A model of a few bytes."""

    def __init__(self, start: str) -> None:
        self.state = start

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pooling").mkdir()
        for name in ("config.json", "model.safetensors", "pooling/config.json"):
            (folder / name).write_text(f"{name} {self.state}", encoding="utf-8")


class Parts:
    """Rows of a recipe, which are none."""

    tables = {"dev": SimpleNamespace(fingerprint="dev", files=(), rows=())}

    findings = ()

    def record(self) -> DataRecord:
        return DataRecord({}, [])


class StandIns:
    """The functions that take the place of those which compute."""

    def __init__(self) -> None:
        self.promises = Promises()

    def prepare_training(self, recipe: Recipe, parts: Any, work: Path, *rest: Any) -> PreparedTraining:
        (work / "train.arrow").write_bytes(b"rows")
        number = rest[1] if len(rest) > 1 else 1
        model = Model(digest(recipe.model and _encoder(recipe.model), settings_key(recipe)))
        return PreparedTraining(
            SimpleNamespace(label_smoothing=0.0),
            SimpleNamespace(loss=lambda smoothing: None),
            None,
            Window(8),
            SimpleNamespace(model=model, new_parameters=(), unused_tensors=()),
            (),
            Truncation(),
            {"recipe": settings_key(recipe)},
            SimpleNamespace(location=None),
            dev=None,
            lora=False,
            frozen=False,
            features=work / "features.arrow",
            probe=False,
            refit=False,
            stage=f"stages/{number:02d}-finetune",
            final_model="last",
            started=0.0,
        )

    def train(self, model: Model, saving: CheckpointPolicy) -> TrainingResult:
        """Steps with a checkpoint after each, from the newest one that is there."""
        store = saving.checkpoints
        path, _ = store.newest()
        step = 0
        if path is not None:
            step, model.state = int(path.name.removeprefix("step-")), (path / "weights").read_text(encoding="utf-8")
        if step < self.promises.saved.get(store.folder, 0) and not self.promises.damaged:
            self.promises.broken.append(f"{store.folder}: resumed from step {step}, but a later one was saved")
        while step < STEPS:
            step, model.state = step + 1, digest(model.state, step)
            if step < STEPS:
                store.save(step, self._writer(model))
                self.promises.saved[store.folder] = step
        return TrainingResult(step, 0.0, "fp32", [], [])

    def _writer(self, model: Model) -> Any:
        def write(folder: Path) -> None:
            (folder / "weights").write_text(model.state, encoding="utf-8")
            (folder / "optimizer").write_text(digest(model.state), encoding="utf-8")

        return write

    def finetune_train(self, ready: Any, rows: Any, probed: Any, saving: Any, folder: Path, *rest: Any) -> Any:
        result = self.train(ready.loaded.model, saving)
        self.promises.trained[folder] = self.promises.trained.get(folder, 0) + 1
        return result

    def multitask_train(self, job: Any, folder: Path, progress: Any, saving: Any, hooks: Any) -> Any:
        return self.train(job.model, saving)

    def save(self, model: Model, tokenizer: Any, task: Any, window: Any, folder: Path) -> None:
        with publish(folder) as staging:
            model.write(staging)

    def save_encoder(self, prepared: Any, encoder: Model, folder: Path) -> None:
        self.save(encoder, None, None, None, folder)

    def make_encoder(self, texts: Any, folder: Path, shape: Any, seed: int) -> None:
        Model(digest("scratch", seed)).write(folder)

    def record(self, ready: Any, trained: Any, *rest: Any) -> TrainingRecord:
        return TrainingRecord(trained.steps, 0.0, "fp32", WindowRecord(8), [], [], [], [], [])

    def evaluate(self, predictor: str, table: Any, path: Path, progress: Any) -> dict[str, float]:
        with atomic_file(path) as staging:
            staging.write_text(f"predictions of {predictor}", encoding="utf-8")
        return {"accuracy": int(predictor[:8], 16) / 16**8, "rows": 1}

    def load(self, folder: Path, *rest: Any) -> str:
        model = folder / "model" if (folder / "model").is_dir() else folder
        verify(model)
        return (model / "model.safetensors").read_text(encoding="utf-8").split()[1]

    def stages_before(self, recipe: Recipe, *rest: Any) -> list[EarlierStage]:
        """The stages of a recipe that asks for some: an encoder from scratch, a pre-training, and two tasks."""
        if recipe.model != "staged":
            return []
        stages: list[EarlierStage] = []
        for name in ("scratch", "pretrain", "multitask"):
            before = str(stages[-1].model) if stages else ""
            identity = {"stage": name, "before": stages[-1].folder.name if stages else ""}
            folder = stage_folder(CACHE / "stages", name, identity)
            own = single(before)
            more: dict[str, Any] = {
                "scratch": {"texts": ()},
                "pretrain": {"recipe": own},
                "multitask": {"tasks": {OWN: own, "other": own}, "options": OPTIONS},
            }[name]
            stages.append(EarlierStage(name, folder, identity, **more))
        return stages

    def prepare_multitask(self, stage: Any, cache: Path, work: Path, progress: Any) -> PreparedMultitask:
        tasks = {name: self.prepare_training(recipe, None, work) for name, recipe in stage.recipes.items()}
        return PreparedMultitask(stage, tasks, dict.fromkeys(tasks, Parts()), {"stage": "multitask"})

    def task_record(self, ready: Any) -> Any:
        return multitask.TaskTrainingRecord(0, WindowRecord(8), [], [])


class TwoTasks(Model):
    """Two tasks on one encoder."""

    def __init__(self, models: dict[str, Model], *_: Any) -> None:
        super().__init__(digest(*(model.state for model in models.values())))
        self.encoder = self

    def current_weights(self) -> dict[str, float]:
        return {}


def _encoder(model: str) -> str:
    """The bytes that a training starts from."""
    path = Path(model) / "model.safetensors"
    return path.read_text(encoding="utf-8") if model.startswith(ROOT) else model


@cache
def single(model: str, rate: float = 1e-5) -> Recipe:
    """A recipe of one training."""
    values = {"model": model or "scratch", "data.train": ROWS, "training.learning_rate": rate}
    values["checkpoints.keep_last"] = 1
    recipe = make_recipe(values, "recipe")
    return recipe.model_copy(update={"from_scratch": FROM_SCRATCH}) if model == "staged" else recipe


OPTIONS = MultitaskOptions.model_validate({"with": ["other.yaml"]})
FROM_SCRATCH = SimpleNamespace(shape={"hidden_size": 8, "num_heads": 2, "num_layers": 1})


def settings_key(recipe: Recipe) -> str:
    """What of a recipe the bytes follow from."""
    return f"{recipe.training.learning_rate} {recipe.training.batch_size} {recipe.seed}"


def once(function: Any) -> Any:
    """A pure function of a recipe, computed once for each."""
    answers: dict[str, Any] = {}

    def answer(recipe: Any, *rest: Any) -> Any:
        key = f"{recipe.model} {settings_key(recipe)}"
        if key not in answers:
            answers[key] = function(recipe, *rest)
        return answers[key]

    return answer


@contextmanager
def in_miniature(own: StandIns) -> Iterator[None]:
    """Replace what computes by the stand-ins."""
    predictor = SimpleNamespace(load=own.load)
    saved_task = SimpleNamespace(read=lambda folder: SimpleNamespace(temperature=1.0))
    yaml = once(lambda recipe: f"model: {recipe.model}\nsettings: {settings_key(recipe)}\n")
    replaced: dict[Any, dict[str, Any]] = {
        run_recipe: {
            "read_rows": lambda *_: Parts(),
            "with_prompts": lambda recipe: (recipe, []),
            "stages_before": own.stages_before,
            "check_before_stages": lambda *_: None,
            "hold_out_queries": lambda start, parts: (parts, None),
            "with_rules": lambda start, parts, config: Decision(start, []),
            "load_config": lambda model: None,
            "prepare_training": own.prepare_training,
            "pair_head_note": lambda model: "",
            "measure_before": lambda *_: None,
            "choose_fusion": lambda *_: None,
            "evaluate": own.evaluate,
            "Predictor": predictor,
            "environment": lambda: ENVIRONMENT,
            "make_encoder": own.make_encoder,
            "EncoderShape": SimpleNamespace,
            "cache_folder": lambda: CACHE,
            "check_trainer_options": lambda options: None,
        },
        finetune: {
            "_features": lambda ready, folder, progress: (ready.rows, None),
            "_train": own.finetune_train,
            "save": own.save,
            "_record": own.record,
        },
        multitask: {
            "prepare_multitask": own.prepare_multitask,
            "MultiTaskModel": TwoTasks,
            "MultiTaskRows": lambda *_: None,
            "TrainingJob": lambda model, *_: SimpleNamespace(model=model),
            "train": own.multitask_train,
            "save": own.save,
            "_save_encoder": own.save_encoder,
            "_task_record": own.task_record,
            "evaluate": own.evaluate,
            "Predictor": predictor,
            "environment": lambda: ENVIRONMENT,
            "absolute": lambda recipe: recipe,
        },
        # The day is in the record of a stage: two sides of a midnight are no fault of a crash.
        stage_store: {"datetime": SimpleNamespace(now=lambda zone: TODAY)},
        reuse: {"SavedTask": saved_task, "finetuning_identity": lambda recipe, parts, last: {"last": last.folder.name}},
        run_module: {"absolute": once(absolute)},
        Recipe: {"yaml": yaml, "repeated": False},
        records: {"TypeAdapter": cache(records.TypeAdapter)},
    }
    with ExitStack() as stack:
        for owner, names in replaced.items():
            for name, value in names.items():
                stack.enter_context(mock.patch.object(owner, name, value))
        yield
