"""warmstart evaluate: a run's metrics on a labelled file, or again on its own test rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli import options
from warmstart.data.fault_handling import DROPPABLE
from warmstart.errors import RecipeError, RunError

if TYPE_CHECKING:
    from warmstart.data.findings import Findings
    from warmstart.evaluation.evaluate import Evaluation


def command(
    run: Annotated[str, typer.Argument(help="A run, or its model folder.", metavar="RUN")],
    file: Annotated[
        str | None, typer.Argument(help="A labelled file. Default: the run's own test rows.", metavar="FILE")
    ] = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    header: options.Header = None,
    format: options.Format = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", help="Rows to leave out: unlabelled, empty.", metavar="KIND")
    ] = None,
    precision: options.Precision = "fp32",
    json: options.Json = False,
) -> None:
    """Evaluate a run on a labelled file."""
    reading = options.recipe_fields(dict(locals()), options.READING)
    for name in drop or []:
        if name not in DROPPABLE:
            raise RecipeError(f"--drop {name}: only {' and '.join(DROPPABLE)} rows can be left out of an evaluation")
    from warmstart.inference.folders import model_folder

    model_folder(run)  # refused here, before torch is imported
    from warmstart.cli.screen import Bars
    from warmstart.data.findings import Findings
    from warmstart.data.table import load
    from warmstart.evaluation.evaluate import evaluate_rows
    from warmstart.evaluation.file_reading import source_of
    from warmstart.evaluation.run import RunFolder
    from warmstart.inference.predictor import Predictor
    from warmstart.pipeline.prepare import read_parts
    from warmstart.recipe import MEMORY
    from warmstart.storage.cache import cache_folder

    bars = Bars()
    predictor = Predictor.load(run, precision)
    schema = predictor.task.schema(predictor.task.options)
    if file is None:
        recipe = RunFolder(run).recipe
        if recipe.data.train == MEMORY:
            raise RunError(f"{run}: its rows were passed in Python, so they cannot be read again; give a file")
        parts = read_parts(recipe, schema, cache_folder(), bars)
        if "test" not in parts.tables:
            raise RunError(f"{run} has no test rows of its own; give a labelled file: warmstart evaluate {run} FILE")
        rows, findings = parts.tables["test"], parts.findings
    else:
        findings = Findings()
        dropped = [kind for kind in DROPPABLE if kind in (drop or ())]
        source = source_of(run, file, reading, schema)
        rows = load(source, schema, cache_folder(), findings, drop=dropped, progress=bars)
    _show(run, file, evaluate_rows(predictor, rows, progress=bars), findings, json)


def _show(run: str, file: str | None, result: Evaluation, findings: Findings, json: bool) -> None:
    from warmstart.cli import screen

    metrics = result.metrics
    warnings = [f"the model does no better than one answer for all rows: {result.failed}"] if result.failed else []
    if json:
        screen.print_json(
            {"run": run, "file": file, "metrics": metrics, "warnings": warnings, "findings": findings.as_json()}
        )
    else:
        screen.findings(findings)
        screen.table(f"{run} on {file or 'its own test rows'}", metrics)
        for warning in warnings:
            screen.warn(warning)
