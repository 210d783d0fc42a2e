"""warmstart predict: a run's answers for texts or a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli import label_corpus as bulk
from warmstart.cli import options
from warmstart.errors import RecipeError

Texts = Annotated[
    list[str] | None,
    typer.Argument(
        help="Texts; two by two for a model that reads pairs, one and its endings for one that chooses; "
        "- for lines of standard input."
    ),
]
Documents = Annotated[
    str | None,
    typer.Option("--documents", help="A file of documents (id, text) to search, with a bi-encoder of rank."),
]
LeastConfidence = Annotated[
    float | None,
    typer.Option(
        help="Leave the label empty where its probability is below this, and say `answered`: false.", min=0, max=1
    ),
]


def command(
    run: Annotated[str, typer.Argument(help="A run, or its model folder.")],
    texts: Texts = None,
    file: Annotated[str | None, typer.Option("--file", help="A file of texts to answer instead.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Where to put the answers: .parquet, .csv or .jsonl.")
    ] = None,
    documents: Documents = None,
    top: Annotated[int, typer.Option("--top", help="With --documents, how many are given for each query.", min=1)] = 20,
    least_confidence: LeastConfidence = None,
    text: options.Text = None,
    pair: options.Pair = None,
    column: options.Columns = None,
    header: options.Header = None,
    format: options.Format = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    engine: options.Engine = "torch",
    precision: options.Precision = "fp32",
    ray: bulk.Ray = None,
    workers: bulk.Workers = None,
    threads: bulk.Threads = 1,
    gpus: bulk.Gpus = 0,
    rows_per_shard: bulk.RowsPerShard = 10_000,
    files_per_group: bulk.FilesPerGroup = 64,
    keep: bulk.Keep = None,
    json: options.Json = False,
) -> None:
    """Answer texts given here, or a file of them."""
    said = dict(locals())
    reading = options.said(said, options.READING)
    if ray is not None:
        bulk.label_corpus(run, reading, said)
        return
    bulk.refuse(said)
    if (file is None) == (not texts):
        raise RecipeError("predict: give texts, or --file with a file of them" + ("; not both" if file else ""))
    from warmstart.cli import answer_tables as answers_shown
    from warmstart.cli import screen
    from warmstart.inference.predictor import Predictor

    predictor = Predictor.load(run, precision, engine)
    shape = _shape(predictor, least_confidence)
    if documents is not None:
        from warmstart.cli.search_documents import search

        answers_shown.documents(search(run, predictor, documents, texts or [], file, top, reading), out, json)
    elif file is not None:
        from warmstart.cli.reading_options import source_of

        schema = predictor.task.schema(predictor.task.options).questions()
        _file(predictor, source_of(run, file, reading, schema), schema, out, screen, shape)
    else:
        _texts(predictor, list(texts or []), out, json, shape)
    screen.cut(predictor.cut, predictor.window, json)
    screen.trial(predictor.trial, json)


def _shape(predictor: Any, least: float | None) -> Any:
    """What is done with every answer before it is shown."""
    from warmstart.inference.abstention import check_least, held_back

    if least is None:
        return dict
    check_least(predictor.task, least)
    return lambda answer: held_back(answer, least)


def _texts(predictor: Any, texts: list[str], out: str | None, json: bool, shape: Any) -> None:
    """Answer texts of the command line, or lines of standard input."""
    from warmstart.cli import answer_tables as answers_shown

    given = [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else texts
    if not given:
        raise RecipeError("predict: standard input holds no line; expected one text a line")
    wanted = predictor.task.asked(given)
    answers = [shape(answer) for answer in predictor.predict(wanted)]
    if out is not None:
        from warmstart.inference.answer_files import write_answers

        rows = [predictor.task.row(text, number) for number, text in enumerate(wanted, 1)]
        write_answers([{**row, **answer} for row, answer in zip(rows, answers, strict=True)], Path(out))
    else:
        answers_shown.answers(wanted, answers, json)


def _file(predictor: Any, source: Any, schema: Any, out: str | None, screen: Any, shape: Any) -> None:
    from itertools import tee

    from warmstart.data.findings import Findings
    from warmstart.data.read import read
    from warmstart.inference.answer_files import write_answers

    findings = Findings()
    rows, again = tee(read(source, schema, findings))
    with screen.Bars().bar("predicting", None) as bar:

        def answered() -> Any:
            for row, answer in zip(again, predictor.stream(rows), strict=True):
                bar.advance()
                yield {**{name: row[name] for name in schema.names if name in row}, **shape(answer)}

        if out is None:
            for answer in answered():
                screen.print_json(answer)
        else:
            count = write_answers(answered(), Path(out))
            screen.errors.print(f"{count:,} answers in {out}", markup=False, highlight=False)
    screen.findings(findings.as_json())
