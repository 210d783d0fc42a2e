"""Probes: what a linear model can read from each layer of an encoder.

A probe's accuracy alone says little, since a probe may learn the task by itself. Two numbers stand beside it:

- That of a *control task* ("Designing and Interpreting Probes with Control Tasks", Hewitt and Liang 2019): every type,
  such as a word, gets a label at random, so that only memorizing can help. Accuracy minus control accuracy is the
  *selectivity*.
- The *description length* of the labels given the states, by the online code ("Information-Theoretic Probing with
  Minimum Description Length", Voita and Titov 2020): what it costs, in bits, to transmit the labels portion by portion,
  each coded by a probe that was fitted to those before. The uniform code divided by it is the *compression*: 1 where
  the states tell nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmstart.errors import DataError
from warmstart.evaluation.statistics import over_rows
from warmstart.models.linear_probe import Vectors, fit_head, mean_loss
from warmstart.runtime.progress import Progress, silent

STRENGTH = 10.0
"""The inverse strength of the probe's penalty, for states of length 1."""
PORTIONS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""The shares of the examples after which the online code fits another probe."""
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class ProbeExamples:
    """States with their labels.

    Attributes:
        vectors: Of shape (examples, layers, size); the embeddings are layer 0.
        types: What a control label belongs to: the word itself, or of a text its first word.
    """

    vectors: Vectors
    labels: list[str]
    types: list[str]


@dataclass(frozen=True)
class LayerProbe:
    """What a probe reads from one layer."""

    layer: int
    """0 for the embeddings."""
    accuracy: float
    low: float
    high: float
    """The bounds of the accuracy over other examples of this kind."""
    control: float
    """The accuracy on the control task."""
    selectivity: float
    bits: float
    """The description length of the training labels."""
    compression: float

    @property
    def name(self) -> str:
        """What the layer is called: the embeddings, or a block."""
        return "embeddings" if self.layer == 0 else f"block {self.layer - 1}"


@dataclass(frozen=True)
class ProbeProfile:
    """Probes of all layers, and what there is to compare them with."""

    train: int
    test: int
    labels: int
    majority: float
    """The accuracy of giving the most frequent label to all."""
    layers: list[LayerProbe]


def probe_layers(train: ProbeExamples, test: ProbeExamples, seed: int = 0, progress: Progress = silent) -> ProbeProfile:
    """Fit a probe to each layer, and measure it on other examples.

    Args:
        seed: That of the control labels, and of the order in which the online code transmits the labels.
    """
    names = sorted({*train.labels, *test.labels})
    if len(set(train.labels)) < 2:
        raise DataError(f"found {len(set(train.labels))} label in {len(train.labels)} examples; a probe needs two")
    gold, truth = _ids(train.labels, names), _ids(test.labels, names)
    control_gold, control_truth = _control_labels(train, test, gold, seed)
    order = np.random.default_rng(seed).permutation(len(gold))
    layers = []
    with progress.bar("probing", train.vectors.shape[1]) as bar:
        for layer in range(train.vectors.shape[1]):
            states, others = train.vectors[:, layer], test.vectors[:, layer]
            right = _correct(states, gold, others, truth, len(names))
            control = float(_correct(states, control_gold, others, control_truth, len(names)).mean())
            estimate = over_rows(right)
            bits = online_code(states[order], gold[order], len(names))
            uniform = len(gold) * math.log2(len(names))
            selectivity = estimate.mean - control
            interval = (estimate.mean, estimate.low, estimate.high)
            layers.append(LayerProbe(layer, *interval, control, selectivity, bits, uniform / bits))
            bar.advance()
    majority = float((truth == np.bincount(gold).argmax()).mean())
    return ProbeProfile(len(gold), len(truth), len(names), majority, layers)


def online_code(vectors: Vectors, labels: Ids, count: int) -> float:
    """The description length of labels in bits, given their states in the order of transmission.

    Args:
        labels: Ids below `count`.
    """
    ends = sorted({max(1, math.ceil(share * len(labels))) for share in PORTIONS})
    bits = ends[0] * math.log2(count)  # the first portion by the uniform code
    for start, end in itertools.pairwise(ends):
        probe = fit_head(vectors[:start], labels[:start], "logistic", count, STRENGTH)
        logits = _smoothed(probe.outputs(vectors[start:end]), start)
        bits += (end - start) * mean_loss(logits, labels[start:end], "logistic") / math.log(2)
    return bits


def _smoothed(logits: Vectors, seen: int) -> Vectors:
    """Logits of probabilities mixed with a uniform share of 1 / (examples seen + 1).

    A label that no earlier example has would otherwise cost as many bits as its logit happens to be low.
    """
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    share = 1 / (seen + 1)
    return np.asarray(np.log((1 - share) * probabilities + share / logits.shape[1]), np.float32)


def _correct(states: Vectors, gold: Ids, others: Vectors, truth: Ids, count: int) -> NDArray[np.float64]:
    """Whether each of other examples is predicted right."""
    probe = fit_head(states, gold, "logistic", count, STRENGTH)
    return np.asarray(probe.outputs(others).argmax(axis=1) == truth, dtype=np.float64)


def _control_labels(train: ProbeExamples, test: ProbeExamples, gold: Ids, seed: int) -> tuple[Ids, Ids]:
    """A label for each type, drawn from those of the training examples, as often as they occur there."""
    types = sorted({*train.types, *test.types})
    drawn = dict(zip(types, np.random.default_rng(seed).choice(gold, len(types)), strict=True))
    first, second = (np.array([drawn[name] for name in examples.types], np.int64) for examples in (train, test))
    return first, second


def _ids(labels: Sequence[str], names: Sequence[str]) -> Ids:
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[label] for label in labels], np.int64)
