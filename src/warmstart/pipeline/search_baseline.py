"""What a search scores before training at no cost, and whether a trained encoder is fused with BM25.

Both are measured on the same queries, which no training sees if there is something to choose by them: dev rows, or
training queries that are held out. What was measured is published in the run's folder before it is used, so a run that
resumes makes the same choice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from warmstart import tasks
from warmstart.data import split
from warmstart.data.table import Table
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.records.search_baseline import (
    BASELINE_FILE,
    BASELINE_FOLDER,
    FUSION_FILE,
    FUSION_FOLDER,
    FusionRecord,
    HeldOutRecord,
    SearchBaselineRecord,
    SearchScores,
)
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.inference.search import SearchedRows, searches_documents
from warmstart.inference.searchers import FusedSearcher, Searcher, VectorSearcher, WordSearcher
from warmstart.pipeline.finetune import PreparedTraining
from warmstart.pipeline.prepare import Parts, fit_task, grouping_columns, split_seed
from warmstart.recipe import Recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import publish, republish, verify
from warmstart.tasks.base import AnyTask, Columns
from warmstart.tasks.shared.fusion import FusesSearch
from warmstart.tasks.shared.protocols import ArrangesRows
from warmstart.tasks.shared.saved_task import FILE, SavedTask

MIN_QUERIES = 50
"""Training queries below which none is held out."""
SHARE, MAX_HELD_OUT = 0.2, 100
"""The share of the training queries that is held out, and the most of them."""
MAX_QUERIES, MAX_ROWS = 200, 1000
"""The most queries that are measured, and the most rows of theirs."""
MAX_DOCUMENTS = 1000
"""The most documents among which is searched: the judged ones, and others by chance."""


@dataclass(frozen=True)
class HeldOutQueries:
    """Queries to compare ways to search on.

    Attributes:
        part: As `HeldOutRecord.part`.
        collection: Columns `id` and `text` of the documents that are searched; None where candidates are given.
        chooses: Whether the way to search is chosen after training.
    """

    part: str
    rows: Table
    collection: Columns | None
    of_documents: int
    chooses: bool

    @property
    def can_choose(self) -> bool:
        """Whether the queries are none that the encoder was trained on."""
        return self.part != "train"

    def record(self, searched: SearchedRows) -> HeldOutRecord:
        """What a run records of them."""
        documents = len(searched.documents)
        every = documents if self.collection is None else self.of_documents
        return HeldOutRecord(self.part, len(searched.queries), documents, every)


def hold_out_queries(recipe: Recipe, parts: Parts) -> tuple[Parts, HeldOutQueries | None]:
    """The parts to train with, and queries to compare ways to search on; None for a task that searches nothing.

    Dev queries if there are any. Otherwise training queries, which are held out if there is something to choose and
    there are enough of them.
    """
    if not issubclass(tasks.find(recipe.task.name), FusesSearch):
        return parts, None
    task, train = fit_task(recipe, parts), parts.tables["train"]
    assert isinstance(task, FusesSearch)
    part, rows = ("dev", parts.tables["dev"]) if "dev" in parts.tables else ("train", train)
    searched = searches_documents(task, rows.documents is not None)
    chooses = searched and task.search_fusion() == "auto"
    texts = grouping_columns(train, task.schema(task.options))
    seed = split_seed(recipe)
    count = _count(rows, texts)
    if chooses and part == "train" and count >= MIN_QUERIES:
        share = min(SHARE, MAX_HELD_OUT / count)
        chosen = split.split_table(train, texts, None, {"held out": share}, seed)
        part, rows = "held out", train.select(chosen["held out"])
        parts = replace(parts, tables={**parts.tables, "train": train.select(chosen["train"])})
        parts.findings.add(
            "held-out",
            "note",
            f"{len(rows):,} of the {len(train):,} training rows, of {_count(rows, texts)} queries, are held out to "
            f"choose how documents are searched (task.fusion: auto, seed {seed}); give dev rows, or set task.fusion, "
            "to train on all",
        )
    documents = _documents(train if part != "dev" else rows) if searched else {}
    share = min(1.0, MAX_QUERIES / _count(rows, texts), MAX_ROWS / len(rows))
    rows = rows.select(split.take_fraction(rows, texts, None, share, seed)) if share < 1 else rows
    pool = _sample(documents, _columns(task, rows), seed) if searched else None
    return parts, HeldOutQueries(part, rows, pool, len(documents), chooses)


def measure_before(ready: PreparedTraining, held: HeldOutQueries | None, folder: Path, progress: Progress) -> None:
    """Measure BM25 and the encoder as it is, and publish that in the run's folder if it is not there yet."""
    target = folder / BASELINE_FOLDER
    if held is None or target.exists():
        return
    started = time.monotonic()
    predictor = ready.predictor
    if not predictor.engine.gives_vectors and isinstance(ready.task, ArrangesRows):
        predictor = predictor.with_engine(TorchEngine(ready.task.embedding_model(ready.loaded.model)))
    measured = _measure(predictor, held)
    seconds = round(time.monotonic() - started, 3)
    counts, about = measured.words.index.counts, held.record(measured.searched)
    record = SearchBaselineRecord(ready.task.headline, about, counts, measured.scores, seconds)
    progress.log(record.sentence)
    with publish(target) as staging:
        write_record(record, staging / BASELINE_FILE)


def choose_fusion(held: HeldOutQueries | None, folder: Path, progress: Progress) -> None:
    """Choose how the trained model searches documents, publish the choice, and save it with the model."""
    if held is None or not held.chooses:
        return
    target = folder / FUSION_FOLDER
    predictor = Predictor.load(folder)
    task = predictor.task
    assert isinstance(task, FusesSearch)
    if not target.exists():
        record = FusionRecord("none", task.headline, None, None)
        if held.can_choose:
            measured = _measure(predictor, held)
            about = held.record(measured.searched)
            record = FusionRecord(measured.scores.best, task.headline, about, measured.scores)
        progress.log(record.sentence)
        with publish(target) as staging:
            write_record(record, staging / FUSION_FILE)
    verify(target)
    chosen = read_record(FusionRecord, target / FUSION_FILE).chosen
    if task.search_fusion() != chosen:
        with republish(folder / "model") as staging:
            (staging / FILE).unlink()
            SavedTask.of(task.with_fusion(chosen), predictor.window).write(staging)


@dataclass(frozen=True)
class _Measured:
    searched: SearchedRows
    words: WordSearcher
    scores: SearchScores


def _measure(predictor: Predictor, held: HeldOutQueries) -> _Measured:
    """The headline of each way to search; where candidates are given, of each way to score them."""
    task, columns = predictor.task, _columns(predictor.task, held.rows)
    searched = SearchedRows.of(columns, held.collection)
    texts = list(searched.documents.values())
    vectors, words = VectorSearcher(predictor, texts), WordSearcher(texts)
    searchers: dict[str, Searcher] = {"encoder": vectors, "bm25": words}
    if held.collection is not None:
        searchers["fused"] = FusedSearcher([vectors, words])
    scores: dict[str, float | None] = {}
    for name, searcher in searchers.items():
        answers = searched.answers(searcher)
        if held.collection is None:
            answers = [{key: answer[key] for key in task.answer_fields} for answer in answers]
        value = task.compute_metrics(columns, answers)[task.headline]
        scores[name] = None if math.isnan(value) else value
    return _Measured(searched, words, SearchScores(**scores))


def _columns(task: AnyTask, rows: Table) -> Columns:
    names = [name for name in (*task.metric_columns, "negative") if name in rows.rows.column_names]
    return {name: list(rows.column(name)) for name in names}


def _documents(rows: Table) -> dict[str, str]:
    """All documents that a search among these rows can retrieve, by id."""
    if rows.documents is not None:
        return dict(zip(*(rows.documents.column(name) for name in ("id", "text")), strict=True))
    names = ("query", "query_id", "document", "document_id", "negative")
    present = [name for name in names if name in rows.rows.column_names]
    return SearchedRows.of({name: list(rows.column(name)) for name in present}).documents


def _sample(documents: Mapping[str, str], rows: Columns, seed: int) -> Columns:
    """The documents of some rows, and others by chance, at most `MAX_DOCUMENTS` where the rows have no more."""
    own = SearchedRows.of(rows)
    judged = {key for _, key in own.rows}
    others = [key for key in documents if key not in judged]
    order = np.random.default_rng(seed).permutation(len(others))[: max(0, MAX_DOCUMENTS - len(judged))]
    chosen = judged | {others[number] for number in order}
    kept = {key: text for key, text in documents.items() if key in chosen}
    return {"id": list(kept), "text": list(kept.values())}


def _count(rows: Table, texts: tuple[str, ...]) -> int:
    return len(np.unique(split.row_keys(rows, texts)))
