"""warmstart plan: what a recipe will cost, before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError

if TYPE_CHECKING:
    from warmstart.plan.estimate import Estimate

SHORT = {
    **options.DATA,
    "epochs": "training.epochs",
    "max_steps": "training.max_steps",
    "batch_size": "training.batch_size",
    "precision": "training.precision",
}
"""Recipe field of each option."""


# Long because it takes the options of `fit` that say what is trained, and its own.
def command(
    source: Annotated[
        str | None,
        typer.Argument(
            help="A recipe (.yaml), or a data file to learn from. None: pretraining from scratch, by numbers alone.",
            metavar="[RECIPE|FILE]",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option("--hardware", help="A device of the table; `list` shows it.", metavar="NAME|list"),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Train on some batches here, and tell time and memory from that.")
    ] = False,
    price: Annotated[
        float | None, typer.Option("--price", help="US dollars an hour, instead of the table's.", min=0)
    ] = None,
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
    header: options.Header = None,
    format: options.Format = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    epochs: options.Epochs = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", help="Optimizer steps. [training.max_steps]", min=1)
    ] = None,
    batch_size: options.BatchSize = None,
    max_tokens: options.MaxTokens = None,
    precision: options.Training = None,
    shape: Annotated[
        str | None,
        typer.Option(
            "--shape",
            help="Without data: what differs from BERT-base, of layers, width, inner, heads and vocabulary.",
            metavar="layers=12,width=768",
        ),
    ] = None,
    devices: Annotated[
        int, typer.Option("--devices", help="Without data: how many devices share each step.", min=1)
    ] = 1,
    json: options.Json = False,
) -> None:
    """Say what each stage of a recipe will cost, before it runs."""
    values = dict(locals())
    if hardware == "list":
        return _show_devices(json)
    changes = {**options.said(values, SHORT), **options.parse_sets(set_)}
    found = _without_data(values, changes) if source is None else _of(source, recipe, changes, values)
    if json:
        from warmstart.cli import screen

        screen.print_json({"stages": [one.as_json() for one in found], "total": _total(found)})
    else:
        _show(found)
    return None


def _of(source: str, recipe: str | None, changes: dict[str, Any], values: dict[str, Any]) -> list[Estimate]:
    """The stages of a recipe, or of a data file and the options."""
    from warmstart.cli import screen
    from warmstart.plan.plan import plan
    from warmstart.recipe import load_recipe, make_recipe

    if values["shape"] or values["devices"] > 1:
        raise RecipeError(f"--shape and --devices: they are for a plan without data; leave them, or {source}, out")
    base = options.base(source, recipe)
    if base != source:
        changes = {"data.train": source, **changes}
    made = load_recipe(base, changes) if base is not None else make_recipe(changes)
    bars = screen.Bars()
    if made.repeated:
        from warmstart.experiments.variants import variants_of

        count = len(variants_of(made)) * (made.seeds or 1)
        bars.say(f"this is what one training costs; seeds, baseline and ablate ask for {count}")
    return plan(made, values["hardware"], values["price"], values["measure"], bars)


def _without_data(values: dict[str, Any], changes: dict[str, Any]) -> list[Estimate]:
    from warmstart.plan.plan import plan_pretraining

    wanted = ("max_steps", "batch_size", "max_tokens")
    if missing := [f"--{name.replace('_', '-')}" for name in wanted if values[name] is None]:
        raise RecipeError(f"plan: without a recipe or a data file it needs {', '.join(missing)} as well")
    known = {SHORT[name] for name in (*wanted, "model", "precision")}
    if (other := sorted(set(changes) - known)) or values["measure"]:
        raise RecipeError(f"plan: {(other or ['--measure'])[0]} needs data; give a recipe or a data file")
    if values["shape"] and values["model"]:
        raise RecipeError("--shape and --model: each says how large the model is; leave one out")
    sizes = {name: values[name] for name in (*wanted, "model", "hardware", "price", "devices")}
    return plan_pretraining(**sizes, shape=_shape(values["shape"]), precision=values["precision"] or "auto")


def _shape(given: str | None) -> dict[str, int]:
    found = {}
    for part in filter(None, (given or "").split(",")):
        name, _, value = part.partition("=")
        if not value.isdigit() or not int(value):
            raise RecipeError(f"--shape {part}: expected NAME=NUMBER, as layers=12,width=768")
        found[name.strip()] = int(value)
    return found


def _total(found: list[Estimate]) -> dict[str, Any]:
    return {
        "operations": sum(one.operations for one in found),
        "gb": max(one.gb for one in found),
        "seconds": sum(one.seconds.total for one in found),
        "cost": sum(one.cost for one in found),
    }


def _show(found: list[Estimate]) -> None:
    from rich.table import Table

    from warmstart.cli import screen

    table = Table("stage")
    for name in ("steps", "tokens", "operations", "memory", "time", "cost"):
        table.add_column(name, justify="right")
    for one in found:
        numbers = (f"{one.steps:,}", f"{one.tokens:,}", f"{one.operations:.2e}", f"{one.gb:.1f} GB")
        table.add_row(one.stage, *numbers, duration(one.seconds.total), f"${one.cost:.2f}")
    if len(found) > 1:
        total = _total(found)
        table.add_section()
        numbers = ("", "", f"{total['operations']:.2e}", f"{total['gb']:.1f} GB")
        table.add_row("total", *numbers, duration(total["seconds"]), f"${total['cost']:.2f}")
    screen.console.print(table)
    for line in _notes(found):
        screen.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _notes(found: list[Estimate]) -> list[str]:
    """What the numbers rest on."""
    last = found[-1]
    many = f"{last.devices} x " if last.devices > 1 else ""
    how = "by steps measured here" if last.measured else "by a table of devices; --measure measures on this machine"
    lines = [f"{many}{last.hardware}, {last.precision}, {how}"]
    for one in found:
        learns = "all" if one.learning == one.parameters else f"{one.learning:,}"
        lines.append(f"{one.stage}: {one.parameters:,} parameters, {learns} learn; {one.padding:.1%} of the tokens pad")
        if one.seconds.start or one.seconds.testing:
            parts = {"start": one.seconds.start, "training": one.seconds.training, "testing": one.seconds.testing}
            told = ", ".join(f"{name} {duration(value)}" for name, value in parts.items() if value)
            lines.append(f"{one.stage}: {told}")
        if not one.fits:
            lines.append(
                f"{one.stage}: more than the memory of {one.hardware}; try a smaller --batch-size or --max-tokens"
            )
    return lines


def duration(seconds: float) -> str:
    """A time as a person says it."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def _show_devices(json: bool) -> None:
    from rich.table import Table

    from warmstart.cli import screen
    from warmstart.plan.devices import DEVICES, PRICED

    if json:
        screen.print_json([one.as_json() for one in DEVICES.values()])
        return
    table = Table("name", "what", "10¹² operations/s at most (share reached)")
    for name in ("memory", f"$/h ({PRICED})"):
        table.add_column(name, justify="right")
    for one in DEVICES.values():
        peaks = ", ".join(f"{kind} {peak:g} ({one.share[kind]:g})" for kind, peak in one.peak.items())
        table.add_row(one.name, one.what, peaks, f"{one.gb:g} GB", f"{one.price:.2f}")
    screen.console.print(table)
