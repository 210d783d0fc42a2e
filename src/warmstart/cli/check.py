"""warmstart check: what is wrong with data, with file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import DataError, RecipeError

if TYPE_CHECKING:
    from warmstart.pipeline.prepare import Parts
    from warmstart.recipe import Recipe

NO_MODEL = "(no model)"


def command(
    files: Annotated[
        list[str], typer.Argument(help="Data files to learn from, or a recipe (.yaml).", metavar="FILE…|RECIPE")
    ],
    task: options.Task = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    id_: Annotated[
        str | None, typer.Option("--id", help="The files' column of ids, which must not repeat.", metavar="COLUMN")
    ] = None,
    test: options.Test = None,
    dev: options.Dev = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Count the text that this encoder's window cuts.", metavar="NAME|FOLDER"),
    ] = None,
    max_tokens: options.MaxTokens = None,
    set_: options.Sets = None,
    header: options.Header = None,
    format: options.Format = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    drop: options.Drop = None,
    json: options.Json = False,
) -> None:
    """Say what is wrong with data, with file and line."""
    values = dict(locals())
    changes = {**options.said(values, options.DATA), **options.parse_sets(set_)}
    recipe = _recipe(files, changes)
    parts = _look(recipe, id_, model is not None)
    findings = parts.findings.as_json()
    errors = sum(one["count"] for one in findings if one["severity"] == "error")
    if json:
        from warmstart.cli import screen

        rows = {name: len(table) for name, table in parts.tables.items()}
        screen.print_json({"rows": rows, "errors": errors, "findings": findings})
    else:
        _show(parts, findings)
    if errors:
        raise typer.Exit(DataError.exit_code)


def _recipe(files: list[str], changes: dict[str, Any]) -> Recipe:
    from warmstart.recipe import load_recipe, make_recipe

    if any(file.endswith((".yaml", ".yml")) for file in files):
        if len(files) > 1:
            raise RecipeError(f"expected data files, or one recipe alone; found {', '.join(files)}")
        return load_recipe(files[0], changes)
    return make_recipe({"model": NO_MODEL, **changes, "data.train": files})


def _look(recipe: Recipe, id_column: str | None, cut: bool) -> Parts:
    """Check the data; count what the window cuts if nothing is wrong with it."""
    import tempfile
    from pathlib import Path

    from warmstart import tasks
    from warmstart.cli import screen
    from warmstart.pipeline.check_data import count_cut, look
    from warmstart.storage.cache import cache_folder

    bars = screen.Bars()
    schema = tasks.schema_of(recipe.task.name, recipe.task.options)
    parts = look(recipe, schema, cache_folder(), bars, id_column)
    if cut and not any(finding.severity == "error" for finding in parts.findings):
        with tempfile.TemporaryDirectory() as work:
            count_cut(recipe, parts, Path(work), bars)
    return parts


def _show(parts: Parts, findings: list[dict[str, Any]]) -> None:
    from warmstart.cli import screen

    order = ("error", "warning", "note")
    screen.findings(sorted(findings, key=lambda one: order.index(one["severity"])))
    counts: dict[str, int] = {}
    for severity in order:
        for one in findings:
            if one["severity"] == severity:
                name = f"{severity}: {one['kind']}"
                counts[name] = counts.get(name, 0) + one["count"]
    rows = {f"{name} rows": len(table) for name, table in parts.tables.items()}
    screen.table("what was found", {**rows, **counts} if counts else {**rows, "found": "nothing"})
