"""Diagnosing: everything that shows where a run errs, written into its folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from warmstart.data.schema import Schema
from warmstart.diagnosis.confidence import ConfidenceOptions, judge_confidence
from warmstart.diagnosis.confusion import confusion_matrix, confusion_pairs, frequent_confusions
from warmstart.diagnosis.data_profile import class_balance, length_histogram
from warmstart.diagnosis.embedding_map import map_rows
from warmstart.diagnosis.evaluated_rows import EvaluatedRows, column_at, read_evaluated, with_columns
from warmstart.diagnosis.explained_mistakes import explain_mistakes
from warmstart.diagnosis.label_errors import LabelErrorSearch, find_label_errors
from warmstart.diagnosis.mistakes import describe_mistakes, wrong_rows
from warmstart.diagnosis.slices import MIN_ROWS, compare_slices, groups_of
from warmstart.errors import DataError, ModelError, RunError
from warmstart.evaluation.records.diagnosis import FILE, Diagnosis, LabelErrors, SmallSlices
from warmstart.evaluation.records.files import write_record
from warmstart.evaluation.run import RunFolder
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.prepare import Parts, Rows, read_parts
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import recover
from warmstart.storage.cache import cache_folder
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ShowsErrors

LIMIT = 20


@dataclass(frozen=True)
class DiagnosisOptions:
    """What to find out about a run.

    Args:
        slice_by: Further columns of the test file by which rows are grouped.
        confidence: Thresholds to choose, and whether to calibrate the model.
        label_errors: How to search for label errors in the training rows; None for not at all.
        limit: How many mistakes and label errors are listed.
        explain: How many of the mistakes are explained by their words.
    """

    slice_by: Sequence[str] = ()
    confidence: ConfidenceOptions = field(default_factory=ConfidenceOptions)
    label_errors: LabelErrorSearch | None = None
    limit: int = LIMIT
    explain: int = 0


def diagnose(
    run: RunFolder,
    options: DiagnosisOptions | None = None,
    *,
    rows: Rows | None = None,
    progress: Progress = silent,
) -> Diagnosis:
    """Analyse where a run errs, and record it as `diagnosis.json` in its folder.

    Args:
        rows: The rows, where they were passed in Python when the run was trained.
    """
    options = options or DiagnosisOptions()
    recover(run.model)
    predictor = Predictor.load(run.folder)
    task = predictor.task
    evaluated = read_evaluated(run, task, "test") or read_evaluated(run, task, "dev")
    if evaluated is None:
        raise RunError(
            f"{run.folder}: nothing was measured; give the recipe test rows, by data.test or data.split.test"
        )
    schema = task.schema(task.options)
    with tempfile.TemporaryDirectory(prefix="warmstart-") as work:
        parts, notes = _parts(run, task, Path(work), rows, progress)
        if parts is not None:
            evaluated, more = _with_columns(evaluated, parts, schema)
            notes += more
        grouped = {name: column_at(run, schema, name, evaluated, cache_folder(), progress) for name in options.slice_by}
        wrong = wrong_rows(evaluated, task, options.limit) if task.rows_independent else []
        diagnosis = _errors(evaluated, task, grouped, wrong)
        if options.explain and diagnosis.mistakes:
            explained = explain_mistakes(diagnosis.mistakes, wrong, evaluated, predictor, options.explain, progress)
            diagnosis = replace(diagnosis, mistakes=explained)
        if (judged := judge_confidence(run, evaluated, task, options.confidence)) is not None:
            diagnosis = replace(diagnosis, calibration=judged[0], thresholds=judged[1])
        elif task.single_choice:
            notes.append("too few rows to judge whether probabilities can be trusted")
        label_errors = _earlier_label_errors(run)
        if options.label_errors is not None:
            if parts is None:
                raise RunError(f"{run.folder}: the training rows cannot be read again: {'; '.join(notes)}")
            label_errors = find_label_errors(run, task, parts.tables, options.label_errors, options.limit, progress)
        if parts is not None:
            diagnosis = _with_profile(diagnosis, predictor, parts, evaluated, run, notes, progress)
    diagnosis = replace(diagnosis, notes=notes, label_errors=label_errors)
    write_record(diagnosis, run.folder / FILE)
    return diagnosis


def _parts(
    run: RunFolder, task: AnyTask, work: Path, rows: Rows | None, progress: Progress
) -> tuple[Parts | None, list[str]]:
    """The rows of the run, if they can be read again, else why not."""
    if run.recipe.data.train == MEMORY and rows is None:
        return None, ["the rows were passed in Python, so their texts are not available"]
    try:
        cache = cache_folder() if rows is None else work
        return read_parts(run.recipe, task.schema(task.options), cache, progress, rows), []
    except DataError as error:
        return None, [f"the texts are not available: {error}"]


def _with_columns(rows: EvaluatedRows, parts: Parts, schema: Schema) -> tuple[EvaluatedRows, list[str]]:
    try:
        return with_columns(rows, parts.tables, schema), []
    except RunError as error:
        return rows, [f"the texts are not available: {error}"]


def _errors(
    rows: EvaluatedRows, task: AnyTask, grouped: Mapping[str, Sequence[str | None]], wrong: Sequence[int]
) -> Diagnosis:
    """What is wrong, on which rows, and what it is confused with."""
    schema = task.schema(task.options)
    diagnosis = Diagnosis(rows.part, task.name, len(rows), [])
    tables = task.error_tables(rows.columns, rows.answers) if rows.columns and isinstance(task, ShowsErrors) else []
    if rows.truth is not None and (pairs := confusion_pairs(task, rows.truth, rows.answers)):
        labels = getattr(getattr(task, "labels", None), "names", ())
        diagnosis = replace(diagnosis, confusion=confusion_matrix(pairs, labels))
        if (frequent := frequent_confusions(pairs)) is not None:
            tables = [frequent, *tables]
    if task.rows_independent:
        slices, small = compare_slices(rows.scores, groups_of(rows, schema, grouped))
        diagnosis = replace(
            diagnosis,
            slices=slices,
            slices_too_small=SmallSlices(small, MIN_ROWS) if small else None,
            mistakes=describe_mistakes(rows, task, wrong),
        )
    return replace(diagnosis, tables=tables or None)


def _with_profile(
    diagnosis: Diagnosis,
    predictor: Predictor,
    parts: Parts,
    evaluated: EvaluatedRows,
    run: RunFolder,
    notes: list[str],
    progress: Progress,
) -> Diagnosis:
    """What the rows are like; `notes` gets why there is no map of them where there could be one."""
    schema = predictor.task.schema(predictor.task.options)
    try:
        embedding_map = map_rows(evaluated, schema, run.folder, progress)
    except ModelError as error:  # such as several models, which have no embedding in common
        embedding_map = None
        notes.append(f"there is no map of the rows: {error}")
    return replace(
        diagnosis,
        class_balance=class_balance(parts.tables, schema),
        lengths=length_histogram(parts.tables, schema, predictor.tokenizer, predictor.window),
        embedding_map=embedding_map,
    )


def _earlier_label_errors(run: RunFolder) -> LabelErrors | None:
    """The label errors of an earlier diagnosis: the training rows are the same."""
    try:
        earlier = run.diagnosis
    except RunError:  # it is replaced by the new one
        return None
    return earlier.label_errors if earlier else None
