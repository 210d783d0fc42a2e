"""Before a training: reading and splitting the rows, fitting the task to them, and tokenizing texts to disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart import tasks
from warmstart.data import split, table
from warmstart.data.arrow_files import open_arrow, write_arrow
from warmstart.data.check_tables import check_tables, stop_at_error
from warmstart.data.fault_handling import Droppable
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import RecipeError
from warmstart.evaluation.records.data import DataRecord, PartRecord
from warmstart.pipeline.preflight import ADDED, PARTS
from warmstart.pipeline.prompts import with_prompts
from warmstart.recipe import Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import CountsFindings, ReadsWindows, TunesOnDev
from warmstart.tasks.shared.teacher_vectors import TEACHER_VECTOR
from warmstart.text.windows import Truncation, Window

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

CHUNK, LONG = 1000, 64
"""Rows tokenized at a time; fewer where a row may be so long that it has many features."""

Rows = Mapping[str, Iterable[Mapping[str, Any]]]
"""Rows passed in Python instead of files, by part: train, dev, test."""


@dataclass(frozen=True)
class Parts:
    """The rows of each part, and the findings in them."""

    tables: dict[str, Table]
    findings: Findings

    def record(self) -> DataRecord:
        """What a run records of its data."""
        parts = {
            name: PartRecord([str(file) for file in part.files], len(part), part.fingerprint)
            for name, part in self.tables.items()
        }
        return DataRecord(parts, list(self.findings))


def read_parts(recipe: Recipe, schema: Schema, cache: Path, progress: Progress, rows: Rows | None = None) -> Parts:
    """Read train, dev and test; hold out parts that have no file; leave out the rows that the recipe drops.

    Args:
        cache: Where rows are stored as Arrow.
        rows: Rows passed in Python, which replace the recipe's files.
    """
    findings = Findings()
    if rows is not None:
        tables = {part: table.from_rows(rows[part], schema, cache / part, part) for part in PARTS if part in rows}
    else:
        tables = {
            part: table.load(source, schema, cache, findings, drop=drop, progress=progress)
            for part, source, drop in sources(recipe)
        }
    added = tables.pop(ADDED, None)
    check_tables(with_added(tables, added), schema, findings)
    stop_at_error(findings)
    answer = schema.answer.name if schema.answer else None
    tables = _hold_out(tables, recipe, grouping_columns(tables["train"], schema), answer, findings)
    tables = with_added(tables, added)
    tables = handle_leaked_rows(tables, recipe, schema, findings)
    return Parts(_take_fraction(tables, recipe, grouping_columns(tables["train"], schema), answer, findings), findings)


def read_rows(recipe: Recipe, cache: Path, progress: Progress, rows: Rows | None = None) -> Parts:
    """The parts of a recipe by the columns of its own task; as `read_parts`."""
    return read_parts(recipe, tasks.schema_of(recipe.task.name, recipe.task.options), cache, progress, rows)


def sources(recipe: Recipe) -> Iterator[tuple[str, Source, frozenset[Droppable]]]:
    """Each part that has files: its name, how they are read, and the rows that are left out.

    Rows without a text are left out of any part, since no model has an answer to them; those without an answer only
    where they would be trained on.
    """
    for part in (*PARTS, ADDED):
        reading = recipe.data.reading(part)
        if reading is not None:
            wanted: dict[Droppable, bool] = {"empty": True, "unlabelled": part in ("train", ADDED)}
            yield (
                part,
                Source(**reading),
                frozenset(kind for kind in wanted if wanted[kind] and kind in recipe.data.drop),
            )


def with_added(tables: dict[str, Table], added: Table | None) -> dict[str, Table]:
    """The parts, with added rows behind the training rows."""
    return tables if added is None else {**tables, "train": table.with_rows_of(tables["train"], added)}


def grouping_columns(rows: Table, schema: Schema) -> tuple[str, ...]:
    """The columns by which rows are duplicates of each other, and so belong in one part."""
    return tuple(name for name in schema.together or schema.inputs if name in rows.rows.column_names)


def _hold_out(
    tables: dict[str, Table], recipe: Recipe, texts: tuple[str, ...], answer: str | None, findings: Findings
) -> dict[str, Table]:
    wanted = {
        part: getattr(recipe.data.split, part)
        for part in ("dev", "test")
        if part not in tables and getattr(recipe.data.split, part) > 0
    }
    if not wanted:
        return tables
    train, seed = tables["train"], split_seed(recipe)
    chosen = split.split_table(train, texts, answer, wanted, seed)
    for part in wanted:
        findings.add(
            "held-out",
            "note",
            f"{len(chosen[part]):,} of the {len(train):,} training rows are held out as {part} "
            f"(data.split.{part}: {wanted[part]}, seed {seed}), duplicates kept on one side",
        )
    return {**tables, **{part: train.select(indices) for part, indices in chosen.items()}}


def _take_fraction(
    tables: dict[str, Table], recipe: Recipe, texts: tuple[str, ...], answer: str | None, findings: Findings
) -> dict[str, Table]:
    """Leave out training rows beyond the fraction that the recipe asks for."""
    fraction = recipe.data.fraction
    if fraction == 1:
        return tables
    train, seed = tables["train"], split_seed(recipe)
    chosen = split.take_fraction(train, texts, answer, fraction, seed)
    findings.add(
        "fraction",
        "note",
        f"{len(chosen):,} of the {len(train):,} training rows are used (data.fraction: {fraction}, seed {seed})",
    )
    return {**tables, "train": train.select(chosen)}


def split_seed(recipe: Recipe) -> int:
    """The seed by which rows are split."""
    return recipe.seed if recipe.data.split.seed is None else recipe.data.split.seed


def handle_leaked_rows(
    tables: dict[str, Table], recipe: Recipe, schema: Schema, findings: Findings
) -> dict[str, Table]:
    """Report training rows that are in dev or test as well; leave them out if the recipe drops them."""
    drop = "leaked" in recipe.data.drop
    texts = grouping_columns(tables["train"], schema)
    how = f"have the same {' and '.join(texts)} as a row of" if schema.together else "are in"
    for part in ("dev", "test"):
        if part not in tables:
            continue
        train = tables["train"]
        twins = split.shared_rows(train, tables[part], texts)
        if not len(twins):
            continue
        done = "left out of training" if drop else "kept; leave them out with `drop: [leaked]` or --drop leaked"
        findings.add(
            "shared",
            "note" if drop else "warning",
            f"{len(twins):,} training rows {how} {part} as well, this one first; {done}",
            train.location(int(twins[0])),
            len(twins),
        )
        if drop:
            gone = set(twins.tolist())
            tables = {**tables, "train": train.select([i for i in range(len(train)) if i not in gone])}
    return tables


def fit_task(recipe: Recipe, parts: Parts, saved: PretrainedConfig | None = None) -> AnyTask:
    """The task, fitted to the training answers; answers of other parts that it does not know are refused.

    Args:
        saved: The config of a model whose head is reused.
    """
    kind = tasks.find(recipe.task.name)
    options = tasks.options_of(recipe.task.name, with_prompts(recipe)[0].task.options)
    schema, train = kind.schema(options), parts.tables["train"]
    answer = schema.answer_in(train.rows.column_names)
    learned = train.column(answer.name) if answer else ()
    task = kind.from_answers(options, learned, "pair" in train.rows.column_names, saved)
    if isinstance(task, TunesOnDev) and task.needs_dev and "dev" not in parts.tables:
        raise RecipeError(
            f"{task.needs_dev}: there are no dev rows to choose it on; set data.dev, or data.split.dev: 0.1"
        )
    for name, part in parts.tables.items():
        answer = schema.answer_in(part.rows.column_names)
        if name != "train" and answer:
            task.check_answers(part.column(answer.name), part.location)
    return task


@dataclass(frozen=True)
class RowEncoder:
    """How rows become token ids."""

    task: AnyTask
    tokenizer: PreTrainedTokenizerBase
    window: Window

    def encode(self, rows: Table, path: Path, progress: Progress, findings: Findings) -> tuple[Dataset, Truncation]:
        """Tokens of every row, memory-mapped from `path`, and how much of the text the window truncated.

        The main process writes them; any other opens the file, and does not know what was truncated.
        """
        if not processes.is_main_process():
            return open_arrow(path), Truncation()
        truncation = Truncation()
        first: list[int] = []
        noticed = self.task.encoding_findings if isinstance(self.task, CountsFindings) else {}
        counts: dict[str, Counter[int]] = {name: Counter() for name in noticed}
        not_stored = {"cut", "tokens", "sample", *noticed}

        def batches() -> Iterator[dict[str, list[Any]]]:
            with progress.bar("reading tokens", len(rows)) as bar:
                for chunk in rows.chunks(LONG if isinstance(self.task, ReadsWindows) else CHUNK):
                    features = self.task.encode(chunk, self.tokenizer, self.window)
                    start, count = truncation.rows, len(next(iter(chunk.values())))
                    for number, feature in enumerate(features):
                        feature["row"] = start + feature.get("sample", number)
                        if feature["row"] == truncation.rows:  # its first feature counts for the row
                            truncation.add(feature)
                        if feature["cut"] and not first:
                            first.append(feature["row"])
                        if TEACHER_VECTOR in chunk:
                            vector = chunk[TEACHER_VECTOR][feature["row"] - start]
                            feature[TEACHER_VECTOR] = np.asarray(vector, np.float32)
                        for name, by_row in counts.items():
                            if feature.get(name):
                                by_row[feature["row"]] += feature[name]
                    bar.advance(count)
                    names = [name for name in features[0] if name not in not_stored]
                    yield {name: [feature[name] for feature in features] for name in names}

        encoded = write_arrow(batches(), path)
        if first:
            message = truncation.summary(self.window, ", this one first")
            findings.add("window-cut", "warning", message, rows.location(first[0]), truncation.rows_cut)
        for name, by_row in counts.items():
            if by_row:
                kind, message = noticed[name]
                total, count = by_row.total(), truncation.rows
                message = message.format(count=total, rows=count, others=count - len(by_row))
                findings.add(kind, "warning", message, rows.location(next(iter(by_row))), total)
        return encoded, truncation
