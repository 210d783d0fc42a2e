"""Pages made from the code when the site is built: a line `<!-- generate: NAME -->` becomes what NAME makes."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

RESULTS = Path(__file__).parent / "results"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what is generated; mkdocs calls this for every page."""
    makers = {"cli": cli, "recipe": recipe, "tasks": tasks, "faults": faults, "results": results}
    makers |= {"schedules": schedules, "sweep": sweep, "range": sweep_range}
    makers |= {"labelling": labelling, "pretraining": pretraining}
    return re.sub(r"<!-- generate: (\w+) -->", lambda found: makers[found[1]](), markdown)


def cli() -> str:
    """Every verb with its arguments and options, as `--help` knows them."""
    from warmstart.cli.main import VERBS, load_verb

    parts = []
    for name, about in VERBS.items():
        rows = [_parameter(one) for one in load_verb(name).params if "--help" not in one.opts]
        parts.append(f"## {name}\n\n{about}\n\n{_table(('argument or option', 'meaning'), rows)}")
    return "\n\n".join(parts)


def recipe() -> str:
    """Every field of a recipe, its meaning taken from the text under the field."""
    from warmstart.recipe import Recipe

    return "\n\n".join(_sections(Recipe, ""))


def sweep() -> str:
    """Every field of a sweep."""
    from warmstart.recipe import Sweep

    return _table(_HEAD, _fields(Sweep, ""))


def sweep_range() -> str:
    """Every field of a range that is searched."""
    from warmstart.recipe import Range

    return _table(_HEAD, _fields(Range, ""))


_SHAPES = {"small encoder": 6 * 12 * 384**2, "BERT-base": 12 * 12 * 768**2}
"""Parameters outside the embeddings."""
_FASTEST = ("cpu-amx", "t4", "l4", "a100-40", "h100")
_WORDS = 200
"""Tokens of a document."""


def labelling() -> str:
    """What it costs to label documents, by device and size of the encoder."""
    rows = []
    for device, shape, each in _speeds(passes=1):
        hours = 1e6 * _WORDS / each / 3600
        rows.append((device.what, shape, *map(_short, (each, each / _WORDS, hours, hours * device.price))))
    names = ("device", "encoder", "tokens a second", "documents a second", "hours a million", "dollars a million")
    return _table(names, rows)


def pretraining() -> str:
    """What it costs to train on tokens, by device and size of the encoder."""
    rows = []
    for device, shape, each in _speeds(passes=3):
        hours = [count / each / 3600 for count in (1e9, 1e11)]
        costs = (f"{_short(one)} ({_short(one * device.price)})" for one in hours)
        rows.append((device.what, shape, _short(each), *costs))
    return _table(("device", "encoder", "tokens a second", "hours (dollars) for 10⁹", "hours (dollars) for 10¹¹"), rows)


def _short(number: float) -> str:
    """Two digits of a number, for estimates: no more of it is known."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _speeds(passes: int) -> Iterator[tuple[Any, str, float]]:
    """Each device with each encoder, and the tokens a second it computes, in its 16-bit format."""
    from warmstart.plan.devices import find

    for device in map(find, _FASTEST):
        half = "bf16" if "bf16" in device.peak else "fp16"
        for shape, parameters in _SHAPES.items():
            yield device, shape, 1 / device.seconds(2 * passes * parameters, half)


def tasks() -> str:
    """Every task: its columns and its own options."""
    from warmstart import tasks as known

    parts = []
    for name in known.names():
        kind = known.find(name)
        options = kind.options_class
        about = (known.importlib.import_module(kind.__module__).__doc__ or "").partition("\n")[0]
        columns = [
            (f"`{column.name}`", column.kind, column.meaning, "no" if not column.required else "yes")
            for column in kind.schema(options())
        ]
        text = f"## {name}\n\n{about}\n\n{_table(('column', 'holds', 'meaning', 'required'), columns)}"
        fields = _fields(options, "task.")
        parts.append(text + "\n\n" + (_table(_HEAD, fields) if fields else "No options of its own."))
    return "\n\n".join(parts)


def faults() -> str:
    """Every kind of fault, by where it is found."""
    from warmstart.data import fault_kinds as known

    groups = {
        "Files": known.FILES,
        "Values": known.VALUES,
        "Seen while reading": known.READING,
        "Texts": known.TEXTS,
        "Answers": known.ANSWERS,
    }
    parts = []
    for title, kinds in groups.items():
        rows = [(f"`{kind.name}`", kind.severity, kind.meaning) for kind in kinds]
        parts.append(f"## {title}\n\n{_table(('kind', 'severity', 'meaning'), rows)}")
    return "\n\n".join(parts)


def results() -> str:
    """The result pages that are there, by title."""
    pages = sorted(page for page in RESULTS.glob("*.md") if page.name != "index.md")
    lines = [f"- [{_title(page)}]({page.name})" for page in pages]
    return "\n".join(lines) or "None has been measured yet."


def schedules() -> str:
    """A picture of every schedule over a training of a thousand steps, in the colours of the page."""
    import io

    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from warmstart.training.schedules import SCHEDULES, factor

    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained")
    for place, name in zip(axes.flat, SCHEDULES, strict=True):
        place.plot([step / 10 for step in range(1001)], [factor(name, step, 1000) for step in range(1001)], "C0")
        place.set_title(name, fontsize=11)
        place.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("share of the steps, %", fontsize=10)
    figure.supylabel("share of the peak rate", fontsize=10)
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    drawing = file.getvalue()[file.getvalue().index("<svg") :].replace("#000000", "currentColor")
    about = "The six schedules over a training with a tenth of warm-up and a ratio of 32."
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{about}" style="max-width:100%;height:auto" ', 1)
    # A blank line would end the block of HTML.
    return "\n".join(line for line in drawing.splitlines() if line.strip())


_HEAD = ("field", "type", "default", "meaning")


def _sections(options: Any, prefix: str, told: set[Any] | None = None) -> list[str]:
    """A table of an Options class, then one of each class below it; a class that several fields hold is told once."""
    told = set() if told is None else told
    about = " ".join((options.__doc__ or "").split())
    title = f"## {prefix.rstrip('.')}" if prefix else "## The whole"
    sections = [f"{title}\n\n{about}\n\n{_table(_HEAD, _fields(options, prefix))}"]
    for name, field in _named(options):
        for below in _classes(field.annotation):
            if below not in told:
                told.add(below)
                sections += _sections(below, f"{prefix}{name}.", told)
    return sections


def _fields(options: Any, prefix: str) -> list[tuple[str, ...]]:
    return [
        (f"`{prefix}{name}`", _kind(field.annotation, field.metadata), _default(field), field.description or "")
        for name, field in _named(options)
    ]


def _named(options: Any) -> list[tuple[str, Any]]:
    from warmstart.options import fields_of

    return list(fields_of(options).items())


def _classes(annotation: Any) -> list[Any]:
    """The Options classes that a field can hold."""
    from warmstart.options import Options

    choices = (annotation, *get_args(annotation))
    return [one for one in choices if isinstance(one, type) and issubclass(one, Options)]


def _kind(annotation: Any, limits: Any = ()) -> str:
    """A type in a reader's words."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        flat = [limit for one in more for limit in (getattr(one, "metadata", None) or [one])]
        return _kind(inner, flat)
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in get_args(annotation) if one is not type(None))
    if origin is list:
        return f"list of {_kind(get_args(annotation)[0])}"
    if origin is dict or annotation is dict:
        return "mapping"
    words = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    word = words.get(annotation, "mapping")
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [f"{sign} {getattr(one, name)}" for one in limits for name, sign in signs.items() if hasattr(one, name)]
    return ", ".join([word, *bounds])


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if hasattr(value, "model_fields"):
        return f"`{value.name}`" if "name" in type(value).model_fields else "below"
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _parameter(one: Any) -> tuple[str, str]:
    """An argument or option of a verb as a row; the recipe field it sets stands at the end of its help."""
    help = re.sub(r" \[([a-z_.]+)\]$", r" (`\1`)", one.help or "")
    if one.param_type_name == "argument":
        return f"`{one.metavar or one.name.upper()}`" + ("" if one.required else " (optional)"), help
    names = " / ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    return names + (f" `{one.metavar}`" if one.metavar else ""), help


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    # A bar inside a cell would end it.
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def _title(page: Path) -> str:
    first = page.read_text(encoding="utf-8").lstrip().partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else page.stem
