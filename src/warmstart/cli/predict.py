"""warmstart predict: a run's answers for texts or a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError


def command(
    run: Annotated[str, typer.Argument(help="A run, or its model folder.")],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts; two by two for a model that reads pairs; - for lines of standard input."),
    ] = None,
    file: Annotated[str | None, typer.Option("--file", help="A file of texts to answer instead.")] = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Where to put the answers: .parquet, .csv or .jsonl.")
    ] = None,
    documents: Annotated[
        str | None,
        typer.Option("--documents", help="A file of documents (id, text) to search, with a bi-encoder of rank."),
    ] = None,
    top: Annotated[int, typer.Option("--top", help="With --documents, how many are given for each query.", min=1)] = 20,
    text: options.Text = None,
    pair: options.Pair = None,
    column: options.Columns = None,
    header: options.Header = None,
    format: options.Format = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    precision: Annotated[
        str, typer.Option("--precision", help="fp32 as plain transformers computes, bf16, fp16, or auto.")
    ] = "fp32",
    json: options.Json = False,
) -> None:
    """Answer texts given here, or a file of them."""
    reading = options.said(dict(locals()), options.READING)
    if (file is None) == (not texts):
        raise RecipeError("predict: give texts, or --file with a file of them" + ("; not both" if file else ""))
    from warmstart.cli import screen
    from warmstart.deploy.predictor import Predictor

    predictor = Predictor.load(run, precision)
    if documents is not None:
        _documents(run, predictor, documents, texts or [], file, top, reading, out, json)
        return
    if file is not None:
        from warmstart.cli.reading import source_of

        schema = predictor.task.schema(predictor.task.options).questions()
        _file(predictor, source_of(run, file, reading, schema), schema, out, screen)
        screen.cut(predictor.cut, predictor.window, json)
        return
    wanted = _given(texts or [], predictor.task.pair)
    answers = predictor.predict(wanted)
    if out is not None:
        from warmstart.deploy.write import write_answers

        rows = [predictor.task.row(text, number) for number, text in enumerate(wanted, 1)]
        write_answers([{**row, **answer} for row, answer in zip(rows, answers, strict=True)], Path(out))
    elif json:
        for answer in answers:
            screen.print_json(answer)
    else:
        _table(wanted, answers, screen)
    screen.cut(predictor.cut, predictor.window, json)


def _given(texts: list[str], pair: bool) -> list[Any]:
    """The texts of the command line or of standard input, two by two for a model that reads pairs."""
    given = [line.rstrip("\r\n") for line in sys.stdin] if texts == ["-"] else texts
    if not given:
        raise RecipeError("predict: standard input holds no line; expected one text a line")
    if not pair:
        return list(given)
    if len(given) % 2:
        raise RecipeError(f"predict: found {len(given)} texts; this model reads pairs, so give them two by two")
    return list(zip(given[::2], given[1::2], strict=True))


def _documents(
    run: str,
    predictor: Any,
    documents: str,
    queries: list[str],
    file: str | None,
    top: int,
    reading: dict[str, Any],
    out: str | None,
    json: bool,
) -> None:
    """The documents found for each query: in a file, as lines of JSON, or as a table."""
    from warmstart.cli import screen
    from warmstart.cli.documents import search

    found = search(run, predictor, documents, queries, file, top, reading)
    if out is not None:
        from warmstart.deploy.write import write_answers

        count = write_answers(found, Path(out))
        screen.errors.print(f"{count:,} documents in {out}", markup=False, highlight=False)
    elif json:
        for row in found:
            screen.print_json(row)
    else:
        from rich.table import Table
        from rich.text import Text

        shown = Table("query", "rank", "document", "", "score")
        for row in found:
            cells = (row["query"], row["rank"], row["document_id"], row["document"], screen.number(row["score"]))
            shown.add_row(*(Text(str(cell)) for cell in cells))
        screen.console.print(shown)
    screen.cut(predictor.cut, predictor.window, json)


def _table(texts: list[Any], answers: list[dict[str, Any]], screen: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    names = [name for name in answers[0] if name != "probabilities"]
    shown = Table("text", *names)
    for text, answer in zip(texts, answers, strict=True):
        plain = text if isinstance(text, str) else " | ".join(text)
        cells = [_cell(answer[name], screen) for name in names]
        shown.add_row(Text(plain), *map(Text, cells))
    screen.console.print(shown)


def _cell(value: Any, screen: Any) -> str:
    """One cell; of a list its items, of a mapping its values."""
    if isinstance(value, list):
        return (
            "\n".join(_cell(item, screen) for item in value)
            if value and isinstance(value[0], dict)
            else ", ".join(value)
        )
    if isinstance(value, dict):
        return " ".join(screen.number(one) for one in value.values())
    return str(screen.number(value))


def _file(predictor: Any, source: Any, schema: Any, out: str | None, screen: Any) -> None:
    from itertools import tee

    from warmstart.data.findings import Findings
    from warmstart.data.read import read
    from warmstart.deploy.write import write_answers

    findings = Findings()
    rows, again = tee(read(source, schema, findings))
    with screen.Bars().bar("predicting", None) as bar:

        def answered() -> Any:
            for row, answer in zip(again, predictor.stream(rows), strict=True):
                bar.advance()
                yield {**{name: row[name] for name in schema.names if name in row}, **answer}

        if out is None:
            for answer in answered():
                screen.print_json(answer)
        else:
            count = write_answers(answered(), Path(out))
            screen.errors.print(f"{count:,} answers in {out}", markup=False, highlight=False)
    screen.findings(findings.as_json())
