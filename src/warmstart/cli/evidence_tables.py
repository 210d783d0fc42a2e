"""Evidence as tables: each variant over its seeds, each difference, which model was selected and why."""

from __future__ import annotations

from collections.abc import Sequence

from warmstart.cli import screen
from warmstart.evaluation.records.evidence import ComparisonRecord, EstimateRecord, EvidenceRecord, VariantRecord


def show(evidence: EvidenceRecord) -> None:
    """Print `evidence.json` in short."""
    screen.grid(
        f"{evidence.headline} on {evidence.part} rows, by seed; the interval is over seeds",
        [_variant(variant) for variant in evidence.variants],
    )
    for variant in evidence.variants:
        for seed, why in variant.failed.items():
            _say(f"{variant.variant}, seed {seed}, failed: {why}")
    comparisons(evidence.comparisons)
    _say(f"Selected: {evidence.selected.why}.")
    rows = evidence.rows
    if rows.low is not None:
        between = f"{screen.number(rows.low)} to {screen.number(rows.high)}"
        _say(f"The selected model's mean score per row: {screen.number(rows.mean)}, 95% interval {between} over rows.")
    _say(f"Verdict: {evidence.verdict}.")


def comparisons(records: Sequence[ComparisonRecord]) -> None:
    """Print differences as a table, and each in a sentence."""
    if not records:
        return
    screen.grid("Differences, in percentage points", [_difference(record) for record in records])
    for record in records:
        _say(f"{record.sentence}.")


def _variant(variant: VariantRecord) -> dict[str, str]:
    values = [
        f"{screen.number(value)}{' failed' if str(seed) in variant.failed else ''}"
        for seed, value in zip(variant.seeds, variant.values, strict=True)
    ]
    spread = "" if variant.sd is None else f" ± {variant.sd:.4f}"
    return {
        "variant": variant.variant,
        "mean ± sd": f"{screen.number(variant.mean)}{spread}",
        "95% interval": "–" if variant.low is None else f"{variant.low:.4f} to {variant.high:.4f}",
        "seeds": ", ".join(values),
        "seconds": f"{variant.seconds:.0f}",
    }


def _difference(record: ComparisonRecord) -> dict[str, str]:
    return {
        "variant": record.variant,
        "compared with": record.reference,
        "points": "–" if record.difference is None else f"{100 * record.difference:+.1f}",
        "95% over seeds": _points(record.seeds),
        "95% over rows": _points(record.rows),
        "p (Holm)": "–" if record.p_corrected is None else f"{record.p_corrected:.3f}",
        "rows won : lost": f"{record.won} : {record.lost}",
        "McNemar p": "–" if record.mcnemar is None else f"{record.mcnemar:.3f}",
        "significant": "yes" if record.significant else "no",
    }


def _points(estimate: EstimateRecord | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "–"
    return f"{100 * estimate.low:+.1f} to {100 * estimate.high:+.1f}"


def _say(text: str) -> None:
    screen.console.print(text, markup=False, highlight=False, soft_wrap=True)
