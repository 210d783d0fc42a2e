"""The calls most people need: `fit`, `load`, `export`, `compare`, `features` and `ask`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from warmstart import tasks
from warmstart.active_learning.ask import AskedRows, ask_rows
from warmstart.active_learning.asked_files import write_asked
from warmstart.data.frames import is_frame, store_frame
from warmstart.data.source import is_data_file
from warmstart.diagnosis.run_inspector import RunInspector
from warmstart.errors import RecipeError
from warmstart.evaluation.file_reading import source_of
from warmstart.evaluation.run import RunFolder
from warmstart.experiments.compare_runs import RunComparison, compare_runs
from warmstart.experiments.encoder_choice import choose_encoder
from warmstart.experiments.evidence import run_repeated
from warmstart.experiments.export_run import export
from warmstart.inference.features import Extractor, Vectors
from warmstart.inference.predictor import Predictor, Text
from warmstart.options import Value, Values, fields_of, name_here
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import SHIPPED, Recipe, load_recipe, make_recipe
from warmstart.recipe.added_rows import added_files
from warmstart.recipe.recipe import LINEAR_PROBE
from warmstart.recipe.run_folder import default_folder
from warmstart.report.model_card import write_card
from warmstart.report.page import write_report
from warmstart.report.run_facts import read_facts
from warmstart.runtime import processes
from warmstart.runtime.notebook_bars import default_progress
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.storage.yaml_files import parse_value
from warmstart.tasks.base import AnyTask

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import polars as pl

Data: TypeAlias = (
    "str | Path | list[str] | pd.DataFrame | pl.DataFrame | datasets.Dataset | Sequence[Mapping[str, object]] "
    "| tuple[Sequence[object], Sequence[object]]"
)
"""Rows: a file, several, or what holds them in memory."""

__all__ = ["Run", "ask", "compare", "default_folder", "export", "features", "fit", "inspect", "load"]


class Run(RunFolder):
    """A finished run, opened from its folder: its metrics, predictions, report and model."""

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report of the run, as one HTML file, and its model card; return the path of the report.

        Args:
            out: The file to write; `report.html` in the run's folder by default.
        """
        return write_report(self.folder, out)


def fit(
    recipe: str | Path | Recipe | None = None,
    *,
    out: str | Path | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    train: Data | None = None,
    dev: Data | None = None,
    test: Data | None = None,
    add: Data | None = None,
    quick: bool = False,
    progress: Progress | None = None,
    resume_anyway: Iterable[str] = (),
    **fields: Value,
) -> Run:
    """Train a model and evaluate it.

    Args:
        recipe: A recipe file, `recipes:NAME` for one that comes with warmstart, or a `Recipe`. Without it, everything
            is given by the other arguments.
        out: The folder of the run; by default `runs/` and the name of the recipe or of the training file.
        text: The column with the text; `pair` and `label` likewise.
        train: The training rows: a file, a pandas or Polars data frame, a `datasets.Dataset`, a list of dicts, or a
            pair `(texts, labels)`; `dev`, `test` and `add`, more training rows of which none is held out, likewise.
            Rows in memory are stored as Parquet in the cache folder, so that the run can read them again.
        quick: Only fit a linear model on the features of the frozen encoder, which takes seconds on small data.
        progress: Where to report progress; by default bars in a notebook, and nothing elsewhere.
        resume_anyway: Settings that may differ when a stopped run in `out` is resumed, as named in the error message.
        fields: Any fields of a recipe: `model=…`, `task="score"`, `training={"learning_rate": 1e-4}`,
            `window={"max_tokens": 128}`. With `model="auto"`, the best of `models=[…]` is taken. A task
            may also be a class of your own.
    """
    progress = progress or default_progress()
    _check_names(fields)
    if "task" in fields:
        fields["task"] = _known_task(fields["task"])
    is_file = isinstance(recipe, str | Path) and not str(recipe).startswith(SHIPPED)
    parts = {"train": train, "dev": dev, "test": test, "add": _added(str(recipe) if is_file else None, add)}
    files = {f"data.{part}": _stored(rows, part) for part, rows in parts.items() if rows is not None}
    columns = {"data.columns.text": text, "data.columns.pair": pair, "data.columns.label": label}
    given = {key: value for key, value in (files | columns).items() if value is not None}
    changes: Values = _with_plain_paths({**fields, **(LINEAR_PROBE if quick else {}), **given})
    if isinstance(recipe, str | Path) and is_data_file(str(recipe)):
        raise RecipeError(f"fit: {recipe} is a data file, not a recipe; pass it as train={str(recipe)!r}")
    if isinstance(recipe, Recipe):
        if changes:
            raise RecipeError(f"fit: a Recipe is complete; put {', '.join(changes)} into it")
        complete = recipe
    else:
        complete = load_recipe(recipe, changes) if recipe is not None else make_recipe(changes, "fit")
    folder = out or default_folder(complete, str(recipe) if is_file else None)
    complete = choose_encoder(complete, folder, progress)
    train_recipe = run_repeated if complete.repeated or complete.select != "best" else run_recipe
    run = Run(train_recipe(complete, folder, progress, resume_anyway=resume_anyway).folder)
    if processes.is_main_process():
        write_card(read_facts(run.folder))
    return run


def _check_names(fields: Values) -> None:
    """Refuse a field by its name in a section or in another library, with how to pass it in Python."""
    problems = []
    for name, value in fields.items():
        here = None if "." in name or name in fields_of(Recipe) else name_here(Recipe, [name])
        if here:
            key, _, implied = here.partition(": ")
            section, *rest = key.split(".")
            value = parse_value(implied) if implied else value
            shown = repr(value) if isinstance(value, bool | int | float) else f'"{implied}"' if implied else "…"
            for inner in reversed(rest):
                shown = f'{{"{inner}": {shown}}}'
            problems.append(f"fit: {name} is called {here} here; in Python, pass {section}={shown}")
    if problems:
        raise RecipeError("\n".join(problems))


def _with_plain_paths(value: Value) -> Value:
    """A value with each `Path` in it as a string, as a recipe has it."""
    if isinstance(value, Mapping):
        return {key: _with_plain_paths(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_paths(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def _stored(rows: Data, part: str) -> Value:
    """The file of rows; those that are in memory are stored first."""
    return store_frame(rows, part, cache_folder() / "frames") if is_frame(rows) else rows


def _added(recipe: str | None, add: Data | None) -> Data | None:
    """The files of added rows, with those that a recipe file adds already."""
    if add is None:
        return None
    stored = _stored(add, "add")
    if isinstance(stored, str | Path):
        return added_files(recipe, [str(stored)])
    return added_files(recipe, list(map(str, stored))) if isinstance(stored, list) else stored


def _known_task(task: Value) -> Value:
    """The task by its name; a class is made known to this process first."""
    if isinstance(task, Mapping):
        return {**task, **({"name": _known_task(task["name"])} if "name" in task else {})}
    return tasks.use(task) if isinstance(task, type) else task


def load(
    path: str | Path,
    precision: str = "fp32",
    engine: str = "torch",
    task: type[AnyTask] | None = None,
    without: str | None = None,
) -> Predictor:
    """Load a run, or its model folder, to predict with it.

    Args:
        path: The run, or its model folder.
        precision: `fp32`, as in plain `transformers`; `bf16`, `fp16`, `int8`, or `auto`.
        engine: The inference engine, `torch` by default; others need `warmstart export` first.
        task: The class that the run was trained with, if no package registers it.
        without: Attention heads and blocks to switch off, such as `3.7,5.*,6`: head 7 of block 3, all heads of block 5,
            and the whole of block 6.
    """
    return Predictor.load(path, precision, engine, task, without)


def compare(runs: Sequence[str | Path]) -> RunComparison:
    """Compare finished runs with the first of them: by how much they differ, and how certain that is.

    Args:
        runs: Runs, runs of several seeds, or folders that contain runs `seed-0`, `seed-1` ….
    """
    return compare_runs(runs)


def ask(
    run: str | Path,
    pool: Data,
    rows: int = 100,
    strategy: str | None = None,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> AskedRows:
    """Choose which unlabelled rows to label next; once they are labelled, `fit(…, add=FILE)` trains on them too.

    Args:
        run: A finished run.
        pool: Unlabelled rows, with the columns of the run's data but for the label: a file, or what holds them in
            memory.
        rows: How many to choose.
        strategy: `entropy`, `margin`, `disagreement`, `coverage`, `mixed` or `random`. None: `mixed`; `margin`
            for a task that reads no `text`, `coverage` for one without probabilities.
        out: The file for the chosen rows: .csv, .jsonl or .parquet, or .json for Label Studio.
    """
    opened = RunFolder(run)
    file = _stored(pool, "pool")
    schema = tasks.schema_of(opened.recipe.task.name, opened.recipe.task.options).without_answers()
    asked = ask_rows(
        opened, source_of(str(run), str(file), {}, schema), rows, strategy, progress=progress or default_progress()
    )
    if out is not None:
        write_asked(asked, Path(out))
    return asked


def inspect(run: str | Path, progress: Progress | None = None, precision: str = "fp32") -> RunInspector:
    """Open a run to look inside its model, by `heads()`, `layers()`, `attention()`, `probe()` and `explain(texts)`.

    Args:
        run: The run, or its model folder.
        precision: What the answers without heads and layers are computed in: `fp32`; or `bf16`, `fp16` or `auto`,
            faster where the hardware has it.
    """
    return RunInspector(run, progress=progress or default_progress(), precision=precision)


def features(
    texts: Iterable[Text],
    model: str | Path,
    layers: str | int = "last",
    pooling: str = "mean",
    *,
    max_tokens: int | None = None,
    window: str | None = None,
    batch_size: int = 64,
    precision: str = "fp32",
) -> Vectors:
    """Embeddings of texts from any layer of an encoder, as one array of shape (texts, width).

    If the vectors do not fit into memory, use `Extractor`, whose `stream` yields a few at a time.

    Args:
        texts: Texts, or pairs of them.
        model: The encoder: a folder, a name on the Hugging Face Hub, or a run.
        layers: As in `Extractor`; `all` returns an array of shape (texts, layers, width).
        pooling: As in `Extractor`.
        max_tokens: As in `Extractor.load`, like `window` and `precision`.
        batch_size: The maximum number of inputs per batch.
    """
    return Extractor.load(model, layers, pooling, max_tokens, window, precision).vectors(texts, batch_size)
