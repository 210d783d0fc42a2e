"""The section on baselines: what far simpler models score, beside the model, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scipy import stats

from warmstart.evaluation.records.linear_probe import ProbeRecord, TfidfRecord
from warmstart.evaluation.records.search_baseline import read_search_baseline
from warmstart.report.blocks import Block, Paragraph, Section, TableBlock, interval
from warmstart.report.charts import ChartTexts, IntervalRow, intervals
from warmstart.report.run_facts import RunFacts


@dataclass(frozen=True)
class Baseline:
    """A model with its score."""

    name: str
    metric: str
    value: float
    low: float | None
    high: float | None
    measured_on: str
    seconds: float | None = None
    """To train it."""


def baselines(facts: RunFacts) -> Section | None:
    """The model beside its baselines; None where there are none."""
    own = facts.scores[0] if facts.scores else None
    simple = list(_baselines(facts)) if own else []
    if own is None or own.value is None or not simple:
        return None
    where = f"{own.rows:,} {own.part} rows"
    model = Baseline("this model", own.headline, own.value, *own.bounds, where, facts.run.training.seconds)
    shown = [model, *simple]
    rows = [
        [one.name, one.metric, one.value, interval(one.low, one.high), one.measured_on, _time(one.seconds)]
        for one in shown
    ]
    columns = ["model", "metric", "value", "95% interval", "measured on", "training"]
    table = TableBlock("The model and its baselines", columns, rows)
    alike = [one for one in shown if one.metric == own.headline]
    block: Block = table
    if len(alike) > 1:
        about = f"The {own.headline} of the model and of simpler ones, each with its 95% interval where it has one."
        texts = ChartTexts("baselines", f"Baselines by {own.headline}", about, table)
        dots = [IntervalRow(one.name, one.value, one.low, one.high) for one in alike]
        block = intervals(texts, dots, own.headline)
    blocks: list[Block] = [block]
    if any("cross-validation" in one.measured_on for one in simple):
        other = "Cross-validation on the training rows judges a baseline on other rows than the model is judged on."
        blocks.append(Paragraph(other))
    return Section("baselines", "Baselines", blocks)


def _baselines(facts: RunFacts) -> Iterator[Baseline]:
    """What was measured of simpler models, the strongest kind first."""
    probe = facts.run.training.linear_probe
    if probe:
        yield from _measured("linear probe on the frozen encoder", probe)
    if probe and probe.tfidf:
        yield from _measured("TF-IDF + linear SVM", probe.tfidf)
    if search := read_search_baseline(facts.run.folder):
        names = {"encoder": "the encoder before training", "bm25": "BM25", "fused": "both, their ranks fused"}
        for key, name in names.items():
            if (value := getattr(search.scores, key)) is not None:
                yield Baseline(name, search.metric, value, None, None, search.held_out.phrase.removeprefix("on "))
    yield from _majority(facts)


def _measured(name: str, record: ProbeRecord | TfidfRecord) -> Iterator[Baseline]:
    """A baseline of the training: on test rows, or else by cross-validation."""
    if (on_test := record.on_test) is not None:
        yield Baseline(name, record.metric, on_test.value, on_test.low, on_test.high, on_test.where, record.seconds)
    elif record.value is not None:
        half, folds = record.half_width, f"{record.folds}-fold cross-validation"
        low, high = (None, None) if half is None else (record.value - half, record.value + half)
        yield Baseline(name, record.metric, record.value, low, high, folds, record.seconds)


def _majority(facts: RunFacts) -> Iterator[Baseline]:
    """Always the most frequent training label, where each row has one label."""
    balance = facts.diagnosis.class_balance if facts.diagnosis else None
    own = facts.scores[0]
    if balance is None or own.headline != "accuracy" or not balance.counts.get("train"):
        return
    part = balance.counts.get(own.part, [])
    rows = sum(part)
    if rows and rows == own.rows:
        share = stats.binomtest(part[0], rows)
        bounds = share.proportion_ci(method="wilson")
        name, where = f"majority label ({balance.labels[0]})", f"{rows:,} {own.part} rows"
        yield Baseline(name, "accuracy", part[0] / rows, float(bounds.low), float(bounds.high), where)


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
