"""Sections on the training: its loss, the learning rate of each layer, and what the encoder forgot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from warmstart.evaluation.records.encoder_choice import read_choice
from warmstart.evaluation.records.rules import list_rules
from warmstart.evaluation.records.search_baseline import read_fusion
from warmstart.evaluation.records.training import LogEntry
from warmstart.models.learning_rates import layer_learning_rates
from warmstart.report.blocks import (
    Block,
    ChartBlock,
    MatrixBlock,
    Paragraph,
    Section,
    TableBlock,
    number,
    thinned,
)
from warmstart.report.charts import NARROW, WIDE, ChartTexts, HeatCell, heat_map, lines, round_steps
from warmstart.report.run_facts import RunFacts
from warmstart.training.callbacks.gradual_unfreezing import count_phases, trainable_layers
from warmstart.training.schedules import Phases, lr_factor_in

POINTS = 200
"""The most points of a line."""
LISTED = 20
"""The most points in the table of a line."""
COLUMNS = 60
"""Columns of the map of learning rates."""
MEASUREMENTS = 8
"""Columns of the table of forgetting."""
RATE = "learning_rate"
"""The learning rate in an entry of the training's history."""


def curves(facts: RunFacts) -> Section | None:
    """The training loss, and the dev score where it was measured during training."""
    training = facts.run.training
    blocks: list[Block] = []
    history = [entry for entry in training.history if _has(entry, "step", "loss")]
    if len(history) > 1:
        blocks.append(_loss(history))
    points = [(_value(entry, "step"), _value(entry, "value")) for entry in training.measured if _has(entry, "value")]
    if len(points) > 1:
        headline = facts.scores[0].headline if facts.scores else "score"
        blocks.append(_dev(headline, points))
    probe, choice = training.linear_probe, read_choice(facts.run.folder)
    fusion = read_fusion(facts.run.folder)
    search = [Paragraph(f"{fusion.sentence[0].upper()}{fusion.sentence[1:]}.")] if fusion else []
    if not (blocks or probe or choice or training.rules or search):
        return None
    dropout = ", with fast dropout" if training.dropout_kernel == "fast" else ""
    cached = f", {training.cached_blocks} frozen blocks computed once a row" if training.cached_blocks else ""
    summary = (
        f"{training.steps:,} optimizer steps in {training.seconds:,.0f} s, in {training.precision}{dropout}{cached}."
    )
    start = [Paragraph(f"The head started from a {probe.sentence}.")] if probe else []
    final = training.final_model
    end = [Paragraph(f"The final model is {final.choice}.")] if final else []
    by_rule = [Paragraph(f"By rule: {list_rules(training.rules)}.")] if training.rules else []
    encoder = [Paragraph(f"Encoder: {choice.sentence}.")] if choice else []
    return Section("curves", "Training", [Paragraph(summary), *encoder, *by_rule, *start, *end, *search, *blocks])


def _loss(history: Sequence[LogEntry]) -> ChartBlock:
    names = [name for name in history[-1] if name == "loss" or name.startswith("loss_")]
    entries = thinned(history, POINTS)
    series = {
        name.replace("loss_", "loss of "): [
            (_value(entry, "step"), _value(entry, name)) for entry in entries if _has(entry, name)
        ]
        for name in names
    }
    columns = ["step", "epoch", *series]
    rows = [
        [int(_value(entry, "step")), entry.get("epoch"), *(entry.get(name) for name in names)]
        for entry in thinned(history, LISTED)
    ]
    start, end = (_value(entry, "loss") for entry in (history[0], history[-1]))
    about = f"The training loss by optimizer step, from {start:.3f} to {end:.3f}."
    texts = ChartTexts("loss", "Training loss", about, TableBlock("Training loss", columns, rows))
    return lines(texts, series, ("optimizer steps", "loss"))


def _dev(headline: str, points: list[tuple[float, float]]) -> ChartBlock:
    title = f"{headline} on dev"
    best = max(points, key=lambda point: point[1])
    about = f"{title} by optimizer step; best {number(best[1])} after step {best[0]:,}."
    texts = ChartTexts("dev", title, about, TableBlock(title, ["step", headline], thinned(points, LISTED)))
    return lines(texts, {headline: thinned(points, POINTS)}, ("optimizer steps", headline))


@dataclass(frozen=True)
class UnfreezingPlan:
    """Which layers are trained when."""

    layers: int
    strategy: str
    freeze: int
    """How many of the lowest layers stay frozen."""
    every: float
    """Steps of a phase."""

    def trained(self, step: float) -> list[bool]:
        """Whether each layer is trained at a step."""
        return trainable_layers(self.layers, self.strategy, int(step / self.every), self.freeze)

    def first_step(self, layer: int, steps: int) -> int | None:
        """The first step at which a layer is trained; None where there is none."""
        for phase in range(count_phases(self.layers, self.strategy, self.freeze) + 1):
            start = math.ceil(phase * self.every)
            if start < steps and trainable_layers(self.layers, self.strategy, phase, self.freeze)[layer]:
                return start
        return None


def learning_rates(facts: RunFacts) -> Section | None:
    """The learning rate of each layer during training, which is none while it is frozen."""
    training, recipe = facts.run.training, facts.run.completed_recipe
    names, history = training.layers, training.history
    if not names or not history or not all(_has(entry, "step", RATE) and entry.get("epoch") for entry in history):
        return None
    layers, count = recipe.layers, len(names)
    peaks = layer_learning_rates(count, recipe.training.peak_learning_rate, layers.lr_decay, recipe.head.learning_rate)
    freeze = count - 1 if layers.freeze == "encoder" else int(layers.freeze)
    every = layers.unfreeze_every or _value(history[-1], "step") / _value(history[-1], "epoch")
    plan = UnfreezingPlan(count, layers.unfreeze, freeze, every)
    phases = Phases(round(every), count_phases(count, layers.unfreeze, freeze)) if layers.schedules_phases else None
    shown = [layer for layer, name in enumerate(names) if name]  # a head without parameters has no name
    edges = thinned(range(training.steps + 1), COLUMNS + 1)
    cells: list[HeatCell] = []
    for left, right in pairwise(edges):
        trained = plan.trained((left + right) / 2)
        factor = _factor(facts, (left + right) / 2, peaks[0], phases) / max(peaks)
        for layer in shown:
            value = min(1.0, factor * peaks[layer]) if trained[layer] else 0.0
            cells.append(HeatCell(left, count - 1 - layer, right - left, value))
    starts = [plan.first_step(layer, edges[-1]) for layer in range(count)]
    rows = [
        [names[layer], None if starts[layer] is None else peaks[layer], _or_never(starts[layer])]
        for layer in reversed(shown)
    ]
    columns = ["layer", "peak learning rate", "trained from step"]
    about = f"A stronger colour is a higher learning rate, at most {number(max(peaks))}; a frozen layer has none."
    texts = ChartTexts(
        "learning-rates", "Learning rate of each layer", about, TableBlock("Learning rate by layer", columns, rows)
    )
    y_ticks = [(float(count - 1 - layer), names[layer]) for layer in shown]
    x_ticks = [(float(step), f"{step:,}") for step in round_steps(edges[-1])]
    height = 0.9 + 0.2 * count
    chart = heat_map(texts, cells, (x_ticks, y_ticks), ("optimizer steps", ""), (WIDE, height), (NARROW, height))
    summary = (
        f"Schedule {recipe.training.lr_schedule}, layer-wise decay {layers.lr_decay:g}, unfreezing: {layers.unfreeze}"
        f"{', a schedule in each phase' if phases else ''}."
    )
    return Section("learning-rates", "Layer-wise learning rates", [Paragraph(summary), chart])


def _factor(facts: RunFacts, step: float, lowest: float, phases: Phases | None) -> float:
    """The factor of the peak learning rates at a step: by the schedule, or as logged where that does not hold."""
    training, settings = facts.run.training, facts.run.recipe.training
    if settings.early_stopping_patience is None and settings.adam_bias_correction:
        shape = (settings.warmup, settings.lr_ratio)
        return lr_factor_in(phases, settings.lr_schedule, int(step), training.steps, *shape)
    steps = [_value(entry, "step") for entry in training.history]
    factors = [_value(entry, RATE) / lowest for entry in training.history]  # logged is that of the lowest layer
    return float(np.interp(step, steps, factors))


def _has(entry: Mapping[str, float | None], *names: str) -> bool:
    return all(entry.get(name) is not None for name in names)


def _value(entry: Mapping[str, float | None], name: str) -> float:
    return entry.get(name) or 0


def _or_never(step: int | None) -> str:
    return "never" if step is None else f"{step:,}"


def forgetting(facts: RunFacts) -> Section | None:
    """How similar each layer still is to that of the pretrained encoder, and how well masked tokens are predicted."""
    blocks: list[Block] = []
    for stage, record in facts.run.forgetting.items():
        points = thinned(record.seen, MEASUREMENTS)
        steps = [f"step {point.step:,}" for point in points]
        layers = list(zip(*(point.cka for point in points), strict=True))
        names = ["embeddings", *(f"block {layer}" for layer in range(len(layers) - 1))]
        cells = [[(value, _shade(value)) for value in values] for values in layers]
        note = (
            "Linear CKA with the pretrained encoder (Kornblith et al. 2019): 1 is unchanged, a stronger colour is not."
        )
        caption = f"{stage}: agreement of each layer, on {record.rows:,} texts"
        blocks.append(MatrixBlock(caption, "layer", steps, names[::-1], cells[::-1], note))
        if points[0].loss is not None:
            rows = [[step, point.loss, point.accuracy] for step, point in zip(steps, points, strict=True)]
            caption = f"{stage}: {record.masked:,} masked tokens"
            blocks.append(TableBlock(caption, ["step", "loss", "accuracy"], rows))
    return Section("forgetting", "Catastrophic forgetting", blocks) if blocks else None


def _shade(agreement: float | None) -> int:
    return 0 if agreement is None else round(10 * min(1.0, max(0.0, 1 - agreement)))
