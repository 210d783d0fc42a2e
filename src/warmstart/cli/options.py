"""Options that verbs share: each is short for a recipe field, whose meaning is its help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from warmstart.errors import RecipeError
from warmstart.options import Values, meaning
from warmstart.recipe import SHIPPED, Recipe
from warmstart.runtime import plugins
from warmstart.storage.yaml_files import parse_value


def field(key: str, *options: str, metavar: str | None = None, names: Sequence[str] = ()) -> Any:
    """An option that sets a recipe field; its help is the field's meaning, and the names that it takes, if given."""
    known = f" Known: {', '.join(names)}." if names else ""
    return typer.Option(*options, help=f"{meaning(Recipe, key)}{known} [{key}]", metavar=metavar, show_default=False)


Model = Annotated[str | None, field("model", "--model", metavar="NAME|FOLDER")]
From = Annotated[
    str | None,
    typer.Option("--recipe", help="A recipe to start from; `warmstart show --recipes` lists them.", metavar="NAME"),
]
Task = Annotated[str | None, field("task", "--task", metavar="NAME", names=plugins.names("tasks"))]
Test = Annotated[str | None, field("data.test", "--test", metavar="FILE")]
Dev = Annotated[str | None, field("data.dev", "--dev", metavar="FILE")]
Drop = Annotated[list[str] | None, field("data.drop", "--drop", metavar="unlabelled|empty|leaked")]
MaxTokens = Annotated[int | None, field("window.max_tokens", "--max-tokens")]
Epochs = Annotated[float | None, field("training.epochs", "--epochs")]
BatchSize = Annotated[int | None, field("training.batch_size", "--batch-size")]
Training = Annotated[str | None, field("training.precision", "--precision", metavar="NAME")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any recipe field, such as training.learning_rate=1e-4 or task.multi_label=true.",
        metavar="KEY=VALUE",
    ),
]
Text = Annotated[str | None, typer.Option("--text", help="The column with the text.", metavar="COLUMN")]
Pair = Annotated[
    str | None, typer.Option("--pair", help="The column with the second text of a pair.", metavar="COLUMN")
]
Label = Annotated[str | None, typer.Option("--label", help="The column with the label.", metavar="COLUMN")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="The file's column for a column of the task, such as question=title; repeat it to make a list of several.",
        metavar="NAME=COLUMN",
    ),
]
Format = Annotated[str | None, field("data.format", "--format", metavar="NAME")]
Header = Annotated[bool | None, field("data.header", "--header/--no-header")]
Delimiter = Annotated[str | None, field("data.delimiter", "--delimiter", metavar="CHARACTER")]
Sheet = Annotated[str | None, field("data.sheet", "--sheet", metavar="NAME")]
Quotes = Annotated[str | None, field("data.quotes", "--quotes", metavar="double|none")]
Encoding = Annotated[str | None, field("data.encoding", "--encoding", metavar="NAME")]
ExtraColumns = Annotated[str | None, field("data.extra_columns", "--extra-columns", metavar="refuse|ignore")]
Document = Annotated[str | None, field("data.document", "--document", metavar="paragraph|line")]
Precision = Annotated[
    str,
    typer.Option("--precision", help="The precision: fp32, as in plain transformers; bf16, fp16, int8, or auto."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help=f"The inference engine: {', '.join(plugins.names('engines'))}, or auto, the fastest; all but torch may "
        "need `warmstart export` first.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="How answers are explained: integrated-gradients, gradient-input, occlusion or lime.",
        metavar="NAME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]

READING = {
    "text": "data.columns.text",
    "pair": "data.columns.pair",
    "label": "data.columns.label",
    "format": "data.format",
    "header": "data.header",
    "delimiter": "data.delimiter",
    "sheet": "data.sheet",
    "quotes": "data.quotes",
    "encoding": "data.encoding",
    "extra_columns": "data.extra_columns",
    "document": "data.document",
}
"""Recipe field of each option for reading a file."""
DATA = {
    **READING,
    "model": "model",
    "task": "task",
    "dev": "data.dev",
    "test": "data.test",
    "drop": "data.drop",
    "max_tokens": "window.max_tokens",
}
"""Recipe field of each option of a verb that reads training data."""


def base_recipe(source: str, recipe: str | None) -> str | None:
    """The recipe to start from: the source, one that comes with warmstart, or none."""
    if not source.endswith((".yaml", ".yml")):
        return f"{SHIPPED}{recipe}" if recipe else None
    if recipe:
        raise RecipeError(f"--recipe {recipe}: {source} is a recipe already; give a data file, or leave --recipe out")
    return source


def split_names(names: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]


def recipe_fields(values: Values, keys: dict[str, str]) -> Values:
    """Recipe fields and values of the options that were given."""
    fields = {key: values[name] for name, key in keys.items() if values.get(name) not in (None, [])}
    for mapping in values.get("column") or []:
        name, equals, column = mapping.partition("=")
        if not equals or not name:
            raise RecipeError(f"--column {mapping}: expected NAME=COLUMN, such as --column question=title")
        key = f"data.columns.{name.strip()}"
        earlier = fields.get(key, [])
        fields[key] = [*([earlier] if isinstance(earlier, str) else earlier), column] if key in fields else column
    return fields


def parse_sets(settings: list[str] | None) -> Values:
    """`--set training.learning_rate=1e-4` as a recipe field and its value."""
    changes = {}
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise RecipeError(f"--set {setting}: expected KEY=VALUE, such as --set training.learning_rate=1e-4")
        changes[key.strip()] = parse_value(value)
    return changes
