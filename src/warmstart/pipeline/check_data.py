"""All that is wrong with a recipe's data, as far as it can be read: past the first error, and without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warmstart.data import table
from warmstart.data.check import check, finding_of
from warmstart.data.checks.ids import check_ids
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import DataError
from warmstart.models.added_tokens import add_tokens
from warmstart.models.loading import load_config, load_tokenizer
from warmstart.pipeline.finetune import window_of
from warmstart.pipeline.prepare import Parts, encode, fit_task, sources, without_shared
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress


def look(recipe: Recipe, schema: Schema, cache: Path, progress: Progress, id_column: str | None = None) -> Parts:
    """Read and check every part; what cannot be read is a finding, and the rest is looked at all the same.

    Args:
        id_column: A column of ids, which should differ from row to row.
    """
    findings = Findings()
    found: dict[str, Table] = {}
    for part, source, drop in sources(recipe):
        rows = _read(source, schema, cache, findings, drop, progress)
        if rows is not None:
            found[part] = rows
            if id_column is not None:
                _ids(replace(source, files=rows.files), id_column, findings)
    check(found, schema, findings)
    if "train" in found:
        found = without_shared(found, recipe, schema, findings)
    return Parts(found, findings)


def count_cut(recipe: Recipe, parts: Parts, work: Path, progress: Progress) -> None:
    """Count what the window of the recipe's encoder would cut, as a finding for each part."""
    config, tokenizer = load_config(recipe.model), load_tokenizer(recipe.model)
    task = fit_task(recipe, parts)
    add_tokens(tokenizer, task.new_tokens)
    window = window_of(recipe, config, tokenizer, task)
    for name, rows in parts.tables.items():
        encode(rows, task, tokenizer, window, work / f"{name}.arrow", progress, parts.findings)


def _read(
    source: Source, schema: Schema, cache: Path, findings: Findings, drop: bool, progress: Progress
) -> Table | None:
    """Read the files together, or, where one is refused, those that are not."""
    try:
        return table.load(source, schema, cache, findings, drop_unlabelled=drop, progress=progress)
    except DataError as error:
        if len(source.files) == 1:
            findings.extend([finding_of(error, _files(source))])
            return None
    good = []
    for file in source.files:
        one = replace(source, files=(file,))
        try:
            table.load(one, schema, cache, Findings(), drop_unlabelled=drop, progress=progress)
            good.append(file)
        except DataError as error:
            findings.extend([finding_of(error, _files(source))])
    if not good:
        return None
    rest = replace(source, files=tuple(good))
    return table.load(rest, schema, cache, findings, drop_unlabelled=drop, progress=progress)


def _files(source: Source) -> tuple[str, ...]:
    """The files of the rows, and those of the texts that they name by id."""
    return (*source.files, *(file for texts in source.texts.values() for file in texts.files))


def _ids(source: Source, column: str, findings: Findings) -> None:
    try:
        check_ids(source, column, findings)
    except DataError as error:
        findings.extend([finding_of(error, source.files)])
