"""Checking a recipe's data without training: everything that is wrong, past the first error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warmstart.data import table
from warmstart.data.check_tables import check_tables, finding_of
from warmstart.data.checks.ids import check_ids
from warmstart.data.fault_handling import Droppable
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import DataError
from warmstart.models.added_tokens import add_tokens
from warmstart.models.loading import load_config, load_tokenizer
from warmstart.pipeline.model_start import window_of
from warmstart.pipeline.preflight import ADDED
from warmstart.pipeline.prepare import Parts, RowEncoder, fit_task, handle_leaked_rows, sources, with_added
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress


def check_data(recipe: Recipe, schema: Schema, cache: Path, progress: Progress, id_column: str | None = None) -> Parts:
    """Read and check every part; what cannot be read is a finding, and the rest is checked all the same.

    Args:
        id_column: A column of ids, which should be unique.
    """
    findings = Findings()
    tables: dict[str, Table] = {}
    for part, source, drop in sources(recipe):
        rows = _read(source, schema, cache, findings, drop, progress)
        if rows is not None:
            if len(rows):
                tables[part] = rows
            if id_column is not None:
                _ids(replace(source, files=rows.files), id_column, findings)
    added = tables.pop(ADDED, None)
    if "train" in tables:
        tables = with_added(tables, added)
    _check_rows(tables, schema, findings)
    if "train" in tables:
        tables = handle_leaked_rows(tables, recipe, schema, findings)
    return Parts(tables, findings)


def count_truncated(recipe: Recipe, parts: Parts, work: Path, progress: Progress) -> None:
    """Count what the window of the recipe's encoder would truncate, as a finding for each part."""
    config, tokenizer = load_config(recipe.model), load_tokenizer(recipe.model)
    task = fit_task(recipe, parts)
    add_tokens(tokenizer, task.new_tokens)
    encoder = RowEncoder(task, tokenizer, window_of(recipe, config, tokenizer, task))
    for name, rows in parts.tables.items():
        encoder.encode(rows, work / f"{name}.arrow", progress, parts.findings)


def _read(
    source: Source, schema: Schema, cache: Path, findings: Findings, drop: frozenset[Droppable], progress: Progress
) -> Table | None:
    """The rows that could be read; what is wrong with the others, and with whole files, becomes findings."""
    try:
        return table.load(source, schema, cache, findings, drop=drop, progress=progress)
    except DataError:
        pass  # read again, past the first error
    try:
        return table.load(source, schema, cache, findings, drop=drop, collect_errors=True, progress=progress)
    except DataError as error:
        findings.extend([finding_of(error)])
    return None


def _check_rows(tables: dict[str, Table], schema: Schema, findings: Findings) -> None:
    """Check the rows that could be read; where some could not, a label may be missing because of that."""
    incomplete = any(finding.severity == "error" for finding in findings)
    row_findings = Findings()
    check_tables(tables, schema, row_findings)
    findings.extend(
        finding for finding in row_findings if not (incomplete and finding.kind in ("label-one", "label-unseen"))
    )


def _ids(source: Source, column: str, findings: Findings) -> None:
    try:
        check_ids(source, column, findings)
    except DataError as error:
        findings.extend([finding_of(error)])
