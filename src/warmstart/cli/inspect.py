"""warmstart inspect: heads and layers switched off, attention, probes of layers, and explanations of answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, nearest
from warmstart.options import Values

if TYPE_CHECKING:
    from warmstart.diagnosis.run_inspector import RunInspector

SUBJECTS = ("heads", "layers", "attention", "probe", "explain")
PRECISIONS = ("fp32", "bf16", "fp16", "auto")


Subject = Annotated[
    str,
    typer.Argument(
        help="heads: what is lost without each attention head. layers: without the attention of each block, and "
        "without each block. attention: what heads attend to. probe: what each layer knows of the task. explain: the "
        "words behind an answer.",
        metavar="heads|layers|attention|probe|explain",
    ),
]
Texts = Annotated[
    list[str] | None, typer.Argument(help="With explain and attention: texts to look at.", metavar="TEXT")
]
File = Annotated[
    str | None,
    typer.Option("--file", help="A labelled file. Default: the run's dev rows, or its test rows.", metavar="FILE"),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        help="The maximum number of rows; more are sampled. Default: 500; for probe 1000, for attention 100, for "
        "explain 10.",
        min=1,
        show_default=False,
    ),
]
Remove = Annotated[
    int, typer.Option("--remove", help="With heads: switch this many off one after the other, greedily.", min=0)
]
Head = Annotated[
    str | None, typer.Option("--head", help="With attention: draw this head as lines, such as 3.7.", metavar="HEAD")
]
Words = Annotated[
    str | None,
    typer.Option("--words", help="With attention: also measure attention to these words, with commas between them."),
]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        help="With heads and layers: fp32; or bf16, fp16 or auto, which can be faster.",
        metavar="NAME",
    ),
]
Out = Annotated[str | None, typer.Option("--out", help="Write a page with pictures: an .html file.", metavar="FILE")]


def command(
    run: Annotated[str, typer.Argument(help="A finished run.", metavar="RUN")],
    subject: Subject,
    texts: Texts = None,
    file: File = None,
    limit: Limit = None,
    remove: Remove = 0,
    head: Head = None,
    words: Words = None,
    method: options.Method = "integrated-gradients",
    precision: Precision = "fp32",
    out: Out = None,
    text: options.Text = None,
    pair: options.Pair = None,
    label: options.Label = None,
    column: options.Columns = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Look inside the model of a run."""
    values = dict(locals())
    if subject not in SUBJECTS:
        raise RecipeError(f"inspect {subject}: {nearest(subject, SUBJECTS)}")
    _check(subject, values)
    from warmstart.inference.folders import model_folder

    model_folder(run)  # refused here, before torch is imported
    from warmstart.cli import inspection_tables, screen
    from warmstart.diagnosis.run_inspector import RunInspector
    from warmstart.evaluation.records.files import as_json

    inspector = RunInspector(run, progress=screen.Bars(), precision=precision)
    rows = _rows(inspector, run, values) if file is not None else None
    result = _inspect(inspector, subject, rows, values)
    if out is not None:
        from warmstart.diagnosis.inspection_page import inspection_page
        from warmstart.storage.files import write_text

        shown = inspector.predictor.task.parse_cli(texts)[0] if texts else None
        write_text(Path(out), inspection_page(inspector, result, shown, head))
        screen.errors.print(f"a page in {out}", markup=False, highlight=False)
    if json:
        plain = [as_json(one) for one in result] if isinstance(result, list) else as_json(result)
        screen.print_json({"run": run, "subject": subject, subject: plain})
    else:
        inspection_tables.show(result)


def _check(subject: str, values: Values) -> None:
    """Refuse what an option cannot do, before anything is loaded."""
    only = {"remove": ("heads",), "head": ("attention",), "words": ("attention",), "precision": ("heads", "layers")}
    for name, needed in only.items():
        if values[name] not in {None, 0, "fp32"} and subject not in needed:
            raise RecipeError(f"--{name}: works only with {' and '.join(needed)}; leave it out")
    if values["precision"] not in PRECISIONS:
        raise RecipeError(f"--precision: found {values['precision']!r}; {nearest(values['precision'], PRECISIONS)}")
    if values["texts"] and subject not in {"explain", "attention"}:
        raise RecipeError(f"inspect {subject}: takes no texts; give labelled rows by --file")
    if values["texts"] and values["file"]:
        raise RecipeError(f"inspect {subject}: give texts, or --file with a file of them; not both")
    if subject == "probe" and values["file"]:
        raise RecipeError("--file: a probe is fitted to the run's own training rows; leave it out")
    if values["head"] and not values["out"]:
        raise RecipeError("--head: is drawn on a page; give --out with its name")
    out = values["out"]
    if out is not None and Path(out).suffix != ".html":
        raise RecipeError(f"--out {out}: found the suffix {Path(out).suffix!r}, expected .html")
    if out is not None and not Path(out).absolute().parent.is_dir():
        raise RecipeError(f"--out {out}: there is no folder {Path(out).absolute().parent}; make it first")


def _rows(inspector: RunInspector, run: str, values: Values) -> list[Any]:
    """The rows of a file, with their labels where those are needed."""
    from warmstart.cli import screen
    from warmstart.data.findings import Findings
    from warmstart.data.read import iter_rows
    from warmstart.evaluation.file_reading import source_of

    task, findings = inspector.predictor.task, Findings()
    schema = task.schema(task.options)
    if values["subject"] in {"attention", "explain"}:
        schema = schema.without_answers()
    source = source_of(run, values["file"], options.recipe_fields(values, options.READING), schema)
    rows = list(iter_rows(source, schema, findings))
    screen.findings(findings)
    return rows


def _inspect(inspector: RunInspector, subject: str, rows: list[Any] | None, values: Values) -> Any:
    limit = {} if values["limit"] is None else {"limit": values["limit"]}
    texts = inspector.predictor.task.parse_cli(values["texts"]) if values["texts"] else None
    if subject == "heads":
        return inspector.heads(rows, remove=values["remove"], **limit)
    if subject == "layers":
        return inspector.layers(rows, **limit)
    if subject == "probe":
        return inspector.probe(**limit)
    if subject == "explain":
        chosen = texts or inspector.sample(rows, values["limit"] or 10)
        return inspector.explain(chosen, values["method"])
    if texts:
        rows = [inspector.predictor.task.parse_input(text, number) for number, text in enumerate(texts, 1)]
    from warmstart.inspection.attention_statistics import KINDS, word_kind

    own = options.split_names(values["words"] or "")
    return inspector.attention(rows, kinds={**KINDS, **({"words": word_kind(own)} if own else {})}, **limit)
