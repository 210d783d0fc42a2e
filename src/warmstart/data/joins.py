"""Rows that refer to their texts by id: queries and documents are in files of their own, and are joined here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from warmstart.data.faults import Fault
from warmstart.data.schema import Column, Row, Schema
from warmstart.data.source import FileColumn, Record, Source, format_of, is_hub, locate
from warmstart.errors import DataError, RecipeError

TEXT_SCHEMA = Schema((Column("id", "label", "the id of a text"), Column("text", "text", "the text")))
"""The columns of a file of queries or documents."""

ReadRecords = Callable[[Sequence[FileColumn]], Iterator[Record]]
"""The reader of the rows themselves, which takes the columns to read."""


def joined_records(
    file: str, source: Source, columns: Sequence[FileColumn], read: ReadRecords, texts: Mapping[str, Mapping[str, str]]
) -> Iterator[Record]:
    """Yield each row with the texts that its ids refer to.

    Args:
        texts: For `query` and `document`, as far as they are in files of their own, the text of each id.
    """
    own = [column.target.name for column in columns]
    inner = [column for column in columns if column.target.name not in texts]
    for name in texts:
        if f"{name}_id" not in own:
            id_name = source.columns.get(f"{name}_id", f"{name}_id")
            inner.append(FileColumn(Column(f"{name}_id", "label", f"the id of the {name}"), str(id_name)))
    names = [column.target.name for column in inner]
    for line, values in read(inner):
        if isinstance(values, Fault):
            yield line, values
            continue
        row = dict(zip(names, values, strict=True))
        for name, known in texts.items():
            key = row[f"{name}_id"]
            key = key if isinstance(key, str) else str(key)
            row[name] = known.get(key) or _unknown(name, key, source)
        faults = [text for text in (row[name] for name in texts) if isinstance(text, Fault)]
        yield line, faults[0] if faults else [row[name] for name in own]


def _unknown(name: str, key: str, source: Source) -> Fault:
    return Fault(
        f"{name} {key!r} is not in {', '.join(source.texts[name].files)}. "
        "Expected the id of a text there: complete that file, or remove the row.",
        "id-unknown",
        f"{name}_id",
    )


def texts_by_id(rows: Iterator[Row], source: Source) -> dict[str, str]:
    """The text of each id; two texts with one id are an error."""
    known: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        text, file, line = row["text"], row["file"], row["line"]
        first = known.setdefault(row["id"], (text, file, line))
        if first[1:] != (file, line):
            raise DataError(
                f"the id {row['id']!r} is already used at {locate(source.files[first[1]], first[2], source)}. "
                "Expected an id of its own for each text.",
                "id-twice",
                location=locate(source.files[file], line, source),
                row_id=row["id"],
            )
    return {key: text for key, (text, _, _) in known.items()}


def check_source(source: Source) -> None:
    """Refuse judgements by id without the files that hold the texts."""
    if is_hub(source.files[0]) or format_of(source.files[0], source) != "qrels":
        return
    for name in ("queries", "documents"):
        if getattr(source, name) is None:
            raise RecipeError(
                f"data.{name}: {source.files[0]} refers to {name} by id; give the file with their texts, "
                f"as --set data.{name}={name}.tsv"
            )
