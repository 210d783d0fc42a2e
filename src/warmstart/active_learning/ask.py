"""Asking: which rows of a pool to label next, by what a finished run makes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from warmstart.active_learning.pool_rows import PoolRows, known_texts, labelled_rows, read_pool, text_of
from warmstart.active_learning.strategies import (
    DEFAULT,
    READS_PROBABILITIES,
    READS_VECTORS,
    STRATEGIES,
    Numbers,
    Pool,
    Strategy,
    choose_rows,
)
from warmstart.data.fault_handling import Droppable
from warmstart.data.findings import Findings
from warmstart.data.schema import Row
from warmstart.data.source import Source
from warmstart.data.table import Table
from warmstart.errors import RecipeError, nearest
from warmstart.evaluation.run import RunFolder
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.ensembles import MEMBERS, Ensemble
from warmstart.inference.features import Extractor
from warmstart.inference.predictor import Predictor
from warmstart.runtime.progress import Progress, silent
from warmstart.tasks.base import Answer

ROWS = 100
SHOWN = ("label", "labels", "probability")
"""Fields of an answer that are written beside an asked row."""


@dataclass(frozen=True)
class AskedRows:
    """The rows to label next, the most wanted first.

    Attributes:
        rows: Each with the columns of the pool's file, an empty one for the label, where it is from, and what the run
            predicts.
        label: The column to fill in.
        labels: The names of the labels, where the task has such.
        inputs: The columns to read when labelling.
        pool: How many unlabelled rows there were to choose from.
        labelled: How many rows of the pool have a label already.
        near_duplicates: How many rows were passed over, since a labelled or chosen row is almost the same.
        findings: What was noticed while the pool was read.
    """

    rows: list[Row]
    strategy: Strategy
    label: str
    labels: tuple[str, ...]
    inputs: tuple[str, ...]
    multi_label: bool
    pool: int
    labelled: int
    near_duplicates: int
    findings: Findings


def ask_rows(
    run: RunFolder,
    source: Source,
    rows: int = ROWS,
    strategy: str | None = None,
    *,
    drop: Collection[Droppable] = (),
    progress: Progress = silent,
) -> AskedRows:
    """Choose rows of a pool to label next.

    Args:
        source: How the pool's file is read.
        rows: How many to choose.
        strategy: One of `STRATEGIES`. None: `mixed`; `margin` for a task that reads no `text`, `coverage` for one
            without probabilities.
        drop: Rows that are left out and counted, instead of being errors.
    """
    if rows < 1:
        raise RecipeError(f"--rows {rows}: expected 1 or more")
    predictor = Predictor.load(run.folder)
    chosen = _strategy(strategy, predictor, run)
    schema = predictor.task.schema(predictor.task.options)
    pool = read_pool(run, source, schema, drop)
    tables = labelled_rows(run, progress)
    names = [name for name in schema.inputs if name in pool.rows[0]]
    facts, answers = _facts(run, predictor, chosen, pool, tables, progress)
    known, passed = known_texts(tables, names), 0

    def accept(row: int) -> bool:
        nonlocal passed
        text = text_of(pool.rows[row], names)
        if known.has_near_duplicate(text):
            passed += 1
            return False
        known.add(text)
        return True

    picked = choose_rows(chosen, facts, rows, accept)
    label_names = getattr(getattr(predictor.task, "labels", None), "names", ())
    return AskedRows(
        [_asked(pool, index, answers) for index in picked],
        chosen,
        pool.label,
        tuple(label_names),
        tuple(_file_names(pool, names)),
        facts.multi_label,
        len(pool.rows),
        pool.labelled,
        passed,
        pool.findings,
    )


def check_strategy(name: str) -> Strategy:
    """A strategy by its name."""
    for strategy in STRATEGIES:
        if strategy == name:
            return strategy
    raise RecipeError(f"--strategy {name}: {nearest(name, STRATEGIES)}")


def _strategy(name: str | None, predictor: Predictor, run: RunFolder) -> Strategy:
    """The strategy that is asked for, if the run has what it reads, or the best one for the run."""
    has_probabilities = "probabilities" in predictor.task.answer_schema
    if name is None:
        reads_text = "text" in predictor.task.schema(predictor.task.options).inputs
        return "coverage" if not has_probabilities else DEFAULT if reads_text else "margin"
    strategy = check_strategy(name)
    if strategy in READS_PROBABILITIES and not has_probabilities:
        raise RecipeError(
            f"--strategy {name}: the task {predictor.task.name} gives no probabilities of labels; use "
            "coverage or random"
        )
    if strategy == "disagreement" and not isinstance(_model(predictor), Ensemble):
        raise RecipeError(
            "--strategy disagreement: the run holds one model, which agrees with itself; train several seeds and keep "
            f"them all, by `warmstart fit {run.folder}/recipe.yaml --seeds 3 --select ensemble --out …`, or use margin"
        )
    return strategy


def _facts(
    run: RunFolder,
    predictor: Predictor,
    strategy: Strategy,
    pool: PoolRows,
    tables: Mapping[str, Table],
    progress: Progress,
) -> tuple[Pool, list[Answer] | None]:
    """What the strategy reads of the pool, and the run's answers to it where they were computed."""
    facts = Pool(len(pool.rows), multi_label=bool(getattr(predictor.task, "multi_label", False)))
    answers = None
    if strategy in READS_PROBABILITIES:
        answers = _answers(predictor, pool.rows, "predicting", progress)
        facts = replace(facts, probabilities=_probabilities(answers))
    model = _model(predictor)
    if strategy == "disagreement" and isinstance(model, Ensemble):
        members = [predictor.with_engine(TorchEngine(member)) for member in model.members]
        each = [
            _probabilities(_answers(member, pool.rows, f"model {number}", progress))
            for number, member in enumerate(members, 1)
        ]
        facts = replace(facts, members=np.stack(each))
    if strategy in READS_VECTORS:
        extractor = Extractor.load(run.model / MEMBERS / "0" if isinstance(model, Ensemble) else run.folder)
        facts = replace(facts, vectors=_vectors(extractor, pool.rows, "vectors", progress))
        if strategy == "coverage" and "train" in tables:
            facts = replace(facts, labelled=_vectors(extractor, tables["train"].dicts(), "labelled rows", progress))
    return facts, answers


def _answers(predictor: Predictor, rows: Sequence[Row], name: str, progress: Progress) -> list[Answer]:
    answers = []
    with progress.bar(name, len(rows)) as bar:
        for answer in predictor.stream(rows):
            answers.append(answer)
            bar.advance()
    return answers


def _probabilities(answers: Sequence[Answer]) -> Numbers:
    """Probabilities as an array; where rows have different numbers of choices, those that a row lacks are 0."""
    rows = [
        list(answer["probabilities"].values() if isinstance(answer["probabilities"], dict) else answer["probabilities"])
        for answer in answers
    ]
    array = np.zeros((len(rows), max(map(len, rows))))
    for number, row in enumerate(rows):
        array[number, : len(row)] = row
    return array


def _vectors(extractor: Extractor, rows: Iterable[Row], name: str, progress: Progress) -> Numbers:
    def texts() -> Iterable[Row]:
        for row in rows:
            if "text" not in row:
                raise RecipeError("--strategy coverage: the task reads no column `text`; use margin or random")
            yield {key: row[key] for key in ("text", "pair") if key in row}

    with progress.bar(name, None) as bar:
        chunks = [vectors for _, vectors in extractor.stream(texts(), advance=bar.advance)]
    return np.concatenate(chunks)


def _asked(pool: PoolRows, index: int, answers: Sequence[Answer] | None) -> Row:
    """A row as it is written: its own columns, an empty label, where it is from, and what the run predicts."""
    row = pool.rows[index]
    written = {**pool.own_columns(row)}
    predicted = {} if answers is None else {name: answers[index][name] for name in SHOWN if name in answers[index]}
    more = {"row": pool.location(row), **{f"predicted_{name}": value for name, value in predicted.items()}}
    for name, value in more.items():
        while name in written:
            name = f"{name}_"
        written[name] = value
    return written


def _file_names(pool: PoolRows, names: Sequence[str]) -> list[str]:
    """The file's names of the columns that the task reads."""
    named = bool(pool.kept.names)
    columns = (pool.kept.source.columns.get(name, name) if named else name for name in names)
    return [column if isinstance(column, str) else column[0] for column in columns]


def _model(predictor: Predictor) -> object:
    return getattr(predictor.engine, "model", None)
