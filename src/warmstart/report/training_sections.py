"""Sections on the training: its loss, the rate of each layer over it, and what the encoder forgot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from warmstart.models.learning_rates import layer_rates
from warmstart.report.blocks import Block, Chart, Matrix, Prose, Section, Table, number, thinned
from warmstart.report.charts import WIDE, heat, lines, round_steps
from warmstart.report.run_facts import Facts
from warmstart.training.callbacks.unfreezing import learning, phases
from warmstart.training.schedules import factor

POINTS = 200
"""Points of a line that are drawn."""
TOLD = 20
"""Of those, points that the table beside it tells."""
COLUMNS = 60
"""Moments of a training that the map of rates has."""
MOMENTS = 8
"""Moments that the table of what was forgotten has."""


def curves(facts: Facts) -> Section | None:
    """The training loss, and the dev score where it was measured on the way."""
    training = facts.run.training
    blocks: list[Block] = []
    if len(training["history"]) > 1:
        blocks.append(_loss(training["history"]))
    measured = [(one["step"], one["value"]) for one in training.get("measured", ()) if one["value"] is not None]
    if len(measured) > 1:
        headline = facts.measured[0].headline if facts.measured else "score"
        blocks.append(_line("dev", f"{headline} on dev", measured, headline))
    if not blocks:
        return None
    told = f"{training['steps']:,} optimizer steps in {training['seconds']:,.0f} s, in {training['precision']}."
    return Section("curves", "Training", [Prose(told), *blocks])


def _loss(history: Sequence[Mapping[str, float]]) -> Chart:
    names = [name for name in history[-1] if name == "loss" or name.startswith("loss_")]
    kept = thinned(history, POINTS)
    series = {
        name.replace("loss_", "loss of "): [(one["step"], one[name]) for one in kept if name in one] for name in names
    }
    columns = ["step", "epoch", *series]
    rows = [[int(one["step"]), one.get("epoch"), *(one.get(name) for name in names)] for one in thinned(history, TOLD)]
    last = history[-1]["loss"]
    about = f"The training loss by optimizer step, from {history[0]['loss']:.3f} to {last:.3f}."
    return lines(
        "loss", "Training loss", about, series, ("optimizer steps", "loss"), Table("Training loss", columns, rows)
    )


def _line(name: str, title: str, points: list[tuple[float, float]], up: str) -> Chart:
    best = max(points, key=lambda one: one[1])
    about = f"{title} by optimizer step; best {number(best[1])} after step {best[0]:,}."
    table = Table(title, ["step", up], thinned(points, TOLD))
    return lines(name, title, about, {up: thinned(points, POINTS)}, ("optimizer steps", up), table)


def rates(facts: Facts) -> Section | None:
    """The learning rate of each layer over the training, which is none while it is held still."""
    training, recipe = facts.run.training, facts.run.recipe
    names, history = training.get("layers"), training["history"]
    if not names or not history or not all("rate" in one and one.get("epoch") for one in history):
        return None
    layers, count = recipe.layers, len(names)
    peaks = layer_rates(count, recipe.training.learning_rate, layers.lr_decay, recipe.head.learning_rate)
    freeze = count - 1 if layers.freeze == "encoder" else int(layers.freeze)
    every = layers.unfreeze_every or history[-1]["step"] / history[-1]["epoch"]
    shown = [place for place, name in enumerate(names) if name]  # a head without parameters has no name there
    edges = thinned(range(int(training["steps"]) + 1), COLUMNS + 1)
    cells: list[tuple[float, float, float, float]] = []
    for left, right in pairwise(edges):
        learns = learning(count, layers.unfreeze, int((left + right) / 2 / every), freeze)
        now = _factor(facts, (left + right) / 2, peaks[0]) / max(peaks)
        for place in shown:
            value = min(1.0, now * peaks[place]) if learns[place] else 0.0
            cells.append((left, count - 1 - place, right - left, value))
    begins = [_begin(count, layers.unfreeze, freeze, place, every, edges[-1]) for place in range(count)]
    rows = [
        [names[place], None if begins[place] is None else peaks[place], _or_never(begins[place])]
        for place in reversed(shown)
    ]
    table = Table("Rates by layer", ["layer", "peak rate", "learns from step"], rows)
    about = f"A stronger colour is faster, at most {number(max(peaks))}; nothing is drawn while a layer is held still."
    down = [(count - 1 - place, names[place]) for place in shown]
    across = [(step, f"{step:,}") for step in round_steps(edges[-1])]
    size = (WIDE, 0.9 + 0.2 * count)
    title = "Learning rate of each layer"
    chart = heat("rates", title, about, cells, (across, down), ("optimizer steps", ""), table, size)
    words = f"Schedule {recipe.training.lr_schedule}, decay {layers.lr_decay:g} a layer, unfreezing: {layers.unfreeze}."
    return Section("rates", "Rates and unfreezing", [Prose(words), chart])


def _factor(facts: Facts, step: float, lowest: float) -> float:
    """What the peak rates are multiplied by at a step: by the schedule, or, where it was cut short, as it was noted."""
    training, settings = facts.run.training, facts.run.recipe.training
    if settings.early_stopping_patience is None and settings.adam_bias_correction:
        return factor(settings.lr_schedule, int(step), int(training["steps"]), settings.warmup, settings.lr_ratio)
    noted = [(one["step"], one["rate"] / lowest) for one in training["history"]]  # that of the lowest layer
    return float(np.interp(step, [at for at, _ in noted], [value for _, value in noted]))


def _begin(count: int, plan: str, freeze: int, place: int, every: float, steps: int) -> int | None:
    """The first step at which a layer learns; None where there is none."""
    for phase in range(phases(count, plan, freeze) + 1):
        start = math.ceil(phase * every)
        if start < steps and learning(count, plan, phase, freeze)[place]:
            return start
    return None


def _or_never(step: int | None) -> str:
    return "never" if step is None else f"{step:,}"


def forgetting(facts: Facts) -> Section | None:
    """How alike each layer still was to the encoder as it came, and how well it filled masks."""
    blocks: list[Block] = []
    for stage, about in facts.run.forgetting.items():
        seen = thinned(about["seen"], MOMENTS)
        moments = [f"step {one['step']:,}" for one in seen]
        layers = list(zip(*(one["agreement"] for one in seen), strict=True))
        names = ["embeddings", *(f"block {place}" for place in range(len(layers) - 1))]
        cells = [[(value, round(10 * min(1.0, max(0.0, 1 - value)))) for value in values] for values in layers]
        note = "Linear CKA with the starting encoder (Kornblith et al. 2019): 1 is unchanged, a stronger colour is not."
        caption = f"{stage}: agreement of each layer, on {about['rows']:,} texts"
        blocks.append(Matrix(caption, "layer", moments, names[::-1], cells[::-1], note))
        if seen[0].get("loss") is not None:
            rows = [[moment, one["loss"], one["accuracy"]] for moment, one in zip(moments, seen, strict=True)]
            caption = f"{stage}: {about['masked']:,} masked tokens"
            blocks.append(Table(caption, ["when", "loss", "accuracy"], rows))
    return Section("forgetting", "What the encoder forgot", blocks) if blocks else None
