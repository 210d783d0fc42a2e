"""warmstart sweep: hyperparameter search over fields of a recipe, by its dev rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError
from warmstart.options import Values, meaning
from warmstart.recipe import Sweep
from warmstart.storage.yaml_files import parse_value

if TYPE_CHECKING:
    from warmstart.experiments.sweep_results import SweepResults
    from warmstart.recipe import Recipe


def _field(key: str, metavar: str | None = None) -> Any:
    """An option that sets a field of the sweep; its help is the field's meaning."""
    return typer.Option(f"--{key}", help=meaning(Sweep, key), metavar=metavar, show_default=False)


OWN = ("trials", "sampler", "pruner", "metric", "direction", "timeout")
"""Options that set the sweep's field of the same name."""


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="A sweep (.yaml), a recipe or a data file to start from; or the folder of a sweep, to show it.",
            metavar="SWEEP|RECIPE|FILE|FOLDER",
        ),
    ],
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            help="A recipe field and its choices, such as training.batch_size=16,32; or a range, such as "
            "'training.learning_rate={low: 1e-5, high: 1e-4, log: true}'.",
            metavar="FIELD=CHOICES",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", help="What to search: a sweep that comes with warmstart, or a file.", metavar="NAME"),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="The sweep's folder. Default: sweeps/ and the file's name.")
    ] = None,
    trials: Annotated[int | None, _field("trials")] = None,
    sampler: Annotated[str | None, _field("sampler", "NAME")] = None,
    pruner: Annotated[str | None, _field("pruner", "NAME")] = None,
    metric: Annotated[str | None, _field("metric", "NAME")] = None,
    direction: Annotated[str | None, _field("direction", "maximize|minimize")] = None,
    timeout: Annotated[str | None, _field("timeout", "TIME")] = None,
    workers: Annotated[int, typer.Option("--workers", help="The number of processes on this machine.", min=1)] = 1,
    model: options.Model = None,
    task: options.Task = None,
    recipe: options.From = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    test: options.Test = None,
    dev: options.Dev = None,
    set_: options.Sets = None,
    json: options.Json = False,
) -> None:
    """Search hyperparameters of a recipe by its dev rows, or show a search."""
    values = dict(locals())
    if Path(source).is_dir():
        from warmstart.experiments.sweep_results import read_sweep

        return _show(read_sweep(source), json)
    settings, base = _sweep_of(source, values)
    from warmstart.pipeline.preflight import check_recipe

    check_recipe(base)  # refused here, before torch is imported
    from warmstart.cli import screen
    from warmstart.experiments.sweep_workers import run_sweep

    folder = out or Path("sweeps") / Path(source).name.partition(".")[0]
    # Bars of several processes would write over each other.
    progress = screen.Bars() if workers == 1 else screen.Lines()
    return _show(run_sweep(settings, base, folder, progress, workers), json)


def _sweep_of(source: str, values: Values) -> tuple[Sweep, Recipe]:
    """The sweep, and the recipe that it starts from."""
    from warmstart.recipe import load_recipe, load_sweep, make_recipe
    from warmstart.recipe.sweep_files import is_sweep

    changes: Values = {name: values[name] for name in OWN if values[name] is not None}
    changes["search"] = parse_search(values["search"])
    recipe_changes = {**options.recipe_fields(values, options.DATA), **options.parse_sets(values["set_"])}
    base = options.base_recipe(source, values["recipe"])
    if base == source and is_sweep(source):
        if values["sweep"]:
            raise RecipeError(f"--sweep {values['sweep']}: {source} is a sweep already; leave one out")
        return load_sweep(source, changes, recipe_changes=recipe_changes)
    if base != source:
        recipe_changes = {"data.train": source, **recipe_changes}
    if not values["sweep"] and not changes["search"]:
        raise RecipeError(
            "sweep: nothing to search; add --search training.learning_rate=5e-5,3e-5, or --sweep published-grid"
        )
    made = load_recipe(base, recipe_changes) if base is not None else make_recipe(recipe_changes)
    return load_sweep(values["sweep"], changes, made)


def parse_search(options: list[str] | None) -> Values:
    """`--search training.batch_size=16,32` as a field and its choices."""
    search: Values = {}
    for option in options or []:
        key, equals, choices = option.partition("=")
        if not equals or not key or not choices:
            raise RecipeError(f"--search {option}: expected FIELD=CHOICES, such as --search training.batch_size=16,32")
        yaml = choices[:1] in {"[", "{"}
        search[key.strip()] = (
            parse_value(choices) if yaml else [parse_value(part.strip()) for part in choices.split(",")]
        )
    return search


def _show(result: SweepResults, as_json: bool) -> None:
    from warmstart.cli import screen

    if as_json:
        screen.print_json(result.as_json())
        return
    rows = [
        {
            "trial": str(trial.number),
            "state": trial.state,
            f"dev {result.metric}": trial.value,
            **{name: _short(value) for name, value in trial.settings.items()},
            "minutes": None if trial.seconds is None else f"{trial.seconds / 60:.1f}",
        }
        for trial in result.trials
    ]
    if rows:
        # A trial that has just started has no settings yet.
        names = list(dict.fromkeys(name for row in rows for name in row))
        screen.grid(str(result.folder), [{name: row.get(name) for name in names} for row in rows])
    for trial in result.trials:
        if trial.reason:
            screen.console.print(f"trial {trial.number}: {trial.reason}", markup=False, highlight=False)
    for name, share in result.importances.items():
        screen.console.print(f"{name} explains {share:.0%} of the variance", markup=False, highlight=False)
    for line in _best(result):
        screen.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _best(result: SweepResults) -> list[str]:
    """The best trial, its test score, and the next command."""
    from warmstart.cli import screen

    ended = sum(trial.state != "running" for trial in result.trials)
    lines = [] if result.finished else [f"{ended} of {result.wanted} trials have ended; the same command resumes"]
    if result.best is None or result.run is None:
        return lines
    settings = ", ".join(f"{name} {_short(value)}" for name, value in result.best.settings.items())
    lines.append(f"best on dev: trial {result.best.number}, {result.metric} {result.best.value:.4f} with {settings}")
    if "test" in result.run.metrics:
        name, value = next(iter(result.run.metrics["test"].items()))
        lines.append(f"its test score, which was not used for selection: {name} {screen.number(value)}")
    lines.append(f"Next: warmstart show {result.run.folder}, or warmstart fit {result.folder / 'best.yaml'}")
    return lines


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
