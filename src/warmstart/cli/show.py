"""warmstart show: a run, or the layers of a model, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, RunError

if TYPE_CHECKING:
    from warmstart.evaluation.records.forgetting import ForgettingRecord
    from warmstart.evaluation.run import RunFolder
    from warmstart.inspection.plots import Line


def command(
    what: Annotated[
        str, typer.Argument(help="A run, a model folder, or a model's name on the Hub.", metavar="RUN|MODEL")
    ] = "",
    recipe: Annotated[bool, typer.Option("--recipe", help="Print the run's complete recipe.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Show the layers of the run's model.")] = False,
    forgetting: Annotated[
        bool, typer.Option("--forgetting", help="Show what the run's encoder forgot during training.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="With --forgetting, plot it to this svg, png or pdf file."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of recipes, for editors.")] = False,
    recipes: Annotated[bool, typer.Option("--recipes", help="Print the recipes for `fit --recipe`.")] = False,
    plugins: Annotated[
        bool,
        typer.Option(
            "--plugins", help="List the tasks, schedules, poolings, engines and architectures that other packages add."
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Show a run, or the layer map of a model."""
    if schema:
        typer.echo(_schema())
    elif recipes:
        _show_recipes(json)
    elif plugins:
        _show_plugins(json)
    elif not what:
        raise RecipeError("show: give a run or a model, or --schema, --recipes or --plugins")
    elif not (Path(what) / "recipe.yaml").is_file():
        if recipe:
            raise RunError(f"{what} is not a run, so it has no recipe; give a folder that `warmstart fit` wrote")
        if forgetting:
            raise RunError(f"{what} is not a run, so nothing was measured; give a folder that `warmstart fit` wrote")
        from warmstart.pipeline.preflight import check_model

        check_model(what)
        _show_layers(what, json)
    elif layers:
        _show_layers(_model_of(what), json)
    elif forgetting:
        _show_forgetting(what, json, plot)
    elif recipe and not json:
        from warmstart.storage.json_files import read_text

        typer.echo(read_text(Path(what) / "recipe.yaml", RunError), nl=False)
    else:
        _show_run(what, json, recipe)


def _schema() -> str:
    import json

    from warmstart.recipe import Recipe

    return json.dumps(Recipe.model_json_schema(), indent=2)


def _show_recipes(as_json: bool) -> None:
    from warmstart.recipe import shipped

    texts = {name: path.read_text(encoding="utf-8") for name, path in shipped().items()}
    if as_json:
        from warmstart.cli import screen

        screen.print_json(texts)
    else:
        typer.echo("\n".join(f"--recipe {name}\n{text}" for name, text in texts.items()), nl=False)


def _show_plugins(as_json: bool) -> None:
    from dataclasses import asdict

    from warmstart.cli import screen
    from warmstart.runtime import plugins

    added = plugins.added()
    if as_json:
        screen.print_json([asdict(plugin) for plugin in added])
    elif added:
        rows = {f"{plugin.kind} {plugin.name} of {plugin.package}": plugin.value for plugin in added}
        screen.table("added by other packages", rows)
    else:
        typer.echo("No installed package adds a task, a schedule, a pooling, an engine or an architecture.")


def _model_of(run: str) -> str:
    from warmstart.inference.folders import model_folder

    return str(model_folder(run))


def _show_layers(model: str, as_json: bool) -> None:
    from warmstart.cli import screen
    from warmstart.models.layer_map import LayerMap
    from warmstart.models.loading import load_as_saved

    layers = LayerMap.of(load_as_saved(model))
    if as_json:
        screen.print_json(layers.as_rows())
    else:
        screen.console.print(layers)


def _show_forgetting(folder: str, as_json: bool, plot: Path | None) -> None:
    from warmstart.cli import screen
    from warmstart.evaluation.records import files
    from warmstart.evaluation.run import RunFolder

    run = RunFolder(folder)
    stages = run.forgetting
    if not stages:
        raise RunError(
            f"{folder}: has no forgetting.json: the recipe did not measure it, or no stage is finished; "
            "set forgetting.text to a file of general text, and fit again"
        )
    if plot:
        _plot(run, plot)
    if as_json:
        screen.print_json({stage: files.as_json(record) for stage, record in stages.items()})
        return
    for stage, record in stages.items():
        screen.grid(f"{stage}: {record.rows:,} texts, {record.masked:,} tokens masked", _forgotten(record))


def _plot(run: RunFolder, path: Path) -> None:
    """Plot what the run's last stage forgot, beside what it learned."""
    from warmstart.errors import nearest
    from warmstart.inspection.plots import draw

    kinds = ("svg", "png", "pdf")
    if path.suffix[1:] not in kinds:
        raise RecipeError(f"--plot: found {path}, which has no suffix of an image; {nearest(path.suffix[1:], kinds)}")
    if not path.parent.is_dir():
        raise RecipeError(f"--plot: found {path}, but there is no folder {path.parent}; make it, or choose another")
    points = list(run.forgetting.values())[-1].seen
    steps, history = [float(point.step) for point in points], run.training.history
    losses = ([entry["step"] for entry in history], [entry["loss"] for entry in history])
    panels: dict[str, dict[str, Line]] = {"training loss": {"loss": losses}}
    for score in points[0].scores or {}:
        panels[f"dev {score}"] = {score: (steps, _numbers((point.scores or {}).get(score) for point in points))}
    if points[0].loss is not None:
        panels["masked-token loss"] = {"loss": (steps, _numbers(point.loss for point in points))}
    layers = enumerate(zip(*(point.cka for point in points), strict=True))
    panels["agreement with the pretrained encoder"] = {
        str(layer): (steps, _numbers(values)) for layer, values in layers
    }
    draw(panels, path, "layer", "optimizer steps")


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Values for a plot, which leaves a gap where one is undefined."""
    return [math.nan if value is None else value for value in values]


def _forgotten(record: ForgettingRecord) -> list[dict[str, object]]:
    """A row for each measurement: when, masked-token loss, scores, and the agreement (CKA) of each layer."""
    points = record.seen
    when = ["before", *(f"step {point.step:,}" for point in points[1:-1]), f"after {points[-1].step:,}"]
    return [
        {
            "when": name,
            "masked loss": point.loss,
            "accuracy": point.accuracy,
            **{f"dev {score}": value for score, value in (point.scores or {}).items()},
            **{f"CKA {layer}" if not layer else str(layer): value for layer, value in enumerate(point.cka)},
        }
        for name, point in zip(when, points, strict=True)
    ]


def _show_run(folder: str, as_json: bool, recipe_only: bool) -> None:
    from warmstart.cli import screen
    from warmstart.evaluation.records import files
    from warmstart.evaluation.run import RunFolder

    run = RunFolder(folder)
    if recipe_only:
        screen.print_json(run.recipe.model_dump(mode="json"))
        return
    from warmstart.evaluation.training_warnings import training_warnings

    warnings = training_warnings(run) if run.finished else []
    if as_json:
        screen.print_json(
            {
                "run": folder,
                "finished": run.finished,
                "recipe": run.recipe.model_dump(mode="json"),
                "metrics": run.metrics if run.finished else {},
                "window": files.as_json(run.training.window) if run.finished else {},
                "warnings": warnings,
                "data": files.as_json(run.data),
                "environment": run.environment,
            }
        )
        return
    screen.table(folder, _rows(run))
    screen.findings(run.data.findings)
    for warning in warnings:
        screen.warn(warning)


def _rows(run: RunFolder) -> dict[str, object]:
    """The facts of a run, by name."""
    from warmstart.cli import screen

    recipe = run.completed_recipe if run.finished else run.recipe
    training = recipe.training
    rows: dict[str, object] = {
        "task": recipe.task.name,
        "model": recipe.model or "from scratch",
        "finished": run.finished,
    }
    for part, about in run.data.parts.items():
        rows[part] = f"{about.rows:,} rows of {', '.join(about.files)}"
    for part, metrics in (run.metrics if run.finished else {}).items():
        rows |= {f"{part} {name}": value for name, value in metrics.items()}
    if run.finished:
        rows["window"] = screen.window(run.training.window)
    steps = f"{run.training.steps:,} steps" if run.finished else "unfinished"
    rows["training"] = (
        f"learning rate {training.peak_learning_rate:g}, {training.lr_schedule}, {steps}, "
        f"batch size {training.rows_per_step}, seed {recipe.seed}"
    )
    rows["versions"] = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return rows
