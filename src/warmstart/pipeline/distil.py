"""The stage distil: a teacher answers texts without labels, once; the fine-tuning learns the answers too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from warmstart import tasks
from warmstart.data import split, table
from warmstart.data.findings import Findings
from warmstart.data.schema import Column, Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.deploy.label.columns import VECTOR
from warmstart.deploy.label.label_corpus import HERE, label
from warmstart.deploy.label.worker import model_fingerprint
from warmstart.errors import RecipeError, RunError
from warmstart.inference.folders import model_folder
from warmstart.pipeline.prepare import Parts, fit_task, grouping_columns
from warmstart.pipeline.stage_store import Identity, unfinished_answers
from warmstart.recipe import DistilOptions, Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import checksum, publish
from warmstart.storage.files import link_or_copy, write_json
from warmstart.storage.folders import discard
from warmstart.storage.json_files import read_object
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ChecksTeacher, LearnsFromAnswers, learns_from_answers
from warmstart.tasks.shared.saved_task import SavedTask
from warmstart.tasks.shared.soft_labels import PROBABILITIES, weighted_labels
from warmstart.tasks.shared.teacher_vectors import TEACHER_VECTOR, check_matching

ANSWERS, COUNTS = "answers", "answers.json"
"""In the stage's folder: the files of answers, and how many there are."""


def check_vectors(options: DistilOptions, recipe: Recipe, parts: Parts) -> None:
    """Refuse to match the vectors of texts where the student has none, before the teacher is asked for its own."""
    if options.match == "both":
        sliced, frozen = recipe.window.method == "slices", recipe.layers.freeze == "encoder"
        check_matching(fit_task(recipe, parts), sliced, frozen)


def distil_identity(options: DistilOptions, recipe: Recipe) -> Identity:
    """All that affects the teacher's answers, by dotted name; refuses a teacher of another task."""
    columns = check_teacher(options, recipe)
    source = texts_source(options, recipe)
    reading = {name: value for name, value in asdict(source).items() if name not in {"files", "queries", "documents"}}
    return {
        "distil.teacher": model_fingerprint(options.teacher),
        "distil.texts": {name: checksum(path)["sha256"] for name, path in _files(source.files[0]).items()},
        **{f"distil.{name}": value for name, value in reading.items()},
        **{f"distil.{name}": getattr(options, name) for name in ("engine", "precision", "rows_per_shard")},
        "distil.columns": columns,
        "threads": torch.get_num_threads(),
        **({"distil.vectors": True} if options.match == "both" else {}),
    }


def answer_texts(options: DistilOptions, recipe: Recipe, folder: Path, progress: Progress) -> None:
    """Have the teacher answer the texts, each exactly once, into a folder; what was stopped goes on shard by shard."""
    work = unfinished_answers(folder)
    manifest = label(
        options.teacher,
        texts_source(options, recipe),
        work,
        address=options.ray or HERE,
        # Those of this process: a worker sets its threads, which the training after it would inherit.
        threads=1 if options.ray else torch.get_num_threads(),
        rows_per_shard=options.rows_per_shard,
        engine=options.engine,
        precision=options.precision,
        vectors=options.match == "both",
        progress=progress,
    )
    with publish(folder) as staging:
        (staging / ANSWERS).mkdir()
        for path in sorted(work.glob("group-*/*.parquet")):
            if not path.name.endswith(".aside.parquet") and pq.read_metadata(path).num_rows:
                link_or_copy(path, staging / ANSWERS / f"{path.parent.name}-{path.name}")
        counts = {name: manifest[name] for name in ("rows", "answered", "set_aside", "cut")}
        write_json(staging / COUNTS, {**counts, "columns": check_teacher(options, recipe)})
    discard(work)


def with_teacher_rows(
    recipe: Recipe, parts: Parts, held_out: Table | None, folder: Path, work: Path, progress: Progress
) -> Parts:
    """The parts with the teacher's answers among the training rows.

    Args:
        held_out: Rows beside those of dev and test whose texts must not be trained on.
        folder: What `answer_texts` wrote.
        work: A folder for files that are not needed afterwards; the main process writes them, and goes first.
    """
    task = fit_task(recipe, parts)
    schema, labelled = task.schema(task.options), parts.tables["train"]
    taught = _read_answers(task, schema, folder, work / "taught", progress)
    _check_labels(recipe, parts, taught, schema)
    taught, shared = without_shared(taught, parts, schema, held_out)
    for part, count in shared.items():
        message = f"{count:,} texts of the teacher are in {part} as well, and are left out of training"
        parts.findings.add("shared", "note", message)
        progress.log(message)
    names, filled = _columns_of_both(task, schema, labelled, taught)
    path = work / "labelled-and-taught.arrow"
    vectors = _StoredVectors.of(taught)
    added = {TEACHER_VECTOR: (pa.list_(pa.float32()), vectors)} if vectors else None
    train = table.joined(labelled, taught, names, path, filled, processes.is_main_process(), added)
    progress.log(f"{len(labelled):,} labelled rows and {len(taught):,} answers of the teacher")
    if aside := read_object(folder / COUNTS, RunError)["set_aside"]:
        progress.log(f"{aside:,} texts that the teacher could not read are set aside")
    return Parts({**parts.tables, "train": train}, parts.findings)


class _StoredVectors:
    """The vectors that a teacher gave with its answers, read file by file."""

    def __init__(self, files: Sequence[str], width: int) -> None:
        self.files, self.width = files, width
        self.open: tuple[str, pa.Array] = "", pa.array([])

    @classmethod
    def of(cls, taught: Table) -> _StoredVectors | None:
        """Those of a table of answers; None where there are none."""
        if VECTOR not in pq.read_schema(taught.files[0]).names:
            return None
        return cls(taught.files, len(pq.read_table(taught.files[0], columns=[VECTOR]).column(VECTOR)[0]))

    def __call__(self, rows: Table, batch: Mapping[str, list[int]]) -> list[object]:
        """The vector of each row of a batch by where it comes from; NaN for rows of another table."""
        if rows.files != self.files:
            return [[math.nan] * self.width] * len(batch["line"])
        return [self._read(self.files[file])[line - 1] for file, line in zip(batch["file"], batch["line"], strict=True)]

    def _read(self, path: str) -> pa.Array:
        if self.open[0] != path:
            self.open = path, pq.read_table(path, columns=[VECTOR]).column(VECTOR).combine_chunks()
        return self.open[1]


def _columns_of_both(
    task: AnyTask, schema: Schema, labelled: Table, taught: Table
) -> tuple[list[str], dict[str, tuple[str, Callable[[object], object]]]]:
    """The columns of labelled and taught rows together, and what those follow from that one of them lacks."""
    assert isinstance(task, LearnsFromAnswers)
    own = taught.rows.column_names
    numbers = [name for name in type(task).taught_columns if name in own and name not in schema.names]
    inputs = [name for name in labelled.rows.column_names if numbers or name not in schema.answers]
    known = {*taught.rows.column_names, *inputs}
    names = [name for name in (*schema.names, *numbers) if name in known]
    if PROBABILITIES in names:
        return names, {PROBABILITIES: ("label", _certain)}
    # Beside a number that the teacher gives, the label of a taught row is never read.
    return names, {"label": (numbers[0], lambda _: 0)} if numbers else {}


def without_shared(
    texts: Table, parts: Parts, schema: Schema, held_out: Table | None = None
) -> tuple[Table, dict[str, int]]:
    """The texts that are not in dev or test, nor among rows that are held out, and how many were in each."""
    columns = grouping_columns(parts.tables["train"], schema)
    shared: dict[str, int] = {}
    tables = {name: rows for name, rows in parts.tables.items() if name != "train"}
    for part, rows in {**tables, **({} if held_out is None else {"the held-out rows": held_out})}.items():
        if len(twins := split.shared_rows(texts, rows, columns)):
            known = set(twins.tolist())
            texts = texts.select([row for row in range(len(texts)) if row not in known])
            shared[part] = len(twins)
    return texts, shared


def check_teacher(options: DistilOptions, recipe: Recipe) -> list[str]:
    """The columns that are learned from; refuses a task that cannot be distilled, and a teacher of another one."""
    kind = tasks.find(recipe.task.name)
    if not learns_from_answers(kind):
        able = [name for name in tasks.names() if learns_from_answers(tasks.find(name))]
        raise RecipeError(f"stages.distil: {recipe.task.name} cannot be distilled; {', '.join(able)} can")
    saved = SavedTask.read(model_folder(options.teacher))
    if (taught := saved.task) != recipe.task.name:
        raise RecipeError(f"stages.distil.teacher: {options.teacher} is of task {taught}, expected {recipe.task.name}")
    if issubclass(kind, ChecksTeacher):
        return kind.check_teacher(tasks.options_of(recipe.task.name, recipe.task.options), saved.options)
    return list(cast(type[LearnsFromAnswers], kind).taught_columns)


def texts_source(options: DistilOptions, recipe: Recipe) -> Source:
    """The texts, read as the training rows are."""
    reading = recipe.data.model_copy(update={"train": options.texts}).reading("train")
    assert reading is not None
    source = replace(Source(**reading), queries=None, documents=None)
    if len(source.files) != 1:
        raise RecipeError(f"stages.distil.texts: found {len(source.files)} files, expected one, or their folder")
    return source


def _files(place: str) -> Mapping[str, Path]:
    """The files of texts, by their names."""
    path = Path(place)
    if not path.exists():
        raise RecipeError(f"stages.distil.texts: {place} is missing; expected a file, or a folder of files")
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return {str(file.relative_to(path.parent)): file for file in files}


def _read_answers(task: AnyTask, schema: Schema, folder: Path, cache: Path, progress: Progress) -> Table:
    """The teacher's answers as training rows."""
    assert isinstance(task, LearnsFromAnswers)
    files = sorted(str(path) for path in (folder / ANSWERS).glob("*.parquet"))
    if not files:
        raise RecipeError("stages.distil.texts: the teacher could answer none of them; see `warmstart check`")
    own = pq.read_schema(files[0]).names
    inputs = {name: name for name in schema.without_answers().names if name in own}
    given = read_object(folder / COUNTS, RunError)["columns"]
    source = Source(tuple(files), {**inputs, **{name: type(task).taught_columns[name] for name in given}})
    lacking = [name for name in given if name not in schema.names]
    if numbers := [Column(name, "number", "what the teacher says", answer=True) for name in lacking]:
        schema = Schema((*schema.without_answers(), *numbers), together=schema.together)
    return table.load(source, schema, cache, Findings(), progress=progress)


def _check_labels(recipe: Recipe, parts: Parts, taught: Table, schema: Schema) -> None:
    """Refuse a teacher that knows other labels than the labelled rows have."""
    if PROBABILITIES not in taught.rows.column_names:
        return
    answer = schema.answer_in(parts.tables["train"].rows.column_names)
    assert answer is not None
    data = {name for value in parts.tables["train"].column(answer.name) for name in weighted_labels(value)}
    teacher = set(weighted_labels(next(taught.column(PROBABILITIES))))
    if data != teacher:
        only = {"the teacher": teacher - data, "the data": data - teacher}
        differences = "; ".join(f"only {who} has {sorted(names)[:5]}" for who, names in only.items() if names)
        raise RecipeError(f"stages.distil.teacher: it has learned other labels than the data has: {differences}")


def _certain(answer: object) -> list[dict[str, object]]:
    """A hard answer as a soft one."""
    return [{"label": name, "probability": 1.0} for name in weighted_labels(answer)]
