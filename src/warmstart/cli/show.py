"""warmstart show: a run, or a model's layers, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, RunError

if TYPE_CHECKING:
    from warmstart.evaluation.run import RunFolder


def command(
    what: Annotated[str, typer.Argument(help="A run, a model folder, or a model's name on the Hub.")] = "",
    recipe: Annotated[bool, typer.Option("--recipe", help="Print the run's complete recipe.")] = False,
    layers: Annotated[bool, typer.Option("--layers", help="Show the layers of the run's model.")] = False,
    forgetting: Annotated[
        bool, typer.Option("--forgetting", help="Show what the run's encoder still knew along its training.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="With --forgetting: draw it, to an svg, png or pdf.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of recipes, for editors.")] = False,
    recipes: Annotated[bool, typer.Option("--recipes", help="Print the recipes that `fit --recipe` takes.")] = False,
    json: options.Json = False,
) -> None:
    """Show a run, or the layer map of a model."""
    if schema:
        typer.echo(_schema())
    elif recipes:
        _show_recipes(json)
    elif not what:
        raise RecipeError("show: give a run or a model, or --schema")
    elif not (Path(what) / "recipe.yaml").is_file():
        if recipe:
            raise RunError(f"{what} is no run, so it has no recipe; give a folder that `warmstart fit` wrote")
        if forgetting:
            raise RunError(f"{what} is no run, so it forgot nothing; give a folder that `warmstart fit` wrote")
        _show_layers(what, json)
    elif layers:
        _show_layers(_model_of(what), json)
    elif forgetting:
        _show_forgetting(what, json, plot)
    elif recipe and not json:
        from warmstart.storage.json_files import read_text

        typer.echo(read_text(Path(what) / "recipe.yaml", RunError), nl=False)
    else:
        try:
            _show_run(what, json, recipe)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RunError(
                f"{what}: data.json, metrics.json or environment.json holds something else than `warmstart fit` writes "
                f"({type(error).__name__}: {error})"
            ) from None


def _schema() -> str:
    import json

    from warmstart.recipe import Recipe

    return json.dumps(Recipe.model_json_schema(), indent=2)


def _show_recipes(as_json: bool) -> None:
    from warmstart.recipe import shipped

    found = {name: path.read_text(encoding="utf-8") for name, path in shipped().items()}
    if as_json:
        from warmstart.cli import screen

        screen.print_json(found)
    else:
        typer.echo("\n".join(f"--recipe {name}\n{text}" for name, text in found.items()), nl=False)


def _model_of(run: str) -> str:
    from warmstart.inference.predictor import model_folder

    return str(model_folder(run))


def _show_layers(model: str, as_json: bool) -> None:
    from warmstart.cli import screen
    from warmstart.models.layer_map import LayerMap
    from warmstart.models.loading import load_plain

    layers = LayerMap.of(load_plain(model))
    if as_json:
        screen.print_json(layers.as_rows())
    else:
        screen.console.print(layers)


def _show_forgetting(folder: str, as_json: bool, plot: Path | None) -> None:
    from warmstart.cli import screen
    from warmstart.evaluation.run import RunFolder

    run = RunFolder(folder)
    found = run.forgetting
    if not found:
        raise RunError(
            f"{folder}: holds no forgetting.json: the recipe did not ask, or no stage is finished; "
            "say forgetting.text: FILE, with general text, when you fit"
        )
    try:
        if plot:
            _plot(run, plot)
        if as_json:
            screen.print_json(found)
            return
        for stage, about in found.items():
            screen.grid(f"{stage}: {about['rows']:,} texts, {about['masked']:,} tokens masked", _forgotten(about))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise RunError(
            f"{folder}: a forgetting.json holds something else than `warmstart fit` writes "
            f"({type(error).__name__}: {error})"
        ) from None


def _plot(run: RunFolder, path: Path) -> None:
    """Draw what the run's last stage forgot, beside what it learned."""
    from warmstart.errors import nearest
    from warmstart.inspection.plots import draw

    kinds = ("svg", "png", "pdf")
    if path.suffix[1:] not in kinds:
        raise RecipeError(f"--plot: found {path}, which names no kind of picture; {nearest(path.suffix[1:], kinds)}")
    if not path.parent.is_dir():
        raise RecipeError(f"--plot: found {path}, but there is no folder {path.parent}; make it, or choose another")
    seen = list(run.forgetting.values())[-1]["seen"]
    steps, history = [one["step"] for one in seen], run.training["history"]
    panels = {"training loss": {"loss": ([one["step"] for one in history], [one["loss"] for one in history])}}
    for score in seen[0].get("scores", {}):
        panels[f"dev {score}"] = {score: (steps, [one["scores"][score] for one in seen])}
    if seen[0]["loss"] is not None:
        panels["loss of masked tokens"] = {"loss": (steps, [one["loss"] for one in seen])}
    layers = enumerate(zip(*(one["agreement"] for one in seen), strict=True))
    panels["agreement with the starting encoder"] = {str(layer): (steps, list(values)) for layer, values in layers}
    draw(panels, path, "layer", "optimizer steps")


def _forgotten(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each time that the encoder was asked: when, masked tokens, scores, and the agreement of each layer."""
    seen = about["seen"]
    when = ["before", *(f"step {one['step']:,}" for one in seen[1:-1]), f"after {seen[-1]['step']:,}"]
    return [
        {
            "when": name,
            "masked loss": one["loss"],
            "accuracy": one["accuracy"],
            **{f"dev {score}": value for score, value in one.get("scores", {}).items()},
            **{f"CKA {layer}" if not layer else str(layer): value for layer, value in enumerate(one["agreement"])},
        }
        for name, one in zip(when, seen, strict=True)
    ]


def _show_run(folder: str, as_json: bool, recipe_only: bool) -> None:
    from warmstart.cli import screen
    from warmstart.evaluation.run import RunFolder

    run = RunFolder(folder)
    if recipe_only:
        screen.print_json(run.recipe.model_dump(mode="json"))
        return
    if as_json:
        screen.print_json(
            {
                "run": folder,
                "finished": run.finished,
                "recipe": run.recipe.model_dump(mode="json"),
                "metrics": run.metrics if run.finished else {},
                "window": run.training["window"] if run.finished else {},
                "data": run.data,
                "environment": run.environment,
            }
        )
        return
    recipe = run.recipe
    rows = {"task": recipe.task.name, "model": recipe.model, "finished": run.finished}
    for part, about in run.data["parts"].items():
        rows[part] = f"{about['rows']:,} rows of {', '.join(about['files'])}"
    for part, found in (run.metrics if run.finished else {}).items():
        rows |= {f"{part} {name}": value for name, value in found.items()}
    if run.finished:
        rows["window"] = screen.window(run.training["window"])
    training = recipe.training
    long = f"{run.training['steps']:,} steps" if run.finished else "unfinished"
    rows["training"] = (
        f"learning rate {training.learning_rate:g}, {training.lr_schedule}, {long}, "
        f"batch size {training.batch_size}, seed {recipe.seed}"
    )
    rows["versions"] = ", ".join(f"{name} {version}" for name, version in run.environment["versions"].items())
    screen.table(folder, rows)
    screen.findings(run.data["findings"])
