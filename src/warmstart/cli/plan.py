"""warmstart plan: the time, memory and cost of a recipe, before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError
from warmstart.options import Values

if TYPE_CHECKING:
    from warmstart.plan.estimate import StageEstimate

SHORT = {
    **options.DATA,
    "epochs": "training.epochs",
    "max_steps": "training.max_steps",
    "batch_size": "training.batch_size",
    "precision": "training.precision",
}
"""Recipe field of each option."""


Source = Annotated[
    str | None,
    typer.Argument(
        help="A recipe (.yaml), or a data file to train on. Without it, pretraining from scratch is estimated.",
        metavar="[RECIPE|FILE]",
    ),
]
Hardware = Annotated[
    str | None,
    typer.Option(
        "--hardware", help="A device of the table, which `list` prints. Default: this machine.", metavar="NAME|list"
    ),
]
Measure = Annotated[
    bool,
    typer.Option("--measure", help="Train on a few batches on this machine, and estimate time and memory from that."),
]
Price = Annotated[
    float | None, typer.Option("--price", help="US dollars per hour, instead of the table's price.", min=0)
]
MaxSteps = Annotated[
    int | None, typer.Option("--max-steps", help="The maximum number of optimizer steps. [training.max_steps]", min=1)
]
Sizes = Annotated[
    str | None,
    typer.Option(
        "--shape",
        help="Without data: what differs from BERT-base, among num_layers, hidden_size, intermediate_size, num_heads "
        "and vocab_size.",
        metavar="num_layers=12,hidden_size=768",
    ),
]
Devices = Annotated[
    int, typer.Option("--devices", help="Without data: the number of devices that share each step.", min=1)
]


def command(
    source: Source = None,
    hardware: Hardware = None,
    measure: Measure = False,
    price: Price = None,
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
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    epochs: options.Epochs = None,
    max_steps: MaxSteps = None,
    batch_size: options.BatchSize = None,
    max_tokens: options.MaxTokens = None,
    precision: options.Training = None,
    shape: Sizes = None,
    devices: Devices = 1,
    json: options.Json = False,
) -> None:
    """Estimate the time, memory and cost of a recipe before running it."""
    values = dict(locals())
    if hardware == "list":
        return _show_devices(json)
    changes = {**options.recipe_fields(values, SHORT), **options.parse_sets(set_)}
    stages = _without_data(values, changes) if source is None else _with_data(source, recipe, changes, values)
    if json:
        from warmstart.cli import screen

        screen.print_json({"stages": [stage.as_json() for stage in stages], "total": _total(stages)})
    else:
        _show(stages)
    return None


def _with_data(source: str, recipe: str | None, changes: Values, values: Values) -> list[StageEstimate]:
    """The stages of a recipe, or of a data file and the options."""
    if values["shape"] or values["devices"] > 1:
        raise RecipeError(
            f"--shape and --devices: they are for an estimate without data; leave them out, or leave {source} out"
        )
    base = options.base_recipe(source, recipe)
    if base != source:
        changes = {"data.train": source, **changes}
    from warmstart.cli.preflight import checked_recipe

    made = checked_recipe("plan", source, base, changes, None, writes=False)
    from warmstart.cli import screen
    from warmstart.plan.plan import plan

    bars = screen.Bars()
    if made.repeated:
        from warmstart.experiments.variants import variants_of

        count = len(variants_of(made)) * (made.seeds or 1)
        bars.log(f"this is the cost of one training; seeds, baseline, ablate and both directions make it {count}")
    return plan(made, values["hardware"], values["price"], values["measure"], bars)


def _without_data(values: Values, changes: Values) -> list[StageEstimate]:
    from warmstart.plan.plan import plan_pretraining

    wanted = ("max_steps", "batch_size", "max_tokens")
    if missing := [f"--{name.replace('_', '-')}" for name in wanted if values[name] is None]:
        raise RecipeError(f"plan: without a recipe or a data file it needs {', '.join(missing)} as well")
    known = {SHORT[name] for name in (*wanted, "model", "precision")}
    if (other := sorted(set(changes) - known)) or values["measure"]:
        raise RecipeError(f"plan: {(other or ['--measure'])[0]} needs data; give a recipe or a data file")
    if values["shape"] and values["model"]:
        raise RecipeError("--shape and --model: each sets the size of the model; leave one out")
    sizes = {name: values[name] for name in (*wanted, "model", "hardware", "price", "devices")}
    return plan_pretraining(**sizes, shape=_shape(values["shape"]), precision=values["precision"] or "auto")


def _shape(option: str | None) -> dict[str, int]:
    sizes = {}
    for part in filter(None, (option or "").split(",")):
        name, _, value = part.partition("=")
        if not value.isdigit() or not int(value):
            raise RecipeError(f"--shape {part}: expected NAME=NUMBER, such as num_layers=12,hidden_size=768")
        sizes[name.strip()] = int(value)
    return sizes


def _total(stages: list[StageEstimate]) -> dict[str, float]:
    return {
        "flops": sum(stage.flops for stage in stages),
        "memory_gb": max(stage.memory_gb for stage in stages),
        "seconds": sum(stage.seconds.total for stage in stages),
        "cost": sum(stage.cost for stage in stages),
    }


def _show(stages: list[StageEstimate]) -> None:
    from rich.table import Table

    from warmstart.cli import screen

    table = Table("stage")
    for name in ("steps", "tokens", "FLOPs", "memory", "time", "cost"):
        table.add_column(name, justify="right")
    for stage in stages:
        numbers = (f"{stage.steps:,}", f"{stage.tokens:,}", f"{stage.flops:.2e}", f"{stage.memory_gb:.1f} GB")
        table.add_row(stage.stage, *numbers, duration(stage.seconds.total), f"${stage.cost:.2f}")
    if len(stages) > 1:
        total = _total(stages)
        table.add_section()
        numbers = ("", "", f"{total['flops']:.2e}", f"{total['memory_gb']:.1f} GB")
        table.add_row("total", *numbers, duration(total["seconds"]), f"${total['cost']:.2f}")
    screen.console.print(table)
    for line in _notes(stages):
        screen.console.print(line, markup=False, highlight=False, soft_wrap=True)


def _notes(stages: list[StageEstimate]) -> list[str]:
    """What the numbers are based on."""
    from warmstart.plan.devices import AS_OF

    last = stages[-1]
    many = f"{last.devices} x " if last.devices > 1 else ""
    table = f"according to the table of devices of {AS_OF}; --measure measures on this machine"
    lines = [f"{many}{last.hardware}, {last.precision}, {'from steps measured here' if last.measured else table}"]
    for stage in stages:
        trained = "all" if stage.trainable_parameters == stage.parameters else f"{stage.trainable_parameters:,}"
        lines.append(
            f"{stage.stage}: {stage.parameters:,} parameters, {trained} trainable; {stage.padding:.1%} of the tokens "
            "are padding"
        )
        seconds = stage.seconds
        if seconds.startup or seconds.evaluation:
            parts = {"startup": seconds.startup, "training": seconds.training, "evaluation": seconds.evaluation}
            times = ", ".join(f"{name} {duration(value)}" for name, value in parts.items() if value)
            lines.append(f"{stage.stage}: {times}")
        if not stage.fits:
            lines.append(
                f"{stage.stage}: more than the memory of {stage.hardware}; try a smaller --batch-size or --max-tokens"
            )
    return lines


def duration(seconds: float) -> str:
    """A time in a unit of its size."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def _show_devices(json: bool) -> None:
    from rich.table import Table

    from warmstart.cli import screen
    from warmstart.plan.devices import AS_OF, DEVICES

    if json:
        screen.print_json([device.as_json() for device in DEVICES.values()])
        return
    table = Table("name", "device", "peak TFLOP/s (utilization)")
    for name in ("memory", f"$/h ({AS_OF})"):
        table.add_column(name, justify="right")
    for device in DEVICES.values():
        peaks = ", ".join(
            f"{precision} {peak:g} ({device.utilization[precision]:g})"
            for precision, peak in device.peak_tflops.items()
        )
        table.add_row(device.name, device.about, peaks, f"{device.memory_gb:g} GB", f"{device.price_per_hour:.2f}")
    screen.console.print(table)
