"""Where rows come from, and how the files are to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from warmstart.data.compression import SUFFIXES
from warmstart.data.faults import Fault
from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError, Location, RecipeError, nearest

Format = Literal["csv", "tsv", "jsonl", "json", "conll", "qrels", "txt", "parquet", "xlsx", "ods"]
Record = tuple[int, list[object] | Fault]
"""What the reader of a format yields: the line (or row) number, and the raw value of each column to read, or what is
wrong with the row."""

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
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".ods": "ods",
}
BINARY = ("parquet", "xlsx", "ods")
"""Formats that are no text, and are not compressed once more."""
HUB = "hub:"
JOINED_COLUMNS = ("query", "document", "query_id", "document_id")
"""Columns of rows that refer to queries and documents by id: the ids, and the texts that are joined for them."""
BUILT_IN_COLUMNS: dict[str, tuple[str, ...]] = {
    "conll": ("text", "words", "entities"),
    "json": ("id",),
    "qrels": (*JOINED_COLUMNS, "label"),
    "txt": ("text",),
}
"""Columns that a format provides by itself, whatever the file calls them; read where the schema has them. An `id` is
read where a row has one."""
GATHERED = ("texts", "probabilities", "marginals", "votes")
"""Kinds whose values may be gathered from several columns of a file."""
ROW_NUMBERED = ("json", *BINARY)
"""Formats whose rows are located by their number, since a row there has no line of its own."""


@dataclass(frozen=True)
class Source:
    """Where rows come from, and how the files are to be read.

    Args:
        files: Paths, or one `hub:NAME[@REVISION][:CONFIG]:SPLIT`.
        columns: The schema's column -> the file's column (its 1-based number where `header` is False);
            one that is left out has the same name in the file, and several are gathered in their order.
        format: None takes it from the suffix.
        header: The first row of a CSV or TSV file names the columns.
        delimiter: The character between the cells of a CSV or TSV file; None means a comma, or a tab.
        sheet: The sheet of a spreadsheet; None where it has only one.
        quotes: Whether cells may be in double quotes; None means yes for CSV and no for TSV.
        encoding: The encoding of a text file.
        extra_columns: What to do with a row that has more cells than the first row.
        document: Whether a document of a txt file is a `paragraph`, delimited by blank lines, or a `line`.
        label_separator: What separates the labels in one text cell (kind `labels`).
        queries: The source of the texts that rows refer to by `query_id`; None where the rows hold them.
        documents: The source of those that they refer to by `document_id`.
    """

    files: tuple[str, ...]
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    format: Format | None = None
    header: bool = True
    delimiter: str | None = None
    sheet: str | None = None
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
            if isinstance(texts, Mapping):  # plain values, as in a recipe
                object.__setattr__(self, name, Source(**texts))
        files: object = self.files
        if isinstance(files, str) or not files:
            raise RecipeError(f"data files: expected a tuple of one or more paths, found {self.files!r}.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise RecipeError(f"data.delimiter: expected one character, such as ';', found {self.delimiter!r}.")
        if self.label_separator == "":
            raise RecipeError("data.label_separator: expected one or more characters, found an empty string.")
        if len(self.files) > 1 and any(map(is_hub, self.files)):
            raise RecipeError(f"data files: a `{HUB}` name must be the only entry, found {len(self.files)}.")

    @property
    def texts(self) -> dict[str, Source]:
        """The sources of texts that rows refer to by id, under `query` and `document`."""
        both = {"query": self.queries, "document": self.documents}
        return {name: source for name, source in both.items() if source is not None}


@dataclass(frozen=True)
class FileColumn:
    """A column of a file that is to be read: its name there, and the schema's column that it fills."""

    target: Column
    name: str
    part: bool = False
    """Whether it is one of several columns of the file that are gathered into the schema's one."""


def is_hub(file: str) -> bool:
    """Whether an entry of a source names a data set of the Hub, not a file."""
    return file.startswith(HUB)


def format_of(file: str, source: Source) -> Format:
    """The format of one file: the one that the source states, else by the suffix."""
    format = source.format or _by_suffix(file)
    if format is None:
        suffixes = PurePath(file.lower()).suffixes
        raise DataError(
            f"the suffix {''.join(suffixes[-2:]) or '(none)'} is not that of a known format. Expected "
            f"{', '.join(_SUFFIXES)} (text formats also with {', '.join(SUFFIXES)}). {_hint(suffixes)}"
            f"State the format: --format {', '.join(sorted(set(_SUFFIXES.values())))} (data.format).",
            "no-format",
            location=Location(file),
        )
    return format


def _by_suffix(file: str) -> Format | None:
    suffixes = PurePath(file.lower()).suffixes
    zipped = bool(suffixes) and suffixes[-1] in SUFFIXES
    format = _SUFFIXES.get("".join(suffixes[-2:-1] if zipped else suffixes[-1:]))
    return None if zipped and format in BINARY else format


def _hint(suffixes: list[str]) -> str:
    if suffixes[-1:] == [".xls"]:
        return "An .xls file is of Excel 2003 or before: save it as .xlsx. "
    return ""


def is_data_file(name: str) -> bool:
    """Whether the suffix of a name is that of a format."""
    return _by_suffix(name) is not None


def locate(file: str, line: int, source: Source | None) -> Location:
    """Where a row stands; in formats without lines, and without a source, its number is the row's."""
    return Location(file, line, row_unit(file, source))


def row_unit(file: str, source: Source | None) -> str:
    """What stands before a row's number in its location: nothing for a line of a text file, else `row `."""
    has_lines = source is not None and not is_hub(file) and format_of(file, source) not in ROW_NUMBERED
    return "" if has_lines else "row "


def file_columns(source: Source, schema: Schema) -> tuple[FileColumn, ...]:
    """The columns to read; an optional one only where the source maps it, since an equal name may be chance."""
    for name in source.columns:
        if name not in schema.names:
            raise RecipeError(
                f"data.columns names {name!r}, which this task does not read; {nearest(name, schema.names)}"
            )
    provided = BUILT_IN_COLUMNS.get(source.format or _by_suffix(source.files[0]) or "", ())
    provided = (*provided, *(JOINED_COLUMNS if source.texts else ()))
    columns: list[FileColumn] = []
    for column in schema.read_from({*source.columns, *provided}):
        names, target = source.columns.get(column.name, column.name), stored(column)
        if target.name in {other.target.name for other in columns}:
            raise RecipeError(f"data.columns: found {target.name} and {column.name}, which are the same; leave one out")
        if isinstance(names, str):
            columns.append(FileColumn(target, names))
        elif column.kind in GATHERED:
            columns += [FileColumn(target, name, part=True) for name in names]
        else:
            raise RecipeError(f"data.columns.{column.name}: found {list(names)}, expected one column")
    return tuple(columns)


def stored(column: Column) -> Column:
    """The column under the name that it is stored by."""
    return replace(column, name=column.stored_as or column.name)


def missing_columns(columns: Sequence[FileColumn], known: list[str], source: Source) -> Fault | None:
    """The fault of a file that has not all columns, or none; of several that are missing, all are named."""
    missing = [column for column in columns if column.name not in known]
    return missing_column(missing[0], known, source, missing[1:]) if missing else None


def missing_column(column: FileColumn, known: list[str], source: Source, also: Sequence[FileColumn] = ()) -> Fault:
    """The fault of a file, or an object in one, that has no such column, nor some others."""
    listed = ", ".join(map(repr, known[:40])) + (f" and {len(known) - 40} more" if len(known) > 40 else "")
    hint = nearest(column.name, known)
    hint = f" {hint[0].upper()}{hint[1:]}" if hint.startswith("did") else ""
    if source.header and column.name.isdigit():
        hint += " If the file has no header row, pass --no-header (data.header: false)."
    target = column.target
    others = "".join(f", nor {other.name!r} for {other.target.name!r}" for other in also)
    options = dict.fromkeys(option(missing.target.name) for missing in (column, *also))
    return Fault(
        f"no column {column.name!r} for {target.name!r} ({target.meaning}){others}. "
        f"The file has {listed or 'none'}.{hint} "
        f"Give the right one: {' '.join(options)} (data.columns{'' if others else f'.{target.name}'}).",
        "column-missing",
        column.name,
    )


def option(column: str, name: str = "NAME") -> str:
    """What is typed to give the file's name for a column of the task."""
    return f"--{column} {name}" if column in ("text", "pair", "label") else f"--column {column}={name}"
