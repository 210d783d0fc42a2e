"""warmstart check: problems in data, with file and line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli import options
from warmstart.errors import DataError, RecipeError
from warmstart.options import Values

if TYPE_CHECKING:
    from warmstart.data.findings import Findings
    from warmstart.pipeline.prepare import Parts
    from warmstart.recipe import Recipe

NO_MODEL = "(no model)"


def command(
    files: Annotated[list[str], typer.Argument(help="Data files, or a recipe (.yaml).", metavar="FILE…|RECIPE")],
    task: options.Task = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="A column of ids, which must be unique.", metavar="COLUMN")
    ] = None,
    test: options.Test = None,
    dev: options.Dev = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="An encoder, to count what its window would truncate.", metavar="NAME|FOLDER"),
    ] = None,
    max_tokens: options.MaxTokens = None,
    set_: options.Sets = None,
    header: options.Header = None,
    format: options.Format = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    drop: options.Drop = None,
    json: options.Json = False,
) -> None:
    """Check data for problems, and report each with file and line."""
    values = dict(locals())
    changes = {**options.recipe_fields(values, options.DATA), **options.parse_sets(set_)}
    recipe = _recipe(files, changes)
    _refuse_early(recipe, json)
    parts = _check(recipe, id_, model is not None)
    _report({name: len(table) for name, table in parts.tables.items()}, parts.findings, json)


def _report(rows: dict[str, int], findings: Findings, json: bool) -> None:
    """Show the rows of each part and the findings; an error among these ends the command."""
    errors = sum(finding.count for finding in findings if finding.severity == "error")
    if json:
        from warmstart.cli import screen

        screen.print_json({"rows": rows, "errors": errors, "findings": findings.as_json()})
    else:
        _show(rows, findings)
    if errors:
        raise typer.Exit(DataError.exit_code)


def _recipe(files: list[str], changes: Values) -> Recipe:
    from warmstart.recipe import load_recipe, make_recipe

    if any(file.endswith((".yaml", ".yml")) for file in files):
        if len(files) > 1:
            raise RecipeError(f"expected data files, or one recipe alone; found {', '.join(files)}")
        return load_recipe(files[0], changes)
    return make_recipe({"model": NO_MODEL, **changes, "data.train": files})


def _refuse_early(recipe: Recipe, json: bool) -> None:
    """Report a single file that cannot be read at all, before torch is imported."""
    from warmstart import tasks
    from warmstart.data.findings import Findings
    from warmstart.data.source import Source
    from warmstart.pipeline.preflight import ADDED, PARTS, check_source

    tasks.check_name(recipe.task.name)
    readings = [reading for reading in map(recipe.data.reading, (*PARTS, ADDED)) if reading]
    if len(readings) == 1 and len(readings[0]["files"]) == 1:
        try:
            check_source(Source(**readings[0]), recipe.task.name)
        except DataError as error:
            findings = Findings()
            findings.add(error.kind, "error", error.problem, error.location)
            _report({}, findings, json)


def _check(recipe: Recipe, id_column: str | None, cut: bool) -> Parts:
    """Check the data; count what the window truncates if there are no errors."""
    import tempfile
    from pathlib import Path

    from warmstart import tasks
    from warmstart.cli import screen
    from warmstart.pipeline.check_data import check_data, count_truncated
    from warmstart.storage.cache import cache_folder

    bars = screen.Bars()
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    parts = check_data(recipe, schema, cache_folder(), bars, id_column)
    if cut and not any(finding.severity == "error" for finding in parts.findings):
        with tempfile.TemporaryDirectory() as work:
            count_truncated(recipe, parts, Path(work), bars)
    return parts


def _show(rows: dict[str, int], findings: Findings) -> None:
    from warmstart.cli import screen

    order = ("error", "warning", "note")
    by_severity = sorted(findings, key=lambda finding: order.index(finding.severity))
    screen.findings(by_severity)
    counts: Counter[str] = Counter()
    for finding in by_severity:
        counts[f"{finding.severity}: {finding.kind}"] += finding.count
    parts = {f"{name} rows": count for name, count in rows.items()}
    screen.table("findings", {**parts, **counts} if counts else {**parts, "findings": "none"})
