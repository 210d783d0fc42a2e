"""The rows of a pool: read from its file, those that are labelled already and near-duplicates told from the rest."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from warmstart.active_learning.near_duplicates import KnownTexts
from warmstart.data.fault_handling import Droppable
from warmstart.data.findings import Findings
from warmstart.data.kept_columns import KeptColumns
from warmstart.data.read import iter_rows
from warmstart.data.schema import Row, Schema
from warmstart.data.source import Source, locate
from warmstart.data.table import Table
from warmstart.errors import DataError, Location, RunError
from warmstart.evaluation.run import RunFolder
from warmstart.pipeline.prepare import read_rows
from warmstart.recipe import MEMORY
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder


@dataclass(frozen=True)
class PoolRows:
    """The rows of a pool that have no label yet.

    Attributes:
        rows: The columns that the task reads, and those that are kept.
        label: The file's name for the column of labels.
        labelled: How many rows have a label there, and so are not asked for.
        findings: What was noticed while the file was read.
    """

    kept: KeptColumns
    rows: list[Row]
    label: str
    labelled: int
    findings: Findings

    def own_columns(self, row: Row) -> Row:
        """The columns that the file has itself, and an empty one for the label."""
        names = [name for name in self.kept.schema.names if name in row and not name.startswith("kept:")]
        return {**(self.kept.values(row) or {name: row[name] for name in names}), self.label: None}

    def location(self, row: Row) -> str:
        """Where a row stands, such as `pool.csv:17`."""
        return str(locate(self.kept.source.files[row["file"]], row["line"], self.kept.source))


def read_pool(run: RunFolder, source: Source, schema: Schema, drop: Collection[Droppable]) -> PoolRows:
    """Read the rows of a pool; refuses a file in which every row is labelled."""
    answer = schema.answer.name if schema.answer else "label"
    column = (run.recipe.data.reading("train") or {"columns": {}})["columns"].get(answer, answer)
    label = column if isinstance(column, str) else answer
    inputs, findings = schema.without_answers(), Findings()
    kept = KeptColumns.of(source, inputs)
    rows = list(iter_rows(kept.source, kept.schema, findings, drop=drop))
    has_label = label in kept.names
    left = [row for row in rows if not has_label or kept.values(row)[label] in (None, "")]
    if not left:
        raise DataError(
            f"all {len(rows):,} rows have a value in {label!r}. Expected unlabelled rows; "
            "to simulate on labelled ones, pass --dry-run.",
            "no-rows",
            location=Location(source.files[0]),
        )
    return PoolRows(kept, left, label, len(rows) - len(left), findings)


def labelled_rows(run: RunFolder, progress: Progress) -> Mapping[str, Table]:
    """The rows that the run was trained and measured on, by part; none where they cannot be read again."""
    if run.recipe.data.train == MEMORY:
        progress.log("the run's rows were passed in Python, so rows like them are not left out")
        return {}
    try:
        return read_rows(run.recipe, cache_folder(), progress).tables
    except (DataError, RunError) as error:
        progress.log(f"the run's rows cannot be read again, so rows like them are not left out: {error}")
        return {}


def text_of(row: Row, names: Collection[str]) -> str:
    """All that a task reads of a row, as one text."""
    return "\n".join(str(row[name]) for name in names if row.get(name) is not None)


def known_texts(tables: Mapping[str, Table], names: Collection[str]) -> KnownTexts:
    """The texts of all labelled rows."""
    known = KnownTexts()
    for rows in tables.values():
        columns = [name for name in names if name in rows.rows.column_names]
        for values in zip(*(rows.column(name) for name in columns), strict=True):
            known.add(text_of(dict(zip(columns, values, strict=True)), columns))
    return known
