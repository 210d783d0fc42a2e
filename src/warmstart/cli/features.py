"""warmstart features: embeddings of texts from any layer of an encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.data.source import Source
    from warmstart.inference.features import Extractor, TextRow
    from warmstart.inference.predictor import Text

    StreamArguments: TypeAlias = tuple[Iterable[Text], int, Callable[[int], object]]

Layers = Annotated[
    str,
    typer.Option(
        "--layers",
        help="The layers: last; one by its number (0 for the embeddings, -2 for the last but one); concat-N, sum-N, "
        "mean-N or max-N of the last N, or of all; or all: a vector from each layer, embeddings first.",
    ),
]
Pooling = Annotated[
    str,
    typer.Option(
        "--pooling",
        help="How tokens are pooled: cls (the first), last, mean, max or last+max+mean; or none, for a vector of every "
        "token.",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        "--max-tokens",
        help="The maximum number of tokens in an input, including special tokens. Default: as in the run, or as "
        "many as the encoder supports, but at most 512.",
        show_default=False,
    ),
]
WindowMethod = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="What the encoder sees of a longer text: head, tail, head+tail, or slices, whose vectors are averaged. "
        "Default: as in the run, or head.",
        show_default=False,
    ),
]

Dtype = Annotated[str, typer.Option("--dtype", help="The dtype in the file: fp32, or fp16 for half the size.")]

BatchSize = Annotated[int, typer.Option("--batch-size", min=1, help="The maximum number of inputs per batch.")]


def command(
    data: Annotated[
        str, typer.Argument(help="A file of texts: csv, tsv, jsonl or parquet; or hub:NAME:SPLIT.", metavar="FILE")
    ],
    model: Annotated[
        str, typer.Option("--model", help="The encoder: a folder, a name on the Hugging Face Hub, or a run.")
    ],
    out: Annotated[
        str,
        typer.Option("--out", help="The file for the vectors: .parquet (with the row's file and line) or .npy."),
    ],
    layers: Layers = "last",
    pooling: Pooling = "mean",
    max_tokens: MaxTokens = None,
    window: WindowMethod = None,
    batch_size: BatchSize = 64,
    text: options.Text = None,
    pair: options.Pair = None,
    header: options.Header = None,
    format: options.Format = None,
    delimiter: options.Delimiter = None,
    sheet: options.Sheet = None,
    quotes: options.Quotes = None,
    encoding: options.Encoding = None,
    extra_columns: options.ExtraColumns = None,
    document: options.Document = None,
    precision: options.Precision = "fp32",
    dtype: Dtype = "fp32",
    json: options.Json = False,
) -> None:
    """Extract an embedding of each text of a file."""
    reading = options.recipe_fields(dict(locals()), options.READING)
    from warmstart.cli import screen
    from warmstart.data.findings import Findings
    from warmstart.data.read import iter_rows
    from warmstart.data.schema import Schema
    from warmstart.evaluation.file_reading import source_of
    from warmstart.pipeline.preflight import check_model
    from warmstart.tasks.shared.text_columns import PAIR, TEXT

    check_model(model)  # refused here, before torch is imported
    from warmstart.inference.feature_files import check_out
    from warmstart.inference.features import Extractor

    tokens = pooling == "none"
    check_out(Path(out), dtype, tokens)
    schema, findings = Schema((TEXT, PAIR)), Findings()
    source = source_of(model, data, reading, schema)
    extractor = Extractor.load(model, layers, "mean" if tokens else pooling, max_tokens, window, precision)
    write = _write_tokens if tokens else _write_texts
    with screen.Bars().bar("features", None) as bar:
        arguments = (iter_rows(source, schema, findings), batch_size, bar.advance)
        count = write(extractor, arguments, source, Path(out), dtype)
    screen.findings(findings)
    screen.cut(extractor.cut, extractor.window, json)
    if json:
        written = {"rows": extractor.cut.rows, **({"tokens": count} if tokens else {}), "shape": [*extractor.shape]}
        screen.print_json({**written, "dtype": dtype, "out": out})
    else:
        _show(count, extractor, out)


def _show(count: int, extractor: Extractor, out: str) -> None:
    from warmstart.cli import screen

    shape = " x ".join(map(str, extractor.shape))
    screen.errors.print(f"{count:,} vectors of {shape} numbers in {out}", markup=False, highlight=False)


def _write_texts(extractor: Extractor, arguments: StreamArguments, source: Source, out: Path, dtype: str) -> int:
    """Write a vector for each text, and where it came from, as `reviews.csv:17`."""
    from warmstart.inference.feature_files import write_vectors

    chunks = (([_location(row, source) for row in rows], vectors) for rows, vectors in extractor.stream(*arguments))
    return write_vectors(chunks, out, extractor.shape, dtype)


def _write_tokens(extractor: Extractor, arguments: StreamArguments, source: Source, out: Path, dtype: str) -> int:
    """Write a vector for each token."""
    from warmstart.inference.feature_files import write_token_vectors
    from warmstart.inference.token_features import TokenExtractor

    chunks = (
        ([_location(row, source) for row in chunk.rows], chunk)
        for chunk in TokenExtractor(extractor).stream(*arguments)
    )
    return write_token_vectors(chunks, out, extractor.shape, dtype)


def _location(row: TextRow, source: Source) -> str:
    from warmstart.data.source import locate

    return str(locate(source.files[row["file"]], row["line"], source))
