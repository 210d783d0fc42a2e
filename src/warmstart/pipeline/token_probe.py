"""The head of a task that labels tokens, solved by a logistic regression on the encoder's states.

As in `pipeline.linear_probe`, with a row for each scored token. Cross-validation holds out whole texts: words of one
text are too much alike to be on both sides, and the metric of the task is one of texts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from warmstart.evaluation.evaluate import predict_rows
from warmstart.evaluation.records.linear_probe import ProbeRecord
from warmstart.models.linear_probe import (
    FOLDS,
    START_STRENGTH,
    STRENGTHS,
    LinearProbe,
    Targets,
    Vectors,
    fit_head,
    mean_loss,
)
from warmstart.pipeline.linear_probe import ProbeStart, head_tensors, make_record, publish_probe
from warmstart.runtime.progress import Progress
from warmstart.tasks.shared.token_probe import HasTokenProbe

if TYPE_CHECKING:
    from datasets import Dataset

MAX_TOKENS = 50_000
"""Scored tokens beyond which the probe is fitted to a sample of the texts."""
MAX_FOLD_TOKENS = 10_000
"""Scored tokens beyond which the strength is chosen on a sample of the texts."""
METHOD = "logistic regression for each token"

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TokenProbeStart(ProbeStart):
    """Starts a head over tokens from its linear probe; `rows` and `features` are windows of texts."""

    def refit(self, record: ProbeRecord, progress: Progress) -> None:
        """Fit the head anew to the states that the encoder gives now, with the strength of the first probe."""
        tokens = self._tokens(None, progress)
        self._put(head_tensors(tokens.fit(slice(None), self.writer.model.num_labels, record.strength)))

    def _tokens(self, features: Dataset | None, progress: Progress) -> _Tokens:
        """The scored tokens of all texts, or of a sample."""
        ignored = cast(HasTokenProbe, self.writer.task).ignored_label
        labels = [np.asarray(row) for row in self.rows["labels"]]
        scored = [row != ignored for row in labels]
        texts = np.asarray(self.rows["row"])
        present = [set(row[some].tolist()) for row, some in zip(labels, scored, strict=True)]
        chosen = sample_texts(texts, [int(some.sum()) for some in scored], present, MAX_TOKENS, self.seed)
        windows = np.flatnonzero(np.isin(texts, chosen))
        if features is None:
            features = self.writer.write(self.rows.select(windows), self.path, progress)
        else:
            features = features.select(windows)
        states = [
            np.asarray(row["states"]).reshape(len(scored[at]), -1)[scored[at]]
            for at, row in zip(windows, features.select_columns(["states"]), strict=True)
        ]
        counts = [int(scored[at].sum()) for at in windows]
        return _Tokens(
            np.concatenate(states),
            np.concatenate([labels[at][scored[at]] for at in windows]),
            np.repeat(texts[windows], counts),
        )

    def _publish(self, target: Path, progress: Progress) -> None:
        started = time.monotonic()
        tokens, outputs = self._tokens(self.features, progress), self.writer.model.num_labels
        some = tokens.sample(MAX_FOLD_TOKENS, self.seed)
        strength, scores = STRENGTHS["logistic"][1], []
        folds = list(some.folds(self.seed))
        if folds:
            strength = best_strength(some, folds, outputs)
            scores = [self._score(some.fit(train, outputs, strength), some.texts[test]) for train, test in folds]
        probe, start = (tokens.fit(slice(None), outputs, chosen) for chosen in (strength, START_STRENGTH))
        record = make_record(
            scores,
            method=METHOD,
            strength=strength,
            rows=len(tokens.names),
            of_rows=len(self.train),
            metric=self.writer.task.headline,
            seconds=time.monotonic() - started,
        )
        publish_probe(replace(record, on_test=self._on_test(probe)), probe, start, target, progress)

    def _score(self, probe: LinearProbe, texts: Numbers) -> float:
        """The headline of a probe on texts that it has not seen."""
        task = self.writer.task
        columns, answers = predict_rows(self._predictor(probe), self.train.select(np.unique(texts)))
        return float(task.compute_metrics(columns, answers)[task.headline])


@dataclass(frozen=True)
class _Tokens:
    """Scored tokens: their states, their labels and the text that each belongs to."""

    vectors: Vectors
    labels: Targets
    texts: Numbers

    @cached_property
    def names(self) -> Numbers:
        """The texts, each once."""
        return np.unique(self.texts)

    def sample(self, most: int, seed: int) -> _Tokens:
        """Those of as many texts as have at most so many tokens."""
        names, counts = np.unique(self.texts, return_counts=True)
        order = np.random.default_rng(seed).permutation(len(names))
        chosen = np.isin(self.texts, names[order[np.cumsum(counts[order]) <= most]])
        return _Tokens(self.vectors[chosen], self.labels[chosen], self.texts[chosen])

    def folds(self, seed: int) -> Iterator[tuple[Numbers, Numbers]]:
        """Tokens to fit to and tokens held out, of each fold; whole texts are on one side."""
        from sklearn.model_selection import GroupKFold

        count = min(FOLDS, len(self.names))
        if count > 1:
            yield from GroupKFold(count, shuffle=True, random_state=seed).split(self.texts, groups=self.texts)

    def fit(self, chosen: Numbers | slice, outputs: int, strength: float) -> LinearProbe:
        """A probe that is fitted to some of the tokens."""
        return fit_head(self.vectors[chosen], self.labels[chosen], "logistic", outputs, strength)


def best_strength(tokens: _Tokens, folds: Sequence[tuple[Numbers, Numbers]], outputs: int) -> float:
    """The strength whose probes give the held-out tokens of all folds the highest likelihood."""

    def loss(strength: float) -> float:
        losses = []
        for train, test in folds:
            held_out = tokens.fit(train, outputs, strength).outputs(tokens.vectors[test])
            losses.append(mean_loss(held_out, tokens.labels[test], "logistic"))
        return float(np.mean(losses))

    return min(STRENGTHS["logistic"], key=loss)


def sample_texts(texts: Numbers, tokens: Sequence[int], labels: Sequence[set[int]], most: int, seed: int) -> Numbers:
    """Texts drawn at random with at most so many scored tokens, and the first text of every label besides.

    Args:
        texts: The text of each window.
        tokens: The scored tokens of each window.
        labels: The labels in each window.
    """
    names, inverse = np.unique(texts, return_inverse=True)
    counts = np.bincount(inverse, weights=tokens)
    order = np.random.default_rng(seed).permutation(len(names))
    chosen = set(names[order[np.cumsum(counts[order]) <= most]].tolist())
    known: set[int] = set()
    for name, present in zip(texts.tolist(), labels, strict=True):
        if not present <= known:
            known |= present
            chosen.add(name)
    return np.array(sorted(chosen))
