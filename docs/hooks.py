"""Parts of pages that are generated from the code: `<!-- generate: NAME -->` calls NAME when the site is built.

`make reference` also writes them into the pages of docs/reference/ and the comparison, up to `<!-- end: NAME -->`, for
those who read them in a checkout; a test keeps them equal to the code.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent))
from comparison import against

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
REFERENCE = Path(__file__).parent / "reference"
EVIDENCE = Path(__file__).parent / "evidence.yaml"
SAMPLE = Path(__file__).resolve().parent / "sample-run" / "messages"
SOURCE = ROOT / "src" / "warmstart"
WRITTEN = [*sorted(REFERENCE.glob("*.md")), Path(__file__).parent / "explanation" / "why.md"]
"""Pages that are complete in a checkout, too."""


_PLACE = re.compile(r"<!-- generate: (\w+) -->(?:.*?<!-- end: \1 -->)?", re.DOTALL)
_CLASSES = {
    "sweep": ("warmstart.recipe", "Sweep"),
    "range": ("warmstart.recipe", "SearchRange"),
    "study": ("warmstart.recipe.study", "Study"),
    "set": ("warmstart.recipe.study", "StudySet"),
    "size": ("warmstart.recipe.study", "StudySize"),
    "method": ("warmstart.recipe.study", "StudyMethod"),
    "peer": ("warmstart.recipe.study", "StudyPeer"),
    "published": ("warmstart.recipe.study_claims", "StudyPublished"),
    "claim": ("warmstart.recipe.study_claims", "StudyClaim"),
    "curve": ("warmstart.recipe.study_claims", "StudyCurve"),
    "fullsize": ("warmstart.recipe.study_claims", "StudyFullSize"),
}
"""Options classes whose fields are a table."""
_AT_BUILD_ONLY = "public"
"""Its text is a directive to mkdocstrings, which says nothing in a checkout."""


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Fill in what is generated, and what a guide rests on; mkdocs calls this for every page."""
    uri = page.file.src_uri if page is not None else ""
    if uri.startswith("results/"):
        columns = max((line.count("|") for line in markdown.splitlines() if line.startswith("| ")), default=0)
        page.meta["hide"] = ["toc", "navigation"] if columns > 12 else ["toc"]  # room for tables
        page.meta["search"] = {"boost": 0.5}  # who searches wants to do something: guides come first
    filled = _PLACE.sub(lambda match: _make(match[1]), markdown)
    guide = re.fullmatch(r"howto/([\w-]+)\.md", uri)
    return f"{filled}\n\n*Evidence: {_rests_on(evidence_of('advice')[guide[1]])}.*\n" if guide else filled


def on_page_content(html: str, **_: Any) -> str:
    """Make an empty heading of a column an ordinary cell, which screen readers pass over; mkdocs calls this."""
    return re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)


def on_files(files: Any, config: Any) -> Any:
    """Add the sample report, made from the records of a run that are kept; mkdocs calls this before any page."""
    from mkdocs.structure.files import File

    from warmstart.report.page import render
    from warmstart.report.run_facts import read_facts

    files.append(File.generated(config, "howto/sample-report.html", content=render(read_facts(SAMPLE))))
    return files


def written(markdown: str) -> str:
    """A page of the reference as it is in the repository: what is generated stands between two marks."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return (
            match[0]
            if name == _AT_BUILD_ONLY
            else f"<!-- generate: {name} -->\n\n{_make(name)}\n\n<!-- end: {name} -->"
        )

    return _PLACE.sub(fill, markdown)


def _make(name: str) -> str:
    """What is generated under a name."""
    makers = {"cli": cli, "recipe": recipe, "tasks": tasks, "faults": faults, "results": results, "exits": exits}
    makers |= {"labelling": labelling, "pretraining": pretraining, "packages": packages, "imports": imports}
    makers |= {"public": public, "schedules": schedules, "synonyms": synonyms, "evidence": evidence, "sample": sample}
    if name.startswith("against_"):
        return against(name.removeprefix("against_"))
    return makers[name]() if name in makers else _options(*_CLASSES[name])


def sample() -> str:
    """The link to the sample report, which there is on the site alone."""
    return "**[Open a sample report](sample-report.html)**: a run on these messages with the default options."


def evidence_of(part: str) -> dict[str, Any]:
    """What is said of the defaults, the rules or the advice to rest on."""
    content: dict[str, dict[str, Any]] = yaml.safe_load(EVIDENCE.read_text(encoding="utf-8"))
    return content[part]


def evidence() -> str:
    """What every default, rule and guide rests on."""
    parts = {"Defaults of fit": "defaults", "Rules": "rules", "How-to guides": "advice"}
    heads = {"defaults": "field", "rules": "constant", "advice": "guide"}
    sections = []
    for title, part in parts.items():
        link = "[{0}](../howto/{0}.md)" if part == "advice" else "`{0}`"
        rows = [(link.format(name), _rests_on(said)) for name, said in evidence_of(part).items()]
        sections.append(f"## {title}\n\n{_table((heads[part], 'evidence'), rows)}")
    return "\n\n".join(sections)


def _rests_on(said: Any) -> str:
    """The measurement behind something, or that there is none."""
    if isinstance(said, str):
        return f"none. {said[:1].upper()}{said[1:]}"
    page = f"[{_title(RESULTS / (said['page'] + '.md'))}](../results/{said['page']}.md)"
    return f"{page}, row *{said['row']}*: {said['says']}"


def public() -> str:
    """What the package exports, each from its docstring; what most people need comes first."""
    import warmstart

    first = ["fit", "load", "Run", "Predictor"]
    parts = []
    for name in [*first, *sorted(set(warmstart.__all__) - set(first), key=str.lower)]:
        item = getattr(warmstart, name)
        if isinstance(item, type) and issubclass(item, Exception | BaseModel):
            continue  # errors and the recipe have places of their own
        public = "[fit, predict, predict_proba]"
        members = f"\n      members: {public}" if name in ("TextClassifier", "TextScorer") else ""
        inherits = name == "Run" or members
        inherited = f"\n    options:\n      inherited_members: true{members}" if inherits else ""
        parts.append(f"::: {item.__module__}.{name}{inherited}")
    return "\n\n".join(parts)


def packages() -> str:
    """Every package and root module with the first sentence of its docstring and the modules in it, top layer first."""
    rows = []
    for layer in _layers():
        for name in layer:
            path = SOURCE / name if (SOURCE / name).is_dir() else SOURCE / f"{name}.py"
            inside = sorted(item for item in path.glob("*") if _is_module(item)) if path.is_dir() else []
            modules = " · ".join(f"{item.stem}/" if item.is_dir() else item.stem for item in inside)
            rows.append((f"`{name}/`" if path.is_dir() else f"`{name}.py`", _first_sentence(path), modules))
    return _table(("package", "what it does", "modules"), rows)


def imports() -> str:
    """The layers, top first, and the other rules for imports, as import-linter reads them from pyproject.toml."""
    first, *others = _contracts()
    rows = [(str(number), ", ".join(f"`{name}`" for name in layer)) for number, layer in enumerate(_layers(), 1)]
    lines = [f"**{first['name']}.**\n\n{_table(('layer', 'packages and modules'), rows)}\n"]
    for contract in others:
        if contract["type"] == "forbidden":
            sources = _short_names(contract["source_modules"], "and")
            forbidden = _short_names(contract["forbidden_modules"], "or")
            lines.append(f"- **{contract['name']}.** {sources} must not import {forbidden}, even indirectly.")
        else:
            lines.append(f"- **{contract['name']}.**")
    return "\n".join(lines)


def _contracts() -> list[dict[str, Any]]:
    """What import-linter checks; the first contract is that of the layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


def _layers() -> list[list[str]]:
    """The layers from the top, each a list of packages and modules that do not import each other."""
    return [layer.split(" | ") for layer in _contracts()[0]["layers"]]


def _short_names(modules: list[str], word: str) -> str:
    names = [f"`{module.removeprefix('warmstart.')}`" for module in modules]
    return ", ".join(names[:-1]) + f" {word} " + names[-1] if names[1:] else names[0]


def _is_module(path: Path) -> bool:
    return (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()


def _first_sentence(path: Path) -> str:
    """The first line of the docstring of a package or module."""
    file = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def cli() -> str:
    """Every command with its arguments and options, from the texts of `--help`."""
    from warmstart.cli.main import VERBS, load_verb

    parts = []
    for name, about in VERBS.items():
        rows = [_parameter(item) for item in load_verb(name).params if "--help" not in item.opts]
        parts.append(f"## {name}\n\n{about}\n\n{_table(('argument or option', 'meaning'), rows)}")
    return "\n\n".join(parts)


def exits() -> str:
    """The exit codes of the command line, from the errors that have one."""
    from warmstart import errors
    from warmstart.cli.main import INTERRUPTED, UNEXPECTED

    kinds = [kind for kind in vars(errors).values() if getattr(kind, "__base__", None) is errors.WarmstartError]
    meanings = {kind.exit_code: (kind.__doc__ or "").partition("\n")[0].rstrip(".") for kind in kinds}
    meanings |= {0: "Success", 2: "Wrong usage: an unknown option, a missing argument", INTERRUPTED: "Interrupted"}
    meanings |= {UNEXPECTED: "A bug in warmstart; set `WARMSTART_TRACEBACK=1` to see the traceback"}
    return _table(("code", "meaning"), [(str(code), meaning) for code, meaning in sorted(meanings.items())])


def recipe() -> str:
    """Every field of a recipe, with the text under the field as its meaning."""
    from warmstart.recipe import Recipe

    return "\n\n".join(_sections(Recipe, ""))


def _options(module: str, name: str) -> str:
    """Every field of an Options class."""
    return _table(_HEAD, _fields(getattr(importlib.import_module(module), name), ""))


_SHAPES = {"small encoder": 6 * 12 * 384**2, "BERT-base": 12 * 12 * 768**2}
"""Parameters outside the embeddings."""
_FASTEST = ("cpu-amx", "t4", "l4", "a100-40", "h100")
_TOKENS = 200
"""Tokens of a document."""


def labelling() -> str:
    """What it costs to label documents, by device and size of the encoder."""
    rows = []
    for device, shape, each in _speeds(passes=1):
        hours = 1e6 * _TOKENS / each / 3600
        rows.append((device.about, shape, *map(_short, (each, each / _TOKENS, hours, hours * device.price_per_hour))))
    names = ("device", "encoder", "tokens/s", "documents/s", "hours per 10⁶ documents", "dollars per 10⁶ documents")
    return _table(names, rows)


def pretraining() -> str:
    """What it costs to train on tokens, by device and size of the encoder."""
    rows = []
    for device, shape, each in _speeds(passes=3):
        hours = [count / each / 3600 for count in (1e9, 1e11)]
        costs = (f"{_short(time)} ({_short(time * device.price_per_hour)})" for time in hours)
        rows.append((device.about, shape, _short(each), *costs))
    return _table(("device", "encoder", "tokens/s", "hours (dollars) for 10⁹ tokens", "for 10¹¹ tokens"), rows)


def _short(number: float) -> str:
    """A number with two significant digits; an estimate has no more."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _speeds(passes: int) -> Iterator[tuple[Any, str, float]]:
    """Each device with each encoder, and the tokens per second it computes in 16-bit precision."""
    from warmstart.plan.devices import find_device

    for device in map(find_device, _FASTEST):
        half = "bf16" if "bf16" in device.peak_tflops else "fp16"
        for shape, parameters in _SHAPES.items():
            yield device, shape, 1 / device.seconds(2 * passes * parameters, half)


def tasks() -> str:
    """Every task with its columns and its options."""
    from warmstart import tasks as known

    parts = []
    for name in known.names():
        kind = known.find(name)
        options = kind.options_class
        about = (sys.modules[kind.__module__].__doc__ or "").partition("\n")[0].removeprefix(f"{name}: ")
        columns = [
            (f"`{column.name}`", column.kind, column.meaning, "no" if not column.required else "yes")
            for column in kind.schema(options())
        ]
        table = _table(("column", "type", "meaning", "required"), columns)
        text = f"## {name}\n\n{about[:1].upper()}{about[1:]}\n\n{table}"
        fields = _fields(options, "task.")
        parts.append(text + "\n\n" + (_table(_HEAD, fields) if fields else "No options."))
    return "\n\n".join(parts)


def faults() -> str:
    """Every kind of finding, grouped by where it occurs."""
    from warmstart.data import fault_kinds as known

    groups = {
        "Files": known.FILES,
        "Values": known.VALUES,
        "While reading": known.READING,
        "Texts": known.TEXTS,
        "Answers": known.ANSWERS,
    }
    parts = []
    for title, kinds in groups.items():
        rows = [(f"`{kind.name}`", kind.severity, kind.meaning) for kind in kinds]
        parts.append(f"## {title}\n\n{_table(('kind', 'severity', 'meaning'), rows)}")
    return "\n\n".join(parts)


def synonyms() -> str:
    """What other libraries call each recipe field."""
    from warmstart.recipe.synonyms import RECIPE

    fields: dict[str, list[str]] = {}
    for name, field in RECIPE.items():
        fields.setdefault(field, []).append(f"`{name}`")
    # The columns of a file are a mapping below one field.
    here = {field: f"`{field.replace('data.columns.', 'data.columns: ')}`" for field in fields}
    return _table(("here", "elsewhere"), [(here[field], ", ".join(names)) for field, names in fields.items()])


_GALLERY = {
    "Accuracy": "defaults default-parts everything-else precision libraries tagging relation-rates search craft plain "
    "tasks stages distil soft-labels ask thresholds diagnosis statistics forgetting scratch round-trips",
    "Looking inside": "probes attention heads explain",
    "Speed": "train step overhead flushes shrink predict features plan memory corpus long long-recurrent",
    "Published tables, redone": "studies domains feature-based forgetting-rates glue layer-rates layers "
    "learning-curves multitask practitioner pretraining-steps pretraining-tasks relations steadiness truncation",
    "Reliability": "simulation kill kill-defaults kill-distil kill-recurrent fsdp three-stages sweep exactly-once "
    "outage cluster corrupt verify full-disk order same-answers readers faults first-minutes import image report "
    "site unchanged",
    "Security": "hostile secrets server",
}
"""The result pages by what they are about, the most important first; others are listed under `More`."""


def results() -> str:
    """The result pages by subject, each with its title and its conclusion."""
    pages = {page.stem: page for page in sorted(RESULTS.glob("*.md")) if page.name != "index.md"}
    groups = {title: [name for name in names.split() if name in pages] for title, names in _GALLERY.items()}
    groups["More"] = [name for name in pages if all(name not in names for names in groups.values())]
    return "\n\n".join(
        f"## {title}\n\n" + "\n".join(f"- **[{_title(pages[name])}]({name}.md).** {conclusion(name)}" for name in names)
        for title, names in groups.items()
        if names
    )


def conclusion(name: str) -> str:
    """What a result page opens with: the first sentence below its title."""
    paragraph = (RESULTS / f"{name}.md").read_text(encoding="utf-8").split("\n\n")[1]
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[\w*%)`]\.)(?=\s+[A-Z`*\d])", text)[0]


def schedules() -> str:
    """A plot of every learning rate schedule over a thousand steps, in the colours of the page."""
    import io

    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from warmstart.training.schedules import SCHEDULES, lr_factor

    figure, axes = pyplot.subplots(2, 3, figsize=(9, 4.2), sharex=True, sharey=True, layout="constrained")
    for plot, name in zip(axes.flat, SCHEDULES, strict=True):
        plot.plot([step / 10 for step in range(1001)], [lr_factor(name, step, 1000) for step in range(1001)], "C0")
        plot.set_title(name, fontsize=11)
        plot.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("% of all steps", fontsize=10)
    figure.supylabel("share of the peak learning rate", fontsize=10)
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    pyplot.close(figure)
    drawing = file.getvalue()[file.getvalue().index("<svg") :].replace("#000000", "currentColor")
    about = "The six learning rate schedules, with 10% warm-up and lr_ratio 32."
    # Glyphs have no colour of their own, and would be black on a dark page.
    style = "max-width:100%;height:auto;fill:currentColor"
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{about}" style="{style}" ', 1)
    # Markdown takes a <style> out of an <svg>, which is no block to it, and closes the drawing there; in a <figure>,
    # which is one, all stays as it is.
    return f"<figure>\n{drawing}\n</figure>"


_HEAD = ("field", "type", "default", "meaning")


def _sections(options: Any, prefix: str, shown: set[Any] | None = None) -> list[str]:
    """A table for an Options class, then one for each class below it; a class that several fields hold appears once."""
    shown = set() if shown is None else shown
    about = " ".join((options.__doc__ or "").split())
    title = f"## {prefix.rstrip('.')}" if prefix else "## Top level"
    sections = [f"{title}\n\n{about}\n\n{_table(_HEAD, _fields(options, prefix))}"]
    for name, field in _named(options):
        for below in _classes(field.annotation):
            if below not in shown:
                shown.add(below)
                sections += _sections(below, f"{prefix}{name}.", shown)
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
    return [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Options)]


def _kind(annotation: Any, limits: Any = ()) -> str:
    """A type in words."""
    from warmstart.options import OneOf

    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        flat = [limit for extra in more for limit in (getattr(extra, "metadata", None) or [extra])]
        return _kind(inner, flat)
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_kind(choice) for choice in get_args(annotation) if choice is not type(None))
    if origin is list:
        return f"list of {_kind(get_args(annotation)[0])}"
    if origin is dict or annotation is dict:
        return "mapping"
    for limit in limits:
        if isinstance(limit, OneOf):
            return " or ".join(f"`{name}`" for name in limit.names())
    words = {str: "string", int: "integer", float: "number", bool: "true or false"}
    word = words.get(annotation, "mapping")
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(limit, name)}" for limit in limits for name, sign in signs.items() if hasattr(limit, name)
    ]
    return ", ".join([word, *bounds])


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, BaseModel):
        return f"`{value.name}`" if "name" in type(value).model_fields else "below"
    if value in (None, ""):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _parameter(item: Any) -> tuple[str, str]:
    """An argument or option as a row; its help ends with the recipe field that it sets."""
    help = re.sub(r" \[([a-z_.]+)\]$", r" (`\1`)", item.help or "")
    if item.param_type_name == "argument":
        return f"`{item.metavar or item.name.upper()}`" + ("" if item.required else " (optional)"), help
    names = " / ".join(f"`{name}`" for name in (*item.opts, *item.secondary_opts))
    return names + (f" `{item.metavar}`" if item.metavar else ""), help


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    # A bar inside a cell would end the cell.
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |" for row in lines
    )


def _title(page: Path) -> str:
    first = page.read_text(encoding="utf-8").lstrip().partition("\n")[0]
    return first.removeprefix("# ") if first.startswith("# ") else page.stem


if __name__ == "__main__":
    for page in WRITTEN:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
