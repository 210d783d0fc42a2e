"""The head by a linear model on the encoder's features: as its start, and once more after training.

`head.init: linear-probe` publishes the solution in the run's folder before training, so that a run that resumes starts
from the very same head. `head.refit` solves it again on the features of the trained encoder.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from warmstart.data.table import Table
from warmstart.errors import RecipeError
from warmstart.evaluation.records import linear_probe as probe_record
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.records.linear_probe import OnTestRows, ProbeRecord, TfidfRecord
from warmstart.evaluation.statistics import over_seeds
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.predictor import Predictor
from warmstart.models.linear_probe import (
    MAX_ROWS,
    REFIT_FACTOR,
    START_STRENGTH,
    Examples,
    LinearProbe,
    ProbeKind,
    Targets,
    Vectors,
    fit_head,
    fit_probe,
    labels_of,
    sample_rows,
)
from warmstart.models.tfidf import cross_validate, predict_others
from warmstart.pipeline.baselines_on_test import predictor_on_test, score_on_test, some_test_rows
from warmstart.pipeline.frozen_features import FeatureWriter
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import publish, verify
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import HasLinearProbe
from warmstart.tasks.shared.token_probe import has_token_probe
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from datasets import Dataset

    from warmstart.models.heads.pooled import PooledForSequenceClassification

FOLDER = "linear-probe"
HEAD, START = "head.safetensors", "start.safetensors"
_METHODS = {
    "logistic": "logistic regression",
    "multi-label-logistic": "logistic regression for each label",
    "ridge": "ridge regression",
}


def check_probe(task: AnyTask) -> None:
    """Refuse a task whose head no linear model solves."""
    if not isinstance(task, HasLinearProbe) and not has_token_probe(task):
        raise RecipeError(
            f"head.init: found linear-probe, but {task.name} has no head that a linear model solves; set "
            "random, or use classify or score"
        )


@dataclass(frozen=True)
class ProbeStart:
    """Starts a head from its linear probe.

    Args:
        train: The training rows, of which `rows` are the encoded ones.
        features: The rows with the features of the encoder; None to compute those of a sample.
        path: Where features that are computed are written.
        window: How texts are read.
        test: Rows on which the baselines are measured beside the model; None for none.
        answers_test: Whether the probe answers those rows, as `PreparedTraining.probe_answers_test` says.
    """

    writer: FeatureWriter
    train: Table
    rows: Dataset
    features: Dataset | None
    path: Path
    seed: int
    window: Window
    test: Table | None = None
    answers_test: bool = False

    def solve(self, folder: Path, progress: Progress) -> ProbeRecord:
        """Put the probe's solution into the head: the one published in the run's folder, or a new one."""
        target = folder / FOLDER
        with processes.main_process_first():
            if processes.is_main_process() and not target.exists():
                self._publish(target, progress)
        verify(target)
        self._put(load_file(target / HEAD))
        return read_record(ProbeRecord, target / probe_record.FILE)

    def begin(self, folder: Path) -> None:
        """Put into the head what training starts from: a solution that leaves the encoder something to learn."""
        self._put(load_file(folder / FOLDER / START))

    def refit(self, record: ProbeRecord, progress: Progress) -> None:
        """Fit the head anew to the features that the encoder gives now, by what the first probe's strengths showed.

        A cross-validation of its own would mislead: the encoder has learned from the rows that are held out. With 24
        rows of a label for everything else and eight of each of 150 intents, the probe's strength as the upper limit
        was worth 1.6 points (two seeds).
        """
        vectors, labels, _ = self._read(None, progress)
        task, outputs = cast(HasLinearProbe, self.writer.task), self.writer.model.num_labels
        strength = record.strength
        if task.probe_kind != "ridge":
            strength = max(min((record.refit_strength or strength) / REFIT_FACTOR, strength), START_STRENGTH)
        names = self._label_names() if record.label_names else None
        self._put(head_tensors(fit_head(vectors, labels, task.probe_kind, outputs, strength, names)))

    def _put(self, tensors: dict[str, torch.Tensor]) -> None:
        head = cast("PooledForSequenceClassification", self.writer.model).classifier
        head.load_state_dict(tensors)

    def _read(self, features: Dataset | None, progress: Progress) -> tuple[Vectors, Targets, Targets]:
        """Vectors and targets of all rows, or of a sample, and their numbers."""
        kind = cast(HasLinearProbe, self.writer.task).probe_kind
        labels = _targets(self.rows["labels"], kind, self.writer.model.num_labels)
        chosen = np.array(sample_rows(labels_of(labels, kind), len(labels), MAX_ROWS, self.seed))
        if features is None:
            features = self.writer.write(self.rows.select(chosen), self.path, progress)
        else:
            features = features.select(chosen)
        vectors = np.asarray(features.with_format("numpy", columns=["vectors"])[:]["vectors"])
        return vectors, labels[chosen], chosen

    def _label_names(self) -> Examples | None:
        """The name of each label as one more text that has it, which counts where its rows are few.

        With 10 rows a label, that was worth a point on banking77 (86.3 against 85.2%, and 86.4 against 85.0 with
        another seed).
        """
        task = self.writer.task
        names = cast(HasLinearProbe, task).label_names
        if not names:
            return None
        features = task.encode({"text": list(names)}, self.writer.tokenizer, self.window)
        return self.writer.embed(features), np.arange(len(names))

    def _publish(self, target: Path, progress: Progress) -> None:
        started = time.monotonic()
        task = cast(HasLinearProbe, self.writer.task)
        vectors, labels, chosen = self._read(self.features, progress)
        kind, outputs = task.probe_kind, self.writer.model.num_labels
        names = self._label_names()
        probe = fit_probe(vectors, labels, kind, outputs, self.seed, names)
        used = names if probe.names_used else None
        start = probe if kind == "ridge" else fit_head(vectors, labels, kind, outputs, START_STRENGTH, used)
        record = make_record(
            self._scores(probe.held_out, chosen),
            method=_METHODS[kind],
            strength=probe.strength,
            rows=probe.rows,
            of_rows=len(self.rows),
            metric=self.writer.task.headline,
            seconds=time.monotonic() - started,
        )
        words = self._tfidf(probe, labels, chosen)
        record = replace(record, label_names=probe.names_used, refit_strength=probe.refit_strength)
        record = replace(record, tfidf=words, on_test=self._on_test(probe))
        publish_probe(record, probe, start, target, progress)

    def _tfidf(self, probe: LinearProbe, labels: Targets, chosen: Targets) -> TfidfRecord | None:
        """What counting words predicts of the rows that were held out from the probe."""
        task, folds = cast(HasLinearProbe, self.writer.task), [rows for rows, _ in probe.held_out]
        if "pair" in self.train.rows.column_names or task.probe_kind == "ridge" or len(folds) < 2:
            return None
        started = time.monotonic()
        texts = list(self.train.select(np.array(self.rows["row"])[chosen].tolist()).column("text"))
        outputs = cross_validate(texts, labels, task.probe_kind, self.writer.model.num_labels, folds)
        estimate = over_seeds(self._scores(list(zip(folds, outputs, strict=True)), chosen))
        spread = estimate.high - estimate.mean
        on_test = self._tfidf_on_test(texts, labels) if self.test is not None else None
        seconds = round(time.monotonic() - started, 3)
        return TfidfRecord(self.writer.task.headline, len(folds), estimate.mean, spread, seconds, on_test)

    def _tfidf_on_test(self, texts: Sequence[str], labels: Targets) -> OnTestRows | None:
        assert self.test is not None
        rows, task = some_test_rows(self.test), self.writer.task
        kind, others = cast(HasLinearProbe, task).probe_kind, list(rows.column("text"))
        outputs = predict_others(texts, labels, kind, self.writer.model.num_labels, others)
        answers = task.decode({"logits": torch.from_numpy(outputs)}, ())
        return score_on_test(task, rows, answers, of_rows=len(self.test))

    def _on_test(self, probe: LinearProbe) -> OnTestRows | None:
        """The probe's score on test rows; None where it does not answer them."""
        if self.test is None or not self.answers_test:
            return None
        return predictor_on_test(self._predictor(probe), self.test)

    def _predictor(self, probe: LinearProbe) -> Predictor:
        """The model with the probe as its head."""
        self._put(head_tensors(probe))
        writer = self.writer
        return Predictor(TorchEngine(writer.model, writer.precision), writer.tokenizer, writer.task, self.window)

    def _scores(self, folds: Sequence[tuple[list[int], Vectors]], chosen: Targets) -> list[float]:
        """The headline on the rows of each fold that were held out."""
        task = self.writer.task
        answers, numbers = list(self.train.column("label")), np.array(self.rows["row"])[chosen]
        scores = []
        for held_out, outputs in folds:
            true = [answers[number] for number in numbers[held_out]]
            predictions = task.decode({"logits": torch.from_numpy(outputs)}, ())
            scores.append(float(task.compute_metrics({"label": true}, predictions)[task.headline]))
        return scores


@dataclass(frozen=True)
class ProbedHead:
    """A head that has its linear probe's solution."""

    start: ProbeStart
    record: ProbeRecord


def make_record(
    scores: Sequence[float], *, method: str, strength: float, rows: int, of_rows: int, metric: str, seconds: float
) -> ProbeRecord:
    """The record of a probe that scored so on each fold."""
    estimate = over_seeds(scores)
    return ProbeRecord(
        method=method,
        strength=strength,
        rows=rows,
        of_rows=of_rows,
        metric=metric,
        folds=len(scores),
        value=estimate.mean if scores else None,
        half_width=estimate.high - estimate.mean if len(scores) > 1 else None,
        seconds=round(seconds, 3),
    )


def publish_probe(
    record: ProbeRecord, probe: LinearProbe, start: LinearProbe, target: Path, progress: Progress
) -> None:
    """Log a probe's score, and publish it with its solution and with what training starts from."""
    progress.log(record.sentence)
    if record.tfidf is not None:
        progress.log(record.tfidf.sentence)
    with publish(target) as staging:
        save_file(head_tensors(probe), staging / HEAD)
        save_file(head_tensors(start), staging / START)
        write_record(record, staging / probe_record.FILE)


def head_tensors(probe: LinearProbe) -> dict[str, torch.Tensor]:
    """The weights of a linear head that gives a probe's outputs."""
    return {"weight": torch.from_numpy(probe.weight), "bias": torch.from_numpy(probe.bias)}


def _targets(labels: Sequence[int | float | list[int]], kind: ProbeKind, outputs: int) -> Targets:
    """Labels of encoded rows as a probe takes them."""
    if kind != "multi-label-logistic":
        return np.array(labels)
    matrix = np.zeros((len(labels), outputs), dtype=np.int64)
    for row, ids in enumerate(labels):
        matrix[row, cast("list[int]", ids)] = 1
    return matrix
