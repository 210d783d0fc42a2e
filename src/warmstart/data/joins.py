"""Rows that name their texts by id: queries and documents lie in files of their own, and are put in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from warmstart.data.schema import Column, Schema
from warmstart.data.source import Record, Source, Wanted, format_of, is_hub, place
from warmstart.errors import DataError, RecipeError

TEXTS = Schema((Column("id", "label", "what names a text"), Column("text", "text", "the text")))
"""The columns of a file of queries or documents."""

Records = Callable[[Sequence[Wanted]], Iterator[Record]]
"""The reader of the rows themselves, given the columns to read."""


def records(
    file: str, source: Source, wanted: Sequence[Wanted], read: Records, texts: Mapping[str, Mapping[str, str]]
) -> Iterator[Record]:
    """Give each row with the texts that its ids name.

    Args:
        texts: For `query` and `document`, as far as they lie in files of their own, the text of each id.
    """
    own = [want.column.name for want in wanted]
    inner = [want for want in wanted if want.column.name not in texts]
    for name in texts:
        if f"{name}_id" not in own:
            named = source.columns.get(f"{name}_id", f"{name}_id")
            inner.append(Wanted(Column(f"{name}_id", "label", f"what names the {name}"), str(named)))
    names = [want.column.name for want in inner]
    for line, values in read(inner):
        row = dict(zip(names, values, strict=True))
        for name, known in texts.items():
            key = row[f"{name}_id"]
            key = key if isinstance(key, str) else str(key)
            if key not in known:
                raise DataError(
                    f"{place(file, line, source)}: {name} {key!r} is not in {', '.join(source.texts[name].files)}. "
                    "Expected the id of a text there: complete that file, or remove the row.",
                    "id-unknown",
                )
            row[name] = known[key]
        yield line, [row[name] for name in own]


def gather(rows: Iterator[dict[str, Any]], source: Source) -> dict[str, str]:
    """The text of each id; two texts of one id are an error."""
    found: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        text, file, line = row["text"], row["file"], row["line"]
        earlier = found.setdefault(row["id"], (text, file, line))
        if earlier[1:] != (file, line):
            first = place(source.files[earlier[1]], earlier[2], source)
            raise DataError(
                f"{place(source.files[file], line, source)}: the id {row['id']!r} stands at {first} already. "
                "Expected an id of its own for each text.",
                "id-twice",
            )
    return {key: text for key, (text, _, _) in found.items()}


def check_source(source: Source) -> None:
    """Refuse judgements by id without the files that hold the texts."""
    if is_hub(source.files[0]) or format_of(source.files[0], source) != "qrels":
        return
    for name in ("queries", "documents"):
        if getattr(source, name) is None:
            raise RecipeError(
                f"data.{name}: {source.files[0]} names {name} by id; say which file has their texts, "
                f"as --set data.{name}={name}.tsv"
            )
