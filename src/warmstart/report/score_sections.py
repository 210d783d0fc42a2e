"""Sections on how good the model is: its scores with intervals, the variants it was held against."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from warmstart.report.blocks import Block, Prose, Section, Table, first, interval, number
from warmstart.report.charts import Dot, intervals
from warmstart.report.run_facts import Facts, Measured


def scores(facts: Facts) -> Section | None:
    """Every metric of every part, with the interval where there is one."""
    if not facts.measured:
        return None
    blocks: list[Block] = [_part(one) for one in facts.measured]
    if any(one.estimate for one in facts.measured):
        blocks.append(Prose("An interval of 95% says where the score would lie on many other rows of this kind."))
    return Section("scores", "Scores", blocks)


def _part(found: Measured) -> Table:
    rows, estimate = [], found.estimate
    bounds = interval(estimate.low, estimate.high) if estimate else "–"
    for name, value in found.metrics.items():
        if name not in {"rows", "rows_cut", "share_cut"}:
            rows.append([name, value, bounds if name == found.headline and not found.own else "–"])
    if found.own and estimate:
        rows.insert(1, [found.own, estimate.mean, bounds])
    return Table(f"On {found.rows:,} {found.part} rows", ["metric", "value", "95% interval"], rows)


def evidence(facts: Facts) -> Section | None:
    """Variants over seeds, and what they differ by."""
    found = facts.evidence
    if not found:
        return None
    blocks: list[Block] = []
    if kept := found.get("kept"):
        which = f" (seed {kept['seed']})" if kept.get("seed") is not None else ""
        blocks.append(Prose(f"Kept: {kept.get('how', '–')}{which}. {_sentence(kept.get('why'))}"))
    if variants := found.get("variants"):
        blocks.append(_variants(variants, str(found.get("headline", "score")), str(found.get("part", "test"))))
        blocks.extend(_failed(variants))
    if comparisons := found.get("comparisons"):
        blocks.append(_comparisons(comparisons))
        blocks.extend(Prose(_sentence(one["sentence"])) for one in comparisons[:20] if one.get("sentence"))
    return Section("evidence", "Is it better?", blocks)


def _variants(variants: list[Mapping[str, Any]], headline: str, part: str) -> Block:
    shown, left = first(variants)
    rows = [
        [
            one["variant"],
            one["mean"],
            one.get("sd"),
            interval(one.get("low"), one.get("high")),
            len(one.get("seeds", ())),
            len(one.get("failed") or {}),
            " ".join(number(value) for value in _values(one)[:20]),
            _duration(one.get("seconds")),
        ]
        for one in shown
    ]
    columns = ["variant", "mean", "sd", "95% interval", "seeds", "failed", "each seed", "time"]
    table = Table(f"{headline} on {part} by variant", columns, rows, left_out=left)
    dots: list[Dot] = [
        (str(one["variant"]), one["mean"], one.get("low"), one.get("high"), _values(one)) for one in shown
    ]
    return intervals(
        "variants",
        f"Variants by {headline}",
        f"The mean {headline} over seeds on {part} with its 95% interval; small strokes are single seeds.",
        dots,
        headline,
        table,
    )


def _values(variant: Mapping[str, Any]) -> list[float]:
    """What single seeds came to, as far as it was measured."""
    return [value for value in variant.get("values") or () if value is not None]


def _failed(variants: list[Mapping[str, Any]]) -> Iterator[Prose]:
    for one in variants:
        for seed, why in list((one.get("failed") or {}).items())[:10]:
            yield Prose(f"{one['variant']}, seed {seed}, failed: {why}", tone="warning")


def _comparisons(comparisons: list[Mapping[str, Any]]) -> Table:
    shown, left = first(comparisons)
    rows = [
        [
            one["variant"],
            one["reference"],
            one["difference"],
            interval(one.get("low"), one.get("high")),
            one.get("p"),
            one.get("corrected"),
            one.get("effect"),
            one.get("mcnemar"),
            one.get("shown"),
        ]
        for one in shown
    ]
    columns = ["variant", "against", "difference", "95% interval", "p", "corrected p", "effect", "McNemar p", "shown"]
    note = "Shown: whether the difference holds after correction for the number of comparisons."
    return Table("What each variant differs by", columns, rows, note, left)


def _sentence(text: Any) -> str:
    said = str(text or "").strip()
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith(('.', '!', '?')) else '.'}" if said else ""


def _duration(seconds: Any) -> str:
    return "–" if seconds is None else f"{seconds:,.0f} s" if seconds < 600 else f"{seconds / 60:,.0f} min"
