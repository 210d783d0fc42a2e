"""Rows of data sets that the `datasets` library loads: from the Hub, or from a local folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from warmstart.data.faults import Fault
from warmstart.data.schema import Value
from warmstart.data.source import HUB, FileColumn, Record, Source
from warmstart.errors import DataError, Location

if TYPE_CHECKING:
    import datasets

BATCH = 1000

_NAME = re.compile(
    r"(?P<name>[^:@]+)(?:@(?P<revision>[^:]+))?(?::(?P<config>[^:\[\]]+))?:(?P<split>[^:\[\]]+(?:\[.*\])?)"
)


def parse(file: str) -> dict[str, str | None]:
    """Take `hub:NAME[@REVISION][:CONFIG]:SPLIT` apart."""
    match = _NAME.fullmatch(file.removeprefix(HUB))
    if match is None:
        raise DataError(
            f"not the name of a dataset. Expected {HUB}NAME[@REVISION][:CONFIG]:SPLIT, "
            f"for example {HUB}stanfordnlp/sst2:train.",
            "hub",
            location=Location(file),
        )
    return match.groupdict()


def records(file: str, source: Source, columns: Sequence[FileColumn]) -> Iterator[Record]:
    """Yield each row's number and its values in `columns`; class numbers become class names."""
    from warmstart.data.formats.parquet import check_columns

    data = _open(file)
    check_columns(file, data.features.arrow_schema, columns, source)
    names = list(dict.fromkeys(column.name for column in columns))
    decoders = [_decoder(data.features[column.name]) for column in columns]
    number = 0
    for batch in data.select_columns(names).with_format("arrow").iter(batch_size=BATCH):
        values = [batch.column(column.name).to_pylist() for column in columns]
        for row in zip(*values, strict=True):
            number += 1
            try:
                values_of_row: list[Value] | Fault = [
                    decode(value) for decode, value in zip(decoders, row, strict=True)
                ]
            except Fault as fault:
                values_of_row = fault
            yield number, values_of_row


def names(file: str) -> list[str]:
    """The names of a data set's columns."""
    return list(_open(file).column_names)


def digest(file: str, columns: Sequence[FileColumn]) -> str:
    """Hash these columns as stored, class names included."""
    data = _open(file)
    names = sorted({column.name for column in columns} & set(data.column_names))
    total = hashlib.sha256(repr({name: data.features[name] for name in names}).encode())
    for batch in data.select_columns(names).with_format("arrow").iter(batch_size=BATCH):
        for part in batch.combine_chunks().to_batches():
            total.update(part.serialize())
    return total.hexdigest()


def _open(file: str) -> datasets.Dataset:
    import datasets

    named = parse(file)
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()  # bars belong to the command line
    try:
        return datasets.load_dataset(named["name"], named["config"], split=named["split"], revision=named["revision"])
    except Exception as error:  # the library raises nearly anything: its own, OSError, ValueError, HTTP errors
        raise DataError(
            f"the dataset could not be loaded: {type(error).__name__}: {error}. Check name, "
            "configuration and split; without a network, give a local folder's path as the name.",
            "hub",
            location=Location(file),
        ) from error
    finally:
        if shown:
            datasets.enable_progress_bars()


def _decoder(feature: object) -> Callable[[Value], Value]:
    """What turns a stored value into a plain one; the Hub marks rows without a label by class -1."""
    import datasets

    if isinstance(feature, datasets.ClassLabel):
        return partial(_class_name, feature.names)
    inner = getattr(feature, "feature", None)
    if isinstance(inner, datasets.ClassLabel):
        decode = _decoder(inner)
        return lambda values: None if values is None else [decode(value) for value in values]
    return lambda value: value


def _class_name(names: list[str], value: int | None) -> str | None:
    if value is None or value == -1:
        return None
    if not 0 <= value < len(names):  # a list would count a negative one from its end
        raise Fault(f"class number {value}. Expected 0 to {len(names) - 1}, or -1 for no label.", "label-type")
    return names[value]
