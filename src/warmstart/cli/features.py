"""warmstart features: vectors of texts from any layer of an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli import options

Layers = Annotated[
    str,
    typer.Option(
        "--layers",
        help="The layers read: last; one by its number (0 the embeddings, -2 the last but one); concat-N, sum-N, "
        "mean-N or max-N of the last N, or of all; or all: a vector of each layer, embeddings first.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        help="The most tokens seen at once, special ones included. By default as the run was trained, or all the "
        "encoder takes, at most 512.",
        show_default=False,
    ),
]
WindowMethod = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="What is kept of a longer text: head, tail, head+tail, or slices, whose mean is taken. By default as the "
        "run was trained, or head.",
        show_default=False,
    ),
]


def command(
    data: Annotated[str, typer.Argument(help="A file of texts: csv, tsv, jsonl or parquet; or hub:NAME:SPLIT.")],
    model: Annotated[
        str, typer.Option("--model", help="The encoder: a folder, a name on the Hugging Face Hub, or a run.")
    ],
    out: Annotated[
        str, typer.Option("--out", help="Where to put the vectors: .parquet (with each row's place) or .npy.")
    ],
    layers: Layers = "last",
    pooling: Annotated[
        str, typer.Option("--pooling", help="The tokens read: cls (the first), last, mean, max or last+max+mean.")
    ] = "mean",
    max_tokens: MaxTokens = None,
    window: WindowMethod = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", min=1, help="The most rows of tokens computed at once.")
    ] = 64,
    text: options.Text = None,
    pair: options.Pair = None,
    header: options.Header = None,
    format: options.Format = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    precision: options.Precision = "fp32",
    store: Annotated[str, typer.Option("--store", help="How numbers are stored: fp32, or fp16 for half the size.")] = (
        "fp32"
    ),
    json: options.Json = False,
) -> None:
    """Write a vector for each text of a file."""
    reading = options.said(dict(locals()), options.READING)
    from warmstart.cli import screen
    from warmstart.cli.reading_options import source_of
    from warmstart.data.findings import Findings
    from warmstart.data.read import read
    from warmstart.data.schema import Schema
    from warmstart.inference.feature_files import check_out, write_vectors
    from warmstart.inference.features import Extractor
    from warmstart.tasks.shared.text_inputs import PAIR, TEXT

    check_out(Path(out), store)
    schema, findings = Schema((TEXT, PAIR)), Findings()
    source = source_of(model, data, reading, schema)
    extractor = Extractor.load(model, layers, pooling, max_tokens, window, precision)
    with screen.Bars().bar("features", None) as bar:
        chunks = _with_places(extractor.stream(read(source, schema, findings), batch_size, bar.advance), source)
        count = write_vectors(chunks, Path(out), extractor.shape, store)
    screen.findings(findings.as_json())
    screen.cut(extractor.cut, extractor.window, json)
    if json:
        screen.print_json({"rows": count, "shape": list(extractor.shape), "store": store, "out": out})
    else:
        shape = " x ".join(map(str, extractor.shape))
        screen.errors.print(f"{count:,} vectors of {shape} numbers in {out}", markup=False, highlight=False)


def _with_places(chunks: Any, source: Any) -> Iterator[tuple[list[str], Any]]:
    """The vectors, and where each row came from, as `reviews.csv:17`."""
    from warmstart.data.source import place

    for rows, vectors in chunks:
        yield [place(source.files[row["file"]], row["line"], source) for row in rows], vectors
