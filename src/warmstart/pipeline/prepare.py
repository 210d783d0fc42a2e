"""Before a training: rows read and split, the task fitted to them, and texts turned into tokens on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warmstart import tasks
from warmstart.data import split, table
from warmstart.data.check import check, stop_at_error
from warmstart.data.findings import Findings
from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.recipe import Recipe
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import Task
from warmstart.text.windows import Cut, Window

PARTS = ("train", "dev", "test")
CHUNK, LONG = 1000, 64
"""Rows turned into tokens at a time; fewer where a row may be so long that it has many features."""

Rows = Mapping[str, Iterable[Mapping[str, Any]]]
"""Rows handed over in Python instead of files, by part: train, dev, test."""


@dataclass(frozen=True)
class Parts:
    """The rows of each part, and what was found in them."""

    tables: dict[str, Table]
    findings: Findings

    def about(self) -> dict[str, Any]:
        """What a run keeps of its data in `data.json`."""
        parts = {
            name: {
                "files": [str(file) for file in part.files],
                "rows": len(part),
                "fingerprint": part.fingerprint,
            }
            for name, part in self.tables.items()
        }
        return {"parts": parts, "findings": self.findings.as_json()}


def read_parts(recipe: Recipe, schema: Schema, cache: Path, progress: Progress, rows: Rows | None = None) -> Parts:
    """Read train, dev and test; hold out what has no file of its own; leave out what the recipe says to drop.

    Args:
        cache: Where rows are kept as Arrow.
        rows: Rows handed over in Python, which take the place of the recipe's files.
    """
    findings = Findings()
    if rows is not None:
        found = {part: table.from_rows(rows[part], schema, cache / part, part) for part in PARTS if part in rows}
    else:
        found = {
            part: table.load(source, schema, cache, findings, drop_unlabelled=drop, progress=progress)
            for part, source, drop in sources(recipe)
        }
    check(found, schema, findings)
    stop_at_error(findings)
    answer = schema.answer.name if schema.answer else None
    found = _hold_out(found, recipe, together(found["train"], schema), answer, findings)
    return Parts(without_shared(found, recipe, schema, findings), findings)


def read_rows(recipe: Recipe, cache: Path, progress: Progress, rows: Rows | None = None) -> Parts:
    """The parts of a recipe by the columns of its own task; as `read_parts`."""
    return read_parts(recipe, tasks.schema_of(recipe.task.name, recipe.task.options), cache, progress, rows)


def sources(recipe: Recipe) -> Iterator[tuple[str, Source, bool]]:
    """Each part that has files: its name, how they are read, and whether its rows without an answer are left out."""
    for part in PARTS:
        reading = recipe.data.reading(part)
        if reading is not None:
            yield part, Source(**reading), part == "train" and "unlabelled" in recipe.data.drop


def together(rows: Table, schema: Schema) -> tuple[str, ...]:
    """The columns, among those that the rows have, whose equal rows belong in one part."""
    return tuple(name for name in schema.together or schema.inputs if name in rows.rows.column_names)


def _hold_out(
    found: dict[str, Table], recipe: Recipe, texts: tuple[str, ...], answer: str | None, findings: Findings
) -> dict[str, Table]:
    wanted = {
        part: getattr(recipe.data.split, part)
        for part in ("dev", "test")
        if part not in found and getattr(recipe.data.split, part) > 0
    }
    if not wanted:
        return found
    train = found["train"]
    seed = recipe.seed if recipe.data.split.seed is None else recipe.data.split.seed
    chosen = split.split(train, texts, answer, wanted, seed)
    for part in wanted:
        findings.add(
            "held-out",
            "note",
            f"{len(chosen[part]):,} of the {len(train):,} training rows are held out as {part} "
            f"(data.split.{part}: {wanted[part]}, seed {seed}), duplicates kept on one side",
        )
    return {**found, **{part: train.select(indices) for part, indices in chosen.items()}}


def without_shared(found: dict[str, Table], recipe: Recipe, schema: Schema, findings: Findings) -> dict[str, Table]:
    """Find training rows that are in dev or test as well; leave them out if the recipe says so."""
    drop = "shared" in recipe.data.drop
    texts = together(found["train"], schema)
    told = f"have the same {' and '.join(texts)} as a row of" if schema.together else "are in"
    for part in ("dev", "test"):
        if part not in found:
            continue
        train = found["train"]
        twins = split.shared(train, found[part], texts)
        if not len(twins):
            continue
        file, line = train.place(int(twins[0]))
        done = "left out of training" if drop else "kept; leave them out with `drop: [shared]` or --drop shared"
        findings.add(
            "shared",
            "note" if drop else "warning",
            f"{len(twins):,} training rows {told} {part} as well, this one first; {done}",
            file,
            line,
            len(twins),
            train.unit(file),
        )
        if drop:
            gone = set(twins.tolist())
            found = {**found, "train": train.select([i for i in range(len(train)) if i not in gone])}
    return found


def fit_task(recipe: Recipe, parts: Parts, saved: Any = None) -> Task[Any]:
    """The task, fitted to the training answers, after every other part's answers were found to be among them."""
    kind = tasks.find(recipe.task.name)
    options = tasks.options_of(recipe.task.name, recipe.task.options)
    answer = kind.schema(options).answer
    train = parts.tables["train"]
    learned = train.column(answer.name) if answer else ()
    task = kind.learn(options, learned, "pair" in train.rows.column_names, saved)
    for name, part in parts.tables.items():
        if name != "train" and answer:
            task.check_answers(part.column(answer.name), part.where)
    return task


def encode(
    rows: Table,
    task: Task[Any],
    tokenizer: Any,
    window: Window,
    path: Path,
    progress: Progress,
    findings: Findings,
) -> tuple[Any, dict[str, Any]]:
    """Tokens of every row, memory-mapped from `path`, and how much of the text the window cut.

    The main process writes them; any other opens what is there, and knows nothing of the cut.
    """
    if not processes.is_main():
        return table.open_written(path), {}
    cut = Cut()
    first: list[int] = []
    lost: Counter[int] = Counter()

    def batches() -> Iterator[dict[str, list[Any]]]:
        with progress.bar("reading tokens", len(rows)) as bar:
            for chunk in rows.chunks(LONG if task.own_windows else CHUNK):
                features = task.encode(chunk, tokenizer, window)
                start, count = cut.rows, len(next(iter(chunk.values())))
                for number, feature in enumerate(features):
                    feature["row"] = start + feature.get("of", number)
                    if feature["row"] == cut.rows:  # its first feature counts for the row
                        cut.add(feature)
                    if feature["cut"] and not first:
                        first.append(feature["row"])
                    if feature.get("lost"):
                        lost[feature["row"]] += feature["lost"]
                bar.advance(count)
                names = [name for name in features[0] if name not in {"cut", "tokens", "of", "lost"}]
                yield {name: [feature[name] for feature in features] for name in names}

    encoded = table.write(batches(), path)
    if first:
        file, line = rows.place(first[0])
        message = cut.told(window, ", this one first")
        findings.add("window-cut", "warning", message, file, line, cut.rows_cut, rows.unit(file))
    if lost:
        file, line = rows.place(next(iter(lost)))
        message = (
            f"{lost.total():,} entities begin or end inside a word, one here first; they are learned as all they touch"
        )
        findings.add("entity-inside", "warning", message, file, line, lost.total(), rows.unit(file))
    return encoded, asdict(cut)
