"""warmstart predict: a model's predictions for texts, a file or a corpus."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from warmstart.cli import label_corpus as bulk
from warmstart.cli import options
from warmstart.errors import RecipeError
from warmstart.options import Values

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        help="Texts; for sentence pairs, two per prediction; for multiple choice, a text and its endings; "
        "- for the lines of standard input.",
        metavar="TEXT",
    ),
]
Documents = Annotated[
    str | None,
    typer.Option("--documents", help="With a bi-encoder: a file of documents (id, text) to search.", metavar="FILE"),
]
MinConfidence = Annotated[
    float | None,
    typer.Option(
        "--min-confidence",
        help="Abstain below this probability: the label is left empty, and `answered` is false.",
        min=0,
        max=1,
    ),
]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the file that --out names, if it exists.")]
NoFormulas = Annotated[
    bool,
    typer.Option(
        "--no-formulas",
        help="With --file: put ' before cells that a spreadsheet would take for formulas (those that begin with = + - "
        "@). By default texts are written as they are, for programs to read.",
    ),
]
Drop = Annotated[
    Literal["empty"] | None,
    typer.Option(
        "--drop", help="With --file, rows to leave out: empty ones, whose text is missing. By default they are errors."
    ),
]
Without = Annotated[
    str | None,
    typer.Option(
        "--without",
        help="Attention heads and blocks to switch off: 3.7 is head 7 of block 3, 5.* all heads of block 5, and 6 the "
        "whole of block 6, counted from 0.",
        metavar="HEADS",
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Also give the words behind each answer, and whether the model depends on them."),
]


def command(
    run: Annotated[str, typer.Argument(help="A run, or its model folder.", metavar="RUN")],
    texts: Texts = None,
    file: Annotated[str | None, typer.Option("--file", help="A file of texts.", metavar="FILE")] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", help="The file for the predictions: .parquet, .csv or .jsonl.", metavar="FILE"),
    ] = None,
    documents: Documents = None,
    top_k: Annotated[
        int, typer.Option("--top-k", help="With --documents, how many documents to return per query.", min=1)
    ] = 20,
    min_confidence: MinConfidence = None,
    text: options.Text = None,
    pair: options.Pair = None,
    column: options.Columns = None,
    header: options.Header = None,
    format: options.Format = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    drop: Drop = None,
    overwrite: Overwrite = False,
    no_formulas: NoFormulas = False,
    engine: options.Engine = "torch",
    precision: options.Precision = "fp32",
    without: Without = None,
    explain: Explain = False,
    method: options.Method = "integrated-gradients",
    ray: bulk.Ray = None,
    workers: bulk.Workers = None,
    cpus_per_worker: bulk.CpusPerWorker = 1,
    gpus_per_worker: bulk.GpusPerWorker = 0,
    rows_per_shard: bulk.RowsPerShard = 10_000,
    files_per_group: bulk.FilesPerGroup = 64,
    keep_column: bulk.KeepColumn = None,
    retry_timeout: bulk.RetryTimeout = 600,
    on_bad_file: bulk.OnBadFile = "set-aside",
    json: options.Json = False,
) -> None:
    """Predict for texts, for a file of them, or for a corpus."""
    _predict(run, list(texts or []), dict(locals()))


def _predict(run: str, texts: list[str], values: Values) -> None:
    reading = options.recipe_fields(values, options.READING)
    if values["ray"] is not None:
        for name in ("without", "explain"):
            if values[name]:
                raise RecipeError(f"--{name}: works only without --ray; leave it out")
        if values["drop"]:
            raise RecipeError("--drop: with --ray, rows without a text are set aside; leave it out")
        bulk.label_corpus(run, reading, values)
        return
    bulk.refuse(values)
    file, out, json = values["file"], values["out"], values["json"]
    if (file is None) == (not texts):
        raise RecipeError("predict: give texts, or --file with a file of them" + ("; not both" if file else ""))
    if values["keep_column"] and file is None:
        raise RecipeError("--keep-column: works only with --file or --ray; leave it out")
    if values["drop"] and file is None:
        raise RecipeError("--drop: works only with --file; leave it out")
    if values["explain"] and (file is not None or out is not None or values["documents"] is not None):
        raise RecipeError("--explain: works only with texts on the screen; for a file, use `warmstart inspect`")
    from warmstart.cli import answer_tables, screen
    from warmstart.evaluation.file_reading import source_of
    from warmstart.inference.answer_files import check_out

    if out is not None:
        check_out(Path(out), values["overwrite"])
    from warmstart.inference.folders import model_folder

    model_folder(run)  # refused here, before torch is imported
    from warmstart.inference.predictor import Predictor

    predictor = Predictor.load(run, values["precision"], values["engine"], without=values["without"])
    shape = _shape(predictor, values["min_confidence"])
    if values["documents"] is not None:
        from warmstart.cli.search_documents import search

        documents = search(run, predictor, values["documents"], texts, file, values["top_k"], reading)
        answer_tables.documents(documents, out, json)
    elif file is not None:
        schema = predictor.task.schema(predictor.task.options).without_answers()
        _file(predictor, source_of(run, file, reading, schema), values, shape)
    else:
        _texts(predictor, texts, out, json, shape, values["method"] if values["explain"] else None)
    screen.cut(predictor.cut, predictor.window, json)
    screen.trial(predictor.trial, json)


def _shape(predictor: Any, least: float | None) -> Any:
    """What is done with every answer before it is printed."""
    from warmstart.inference.abstention import abstain, check_min_confidence

    if least is None:
        return dict
    check_min_confidence(predictor.task, least)
    return lambda answer: abstain(predictor.task, answer, least)


def _texts(
    predictor: Any, texts: list[str], out: str | None, json: bool, shape: Any, method: str | None = None
) -> None:
    """Answer texts of the command line, or lines of standard input."""
    from warmstart.cli import answer_tables

    words = [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else texts
    if not words:
        raise RecipeError("predict: standard input is empty; expected one text per line")
    wanted = predictor.task.parse_cli(words)
    if method is not None:
        _explain(predictor, wanted, json, shape, method)
        return
    answers = [shape(answer) for answer in predictor.predict(wanted)]
    if out is not None:
        from warmstart.inference.answer_files import write_answers

        rows = [predictor.task.parse_input(text, number) for number, text in enumerate(wanted, 1)]
        write_answers([{**row, **answer} for row, answer in zip(rows, answers, strict=True)], Path(out))
    else:
        answer_tables.answers(wanted, answers, json)


def _explain(predictor: Any, texts: list[Any], json: bool, shape: Any, method: str) -> None:
    """Answer texts, each with the words behind the answer."""
    from warmstart.cli import inspection_tables, screen
    from warmstart.inspection.explanations import explain_texts

    explanations = explain_texts(predictor, texts, method, screen.Bars())
    if not json:
        inspection_tables.show(explanations)
        return
    for explanation in explanations:
        plain = explanation.as_answer()
        own = {"explanation": plain.pop("explanation")}
        screen.print_json({**shape(plain), **own})


def _file(predictor: Any, source: Any, values: Values, shape: Any) -> None:
    """Answer the rows of a file, once all of them are known to be right."""
    from warmstart.cli import screen
    from warmstart.data.findings import Findings
    from warmstart.data.kept_columns import KeptColumns
    from warmstart.data.read import iter_rows
    from warmstart.inference.answer_files import without_formulas, write_answers
    from warmstart.inference.file_answers import FileAnswers

    out, schema = values["out"], predictor.task.schema(predictor.task.options).without_answers()
    kept = KeptColumns.of(source, schema, values["keep_column"])
    findings = Findings()
    rows = partial(iter_rows, kept.source, kept.schema, drop=[values["drop"]] if values["drop"] else [])
    count = sum(1 for _ in rows(findings))
    with screen.Bars().bar("predicting", count) as bar:

        def answered() -> Any:
            for row in FileAnswers(predictor, kept, shape).stream(rows(Findings())):
                bar.advance()
                yield without_formulas(row) if values["no_formulas"] else row

        if out is None:
            for answer in answered():
                screen.print_json(answer)
        else:
            write_answers(answered(), Path(out))
            screen.errors.print(f"{count:,} predictions in {out}", markup=False, highlight=False)
    screen.findings(findings)
