"""Where rows come from and how the file is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError, RecipeError, nearest

Format = Literal["csv", "tsv", "jsonl", "json", "conll", "qrels", "txt", "parquet"]
Record = tuple[int, list[object]]
"""What a format's reader gives: the line (or row) number, then the raw value of each wanted column."""

_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".conll": "conll",
    ".iob": "conll",
    ".bio": "conll",
    ".qrels": "qrels",
    ".qrel": "qrels",
    ".txt": "txt",
    ".parquet": "parquet",
}
HUB = "hub:"
JOINED = ("query", "document", "query_id", "document_id")
"""Columns of rows that name queries and documents by id: the ids, and the texts put in their place."""
GIVES: dict[str, tuple[str, ...]] = {
    "conll": ("text", "words", "entities"),
    "json": ("id",),
    "qrels": (*JOINED, "label"),
    "txt": ("text",),
}
"""Columns that a format gives by itself, whatever the file calls them; read where the schema has them. An `id` is
read where a row has one."""
NUMBERED = ("json", "parquet")
"""Formats whose rows are told by their number, since a row there has no line of its own."""


@dataclass(frozen=True)
class Source:
    """Where rows come from and how the file is to be read.

    Args:
        files: Paths, or one `hub:NAME[@REVISION][:CONFIG]:SPLIT`.
        columns: The schema's column -> the file's column (its 1-based number where `header` is False);
            one that is left out has the same name in the file, and several are gathered in their order.
        format: None takes it from the suffix.
        header: The first row of a CSV or TSV file names the columns.
        quotes: Whether cells may stand in double quotes; None means yes for CSV and no for TSV.
        encoding: How a text file's bytes become characters.
        extra_columns: What to do with a row of more cells than the first row has.
        document: Whether a document of a txt file is a `paragraph`, what stands between blank lines, or a `line`.
        label_separator: What stands between the labels in one text cell (kind `labels`).
        queries: Where the texts are that the rows name by `query_id`; None where the rows hold them.
        documents: Where those are that they name by `document_id`.
    """

    files: tuple[str, ...]
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    format: Format | None = None
    header: bool = True
    quotes: Literal["double", "none"] | None = None
    encoding: str = "utf-8"
    extra_columns: Literal["refuse", "ignore"] = "refuse"
    document: Literal["paragraph", "line"] = "paragraph"
    label_separator: str | None = None
    queries: Source | None = None
    documents: Source | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "documents"):
            texts: object = getattr(self, name)
            if isinstance(texts, Mapping):  # plain values, as a recipe gives them
                object.__setattr__(self, name, Source(**texts))
        files: object = self.files
        if isinstance(files, str) or not files:
            raise RecipeError(f"data files: expected a tuple of one or more paths, found {self.files!r}.")
        if self.label_separator == "":
            raise RecipeError("data.label_separator: expected one or more characters, found an empty string.")
        if len(self.files) > 1 and any(map(is_hub, self.files)):
            raise RecipeError(f"data files: a `{HUB}` name stands alone, found {len(self.files)} entries.")

    @property
    def texts(self) -> dict[str, Source]:
        """Where the texts are that the rows name by id: of `query`, of `document`."""
        both = {"query": self.queries, "document": self.documents}
        return {name: source for name, source in both.items() if source is not None}


@dataclass(frozen=True)
class Wanted:
    """A column to be read: what the schema asks for, and its name in the file."""

    column: Column
    name: str
    part: bool = False
    """It is one of several columns of the file that are gathered to this one."""


def is_hub(file: str) -> bool:
    """Whether a source's entry names a data set of the hub and not a file."""
    return file.startswith(HUB)


def format_of(file: str, source: Source) -> Format:
    """Find the format of one file: as the source states it, or by the suffix."""
    found = source.format or _by_suffix(file)
    if found is None:
        suffixes = PurePath(file.lower()).suffixes
        raise DataError(
            f"{file}: the suffix {''.join(suffixes[-2:]) or '(none)'} names no format. Expected "
            f"{', '.join(_SUFFIXES)} (the text ones also with .gz). "
            f"Say which it is: --format {', '.join(sorted(set(_SUFFIXES.values())))} (data.format).",
            "no-format",
        )
    return found


def _by_suffix(file: str) -> Format | None:
    suffixes = PurePath(file.lower()).suffixes
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    found = _SUFFIXES.get("".join(suffixes[-2:-1] if zipped else suffixes[-1:]))
    return None if zipped and found == "parquet" else found


def place(file: str, line: int, source: Source | None) -> str:
    """`file:line` of a row; rows of formats without lines, and of no source at all, are numbered `row N`."""
    return f"{file}:{unit(file, source)}{line}"


def unit(file: str, source: Source | None) -> str:
    """Say what stands before a row's number: nothing for a line of a text file, else `row `."""
    lines = source is not None and not is_hub(file) and format_of(file, source) not in NUMBERED
    return "" if lines else "row "


def wanted(source: Source, schema: Schema) -> tuple[Wanted, ...]:
    """List the columns to read; an optional one only where the source maps it: a like name may be chance."""
    for name in source.columns:
        if name not in schema.names:
            raise RecipeError(
                f"data.columns names {name!r}, which this task does not read; {nearest(name, schema.names)}"
            )
    given = GIVES.get(source.format or _by_suffix(source.files[0]) or "", ())
    given = (*given, *(JOINED if source.texts else ()))
    found: list[Wanted] = []
    for column in schema:
        if column.required or column.name in source.columns or column.name in given:
            names = source.columns.get(column.name, column.name)
            if isinstance(names, str):
                found.append(Wanted(column, names))
            elif column.kind == "texts":
                found += [Wanted(column, name, part=True) for name in names]
            else:
                raise RecipeError(f"data.columns.{column.name}: found {list(names)}, expected one column")
    return tuple(found)


def missing_column(where: str, want: Wanted, known: list[str], source: Source) -> DataError:
    """Make the error for a column the file does not have."""
    listed = ", ".join(map(repr, known[:40])) + (f" and {len(known) - 40} more" if len(known) > 40 else "")
    hint = nearest(want.name, known)
    hint = f" {hint[0].upper()}{hint[1:]}" if hint.startswith("did") else ""
    if source.header and want.name.isdigit():
        hint += " If the file has no header row, say --no-header (data.header: false)."
    short = want.column.name in ("text", "pair", "label")
    option = f"--{want.column.name} NAME" if short else f"--column {want.column.name}=NAME"
    return DataError(
        f"{where}: no column {want.name!r} for {want.column.name!r} ({want.column.meaning}). "
        f"The file has {listed or 'none'}.{hint} "
        f"State the right one: {option} (data.columns.{want.column.name}).",
        "column-missing",
    )
