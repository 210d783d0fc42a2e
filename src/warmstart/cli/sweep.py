"""warmstart sweep: search fields of a recipe for what does best on dev."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError
from warmstart.options import meaning
from warmstart.recipe import Sweep
from warmstart.storage.yaml_files import parse_value

if TYPE_CHECKING:
    from warmstart.experiments.sweep_results import Searched
    from warmstart.recipe import Recipe


def _field(key: str, metavar: str | None = None) -> Any:
    """An option that sets a field of the sweep; its help is the text under that field."""
    return typer.Option(f"--{key}", help=meaning(Sweep, key), metavar=metavar, show_default=False)


OWN = ("trials", "sampler", "prune", "metric", "goal", "budget")
"""Options that set the sweep's field of the same name."""


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="A sweep (.yaml), a recipe or a data file to search around, or a sweep's folder to show.",
            metavar="SWEEP|RECIPE|FILE|FOLDER",
        ),
    ],
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            help="A recipe field and its choices, as training.batch_size=16,32; or a range, as "
            "'training.learning_rate={low: 1e-5, high: 1e-4, log: true}'.",
            metavar="FIELD=CHOICES",
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", help="What to search: a sweep that comes with warmstart, or a file.", metavar="NAME"),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="The sweep's folder. By default sweeps/ and the source's name.")
    ] = None,
    trials: Annotated[int | None, _field("trials")] = None,
    sampler: Annotated[str | None, _field("sampler", "NAME")] = None,
    prune: Annotated[str | None, _field("prune", "NAME")] = None,
    metric: Annotated[str | None, _field("metric", "NAME")] = None,
    goal: Annotated[str | None, _field("goal", "highest|lowest")] = None,
    budget: Annotated[str | None, _field("budget", "TIME")] = None,
    workers: Annotated[int, typer.Option("--workers", help="How many processes to start here.", min=1)] = 1,
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
    """Search fields of a recipe for what does best on the dev rows, or show a search."""
    values = dict(locals())
    from warmstart.cli import screen

    if Path(source).is_dir():
        from warmstart.experiments.sweep_results import read_sweep

        return _show(read_sweep(source), json)
    from warmstart.experiments.sweep_workers import sweep as run_recipe

    asked, base = _asked(source, values)
    folder = out or Path("sweeps") / Path(source).name.partition(".")[0]
    # Bars of several processes would write over each other.
    progress = screen.Bars() if workers == 1 else screen.Lines()
    return _show(run_recipe(asked, base, folder, progress, workers), json)


def _asked(source: str, values: dict[str, Any]) -> tuple[Sweep, Recipe]:
    """The sweep, and the recipe that it searches around."""
    from warmstart.recipe import load_recipe, load_sweep, make_recipe
    from warmstart.recipe.sweep_files import is_sweep

    changes: dict[str, Any] = {name: values[name] for name in OWN if values[name] is not None}
    changes["search"] = parse_search(values["search"])
    recipe_changes = {**options.said(values, options.DATA), **options.parse_sets(values["set_"])}
    base = options.base(source, values["recipe"])
    if base == source and is_sweep(source):
        if values["sweep"]:
            raise RecipeError(f"--sweep {values['sweep']}: {source} is a sweep already; leave one out")
        return load_sweep(source, changes, recipe_changes=recipe_changes)
    if base != source:
        recipe_changes = {"data.train": source, **recipe_changes}
    if not values["sweep"] and not changes["search"]:
        raise RecipeError(
            "sweep: nothing to search; say --search training.learning_rate=5e-5,3e-5, or --sweep published-grid"
        )
    made = load_recipe(base, recipe_changes) if base is not None else make_recipe(recipe_changes)
    return load_sweep(values["sweep"], changes, made)


def parse_search(given: list[str] | None) -> dict[str, Any]:
    """`--search training.batch_size=16,32` as a field and its choices."""
    found: dict[str, Any] = {}
    for one in given or []:
        key, equals, said = one.partition("=")
        if not equals or not key or not said:
            raise RecipeError(f"--search {one}: expected FIELD=CHOICES, as --search training.batch_size=16,32")
        whole = said[:1] in {"[", "{"}
        found[key.strip()] = parse_value(said) if whole else [parse_value(part.strip()) for part in said.split(",")]
    return found


def _show(found: Searched, as_json: bool) -> None:
    from warmstart.cli import screen

    if as_json:
        screen.print_json(found.as_json())
        return
    rows = [
        {
            "trial": str(one.number),
            "state": one.state,
            f"dev {found.metric}": one.value,
            **{name: _short(value) for name, value in one.settings.items()},
            "minutes": None if one.seconds is None else f"{one.seconds / 60:.1f}",
        }
        for one in found.trials
    ]
    if rows:
        # A trial that has just begun has no settings yet.
        names = list(dict.fromkeys(name for row in rows for name in row))
        screen.grid(str(found.folder), [{name: row.get(name) for name in names} for row in rows])
    for one in found.trials:
        if one.reason:
            screen.console.print(f"trial {one.number}: {one.reason}", markup=False, highlight=False)
    for name, share in found.importances.items():
        screen.console.print(f"{share:.0%} of the spread is by {name}", markup=False, highlight=False)
    for line in _best(found):
        screen.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _best(found: Searched) -> list[str]:
    """The best trial, what it does on test, and what is left."""
    from warmstart.cli import screen

    ended = sum(one.state != "under way" for one in found.trials)
    lines = [] if found.finished else [f"{ended} of {found.wanted} trials have ended; the same command goes on"]
    if found.best is None or found.run is None:
        return lines
    settings = ", ".join(f"{name} {_short(value)}" for name, value in found.best.settings.items())
    lines.append(f"best on dev: trial {found.best.number}, {found.metric} {found.best.value:.4f} with {settings}")
    if "test" in found.run.metrics:
        name, value = next(iter(found.run.metrics["test"].items()))
        lines.append(f"that trial on test, by which nothing was chosen: {name} {screen.number(value)}")
    lines.append(f"Next: warmstart show {found.run.folder}, or warmstart fit {found.folder / 'best.yaml'}")
    return lines


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
