"""warmstart fit: train a model and evaluate it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.cli.options import field
from warmstart.errors import TrainingError
from warmstart.options import Values
from warmstart.recipe.added_rows import added_files
from warmstart.recipe.recipe import CHOOSE, LINEAR_PROBE

if TYPE_CHECKING:
    from warmstart.evaluation.records.training import TrainingRecord
    from warmstart.evaluation.run import RunFolder

SHORT = {
    **options.DATA,
    "learning_rate": "training.learning_rate",
    "epochs": "training.epochs",
    "max_steps": "training.max_steps",
    "batch_size": "training.batch_size",
    "time_limit": "training.time_limit",
    "precision": "training.precision",
    "seed": "seed",
    "seeds": "seeds",
    "select": "select",
    "baseline": "baseline",
    "ablate": "ablate",
}
"""Recipe field of each option."""

Out = Annotated[
    str | None,
    typer.Option("--out", help="The folder of the run. Default: runs/ and the name of the recipe or data file."),
]

Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Train nothing: solve a linear head on the frozen encoder, in seconds. Short for "
        "--set layers.freeze=encoder --set head.init=linear-probe.",
    ),
]

Strict = Annotated[
    bool,
    typer.Option("--strict", help="End with exit code 8 if the finished run has a warning."),
]


def command(
    source: Annotated[str, typer.Argument(help="A recipe (.yaml), or a data file to train on.", metavar="RECIPE|FILE")],
    model: options.Model = None,
    models: Annotated[str | None, field("models", "--models", metavar="MODEL,MODEL…")] = None,
    task: options.Task = None,
    recipe: options.From = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    test: options.Test = None,
    dev: options.Dev = None,
    add: Annotated[list[str] | None, field("data.add", "--add", metavar="FILE")] = None,
    out: Out = None,
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
    learning_rate: Annotated[float | None, field("training.learning_rate", "--learning-rate", "--lr")] = None,
    epochs: options.Epochs = None,
    max_steps: Annotated[int | None, field("training.max_steps", "--max-steps")] = None,
    batch_size: options.BatchSize = None,
    time_limit: Annotated[str | None, field("training.time_limit", "--time-limit", metavar="TIME")] = None,
    precision: options.Training = None,
    max_tokens: options.MaxTokens = None,
    seed: Annotated[int | None, field("seed", "--seed")] = None,
    seeds: Annotated[int | None, field("seeds", "--seeds")] = None,
    select: Annotated[str | None, field("select", "--select", metavar="best|average|ensemble")] = None,
    baseline: Annotated[str | None, field("baseline", "--baseline", metavar="plain")] = None,
    ablate: Annotated[list[str] | None, field("ablate", "--ablate", metavar="KEY")] = None,
    quick: Quick = False,
    strict: Strict = False,
    resume_anyway: Annotated[
        list[str] | None,
        typer.Option("--resume-anyway", help="Resume a stopped run although this setting differs.", metavar="NAME"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Train a model on a recipe or a data file, and evaluate it on held-out rows."""
    _fit(source, options.base_recipe(source, recipe), _changes(dict(locals())), dict(locals()))


def _fit(source: str, base: str | None, changes: Values, values: Values) -> None:
    """Train, and show the run."""
    started = time.monotonic()
    if base != source:
        changes = {"data.train": source, **changes}
    from warmstart.cli.preflight import checked_recipe

    out, resume_anyway = values["out"], values["resume_anyway"] or []
    checked_recipe("fit", source, base, changes, out)
    from warmstart.api import fit
    from warmstart.cli import screen
    from warmstart.evaluation.training_warnings import training_warnings
    from warmstart.runtime import processes

    run = fit(base, out=out, progress=screen.Bars(), resume_anyway=resume_anyway, **changes)
    if processes.is_main_process():
        warnings = training_warnings(run)
        if values["json"]:
            _show_json(run, warnings)
        else:
            _show(run, warnings, time.monotonic() - started)
        if values["strict"] and warnings:
            raise typer.Exit(TrainingError.exit_code)


def _changes(values: Values) -> Values:
    """The recipe fields that the options set."""
    models, recipe = values["models"], values["source"] if values["source"].endswith((".yaml", ".yml")) else None
    return {
        **(LINEAR_PROBE if values["quick"] else {}),
        **({"model": CHOOSE, "models": options.split_names(models)} if models else {}),
        **options.recipe_fields(values, SHORT),
        **({"data.add": added_files(recipe, values["add"])} if values["add"] else {}),
        **options.parse_sets(values["set_"]),
    }


def _show_json(run: RunFolder, warnings: list[str]) -> None:
    from warmstart.cli import screen
    from warmstart.evaluation.records.encoder_choice import read_choice
    from warmstart.evaluation.records.files import as_json
    from warmstart.evaluation.records.search_baseline import search_records

    result = {"run": str(run.folder), "metrics": run.metrics, "training": _brief(run), "data": as_json(run.data)}
    result["warnings"] = warnings
    records = {"encoder": read_choice(run.folder), **search_records(run.folder), "evidence": run.evidence}
    result |= {name: as_json(record) for name, record in records.items() if record is not None}
    screen.print_json(result)


def _brief(run: RunFolder) -> dict[str, Any]:
    from warmstart.evaluation.records.files import as_json

    training = as_json(run.training)
    return {
        name: training[name]
        for name in ("steps", "seconds", "precision", "window", "linear_probe", "final_model", "rules")
        if name in training
    }


def _words(run: RunFolder) -> str:
    """What to type for a text of this run's task."""
    from warmstart import tasks
    from warmstart.cli.answer_tables import flatten

    placeholder = tasks.find_or_base(run.recipe.task.name).placeholder("pair" in run.recipe.data.columns)
    return " ".join(f'"{word}"' for word in flatten(placeholder))


def _title(run: RunFolder) -> str:
    name = run.recipe.model.rstrip("/").rpartition("/")[2]
    return f"{run.recipe.task.name} with {name}" if name else f"{run.recipe.task.name}, from scratch"


def _times(training: TrainingRecord, seconds: float) -> str:
    """What took how long, by name. A training that was resumed may have taken longer than the command."""
    parts = {"features and linear probe": training.linear_probe.seconds if training.linear_probe else 0.0}
    parts |= {f"training in {training.precision}": training.seconds if training.steps else 0.0}
    parts |= {"reading, checking and evaluating": max(seconds - sum(parts.values()), 0.0)}
    shown = [f"{part} {spent:.0f} s" for part, spent in parts.items() if spent]
    return ", ".join([*shown, f"the whole command {seconds:.0f} s"])


def _show(run: RunFolder, warnings: list[str], seconds: float) -> None:
    from warmstart.cli import encoder_table, evidence_tables, screen
    from warmstart.evaluation.records.encoder_choice import read_choice
    from warmstart.evaluation.records.search_baseline import search_records

    screen.findings(run.data.findings)
    training, rows = run.training, dict[str, Any]()
    if choice := read_choice(run.folder):
        encoder_table.show(choice.scores)
        rows["encoder"] = choice.sentence
    for part, metrics in run.metrics.items():
        rows |= {f"{part} {name}": value for name, value in metrics.items()}
    rows |= {name.replace("_", " "): record.score for name, record in search_records(run.folder).items()}
    if training.linear_probe:
        rows["linear probe"] = training.linear_probe.score
        if training.linear_probe.tfidf:
            rows["TF-IDF + SVM"] = training.linear_probe.tfidf.score
    if training.final_model:
        rows["final model"] = training.final_model.choice
    if training.rules:
        rows["by rule"] = ", ".join(rule.sentence for rule in training.rules)
    rows |= {
        "training rows": run.data.parts["train"].rows,
        "window": screen.window(training.window),
        "steps": training.steps,
        "time": _times(training, seconds),
        "model": str(run.model),
    }
    screen.table(_title(run), rows)
    if run.evidence:
        evidence_tables.show(run.evidence)
    for warning in warnings:
        screen.warn(warning)
    screen.console.print(f"Next: warmstart predict {run.folder} {_words(run)}", markup=False, highlight=False)
    screen.console.print(f"      warmstart report {run.folder}", markup=False, highlight=False)
