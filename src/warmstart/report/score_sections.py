"""Sections on how good the model is: its scores with intervals, and the variants it was compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warmstart.evaluation.records.evidence import ComparisonRecord, EvidenceRecord, VariantRecord
from warmstart.report.blocks import Block, Paragraph, Section, TableBlock, first, interval, number
from warmstart.report.charts import ChartTexts, IntervalRow, intervals
from warmstart.report.run_facts import PartScores, RunFacts

COUNTS = ("rows", "rows_cut", "share_cut")
"""Measurements that are not scores."""


def scores(facts: RunFacts) -> Section | None:
    """Every metric of every part, with the interval where there is one."""
    if not facts.scores:
        return None
    blocks: list[Block] = [_part(part) for part in facts.scores]
    if any(part.estimate for part in facts.scores):
        blocks.append(Paragraph("A 95% interval is where the score would lie on other rows of the same kind."))
    return Section("scores", "Metrics", blocks)


def _part(scores: PartScores) -> TableBlock:
    rows: list[list[object]] = []
    for name, value in scores.metrics.items():
        if name not in COUNTS:
            rows.append([name, value, interval(*scores.bounds) if name == scores.headline else "–"])
    if scores.estimated and scores.estimate:
        estimate = scores.estimate
        rows.insert(1, [scores.estimated, estimate.mean, interval(estimate.low, estimate.high)])
    return TableBlock(f"On {scores.rows:,} {scores.part} rows", ["metric", "value", "95% interval"], rows)


def evidence(facts: RunFacts) -> Section | None:
    """Variants over seeds, and how they differ."""
    evidence = facts.evidence
    if evidence is None:
        return None
    selected = evidence.selected
    seed = f" (seed {selected.seed})" if selected.seed is not None else ""
    blocks: list[Block] = [Paragraph(f"Selected: {selected.how}{seed}. {_sentence(selected.why)}")]
    if evidence.variants:
        blocks.append(_variants(evidence))
        blocks.extend(_failed(evidence.variants))
    if evidence.comparisons:
        blocks.append(_comparisons(evidence.comparisons))
        blocks.extend(Paragraph(_sentence(record.sentence)) for record in evidence.comparisons[:20] if record.sentence)
    return Section("evidence", "Seeds and comparisons", blocks)


def _variants(evidence: EvidenceRecord) -> Block:
    headline, part = evidence.headline, evidence.part
    shown, left = first(evidence.variants)
    rows = [
        [
            variant.variant,
            variant.mean,
            variant.sd,
            interval(variant.low, variant.high),
            len(variant.seeds),
            len(variant.failed),
            " ".join(number(value) for value in _values(variant)[:20]),
            _duration(variant.seconds),
        ]
        for variant in shown
    ]
    columns = ["variant", "mean", "sd", "95% interval", "seeds", "failed", "each seed", "time"]
    texts = ChartTexts(
        "variants",
        f"Variants by {headline}",
        f"The mean {headline} over seeds on {part} with its 95% interval; small strokes are single seeds.",
        TableBlock(f"{headline} on {part} by variant", columns, rows, left_out=left),
    )
    dots = [
        IntervalRow(variant.variant, variant.mean, variant.low, variant.high, _values(variant)) for variant in shown
    ]
    return intervals(texts, dots, headline)


def _values(variant: VariantRecord) -> list[float]:
    """The headline of each seed that has one."""
    return [value for value in variant.values if value is not None]


def _failed(variants: Sequence[VariantRecord]) -> Iterator[Paragraph]:
    for variant in variants:
        for seed, why in list(variant.failed.items())[:10]:
            yield Paragraph(f"{variant.variant}, seed {seed}, failed: {why}", tone="warning")


def _comparisons(comparisons: Sequence[ComparisonRecord]) -> TableBlock:
    shown, left = first(comparisons)
    rows = [
        [
            record.variant,
            record.reference,
            record.difference,
            interval(record.low, record.high),
            record.p,
            record.p_corrected,
            record.effect,
            record.mcnemar,
            record.significant,
        ]
        for record in shown
    ]
    columns = [
        "variant",
        "compared with",
        "difference",
        "95% interval",
        "p",
        "p (Holm)",
        "effect",
        "McNemar p",
        "significant",
    ]
    note = "Significant: whether the difference holds after correction for the number of comparisons."
    return TableBlock("Difference of each variant", columns, rows, note, left)


def _sentence(text: str) -> str:
    words = text.strip()
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}" if words else ""


def _duration(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
