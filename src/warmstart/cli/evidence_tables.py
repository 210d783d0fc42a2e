"""What a person sees of evidence: each variant over its seeds, each difference, what was kept and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warmstart.cli import screen


def show(evidence: Mapping[str, Any]) -> None:
    """All of `evidence.json` that fits a screen."""
    screen.grid(
        f"{evidence['headline']} on {evidence['part']} rows, by seed; the interval is over seeds",
        [_variant(one) for one in evidence["variants"]],
    )
    for one in evidence["variants"]:
        for seed, why in one["failed"].items():
            _say(f"{one['variant']}, seed {seed}, failed: {why}")
    comparisons(evidence["comparisons"])
    rows, kept = evidence["rows"], evidence["kept"]
    _say(f"Kept: {kept['why']}.")
    if rows["low"] is not None:
        between = f"{screen.number(rows['low'])} to {screen.number(rows['high'])}"
        _say(f"The kept model's mean score of a row: {screen.number(rows['mean'])}, 95% interval {between} over rows.")
    _say(f"Verdict: {evidence['verdict']}.")


def comparisons(found: Sequence[Mapping[str, Any]]) -> None:
    """Differences as a table, and each in plain words."""
    if not found:
        return
    screen.grid("Differences, in points of a hundred", [_difference(one) for one in found])
    for one in found:
        _say(f"{one['sentence']}.")


def _variant(one: Mapping[str, Any]) -> dict[str, Any]:
    values = [
        f"{screen.number(value)}{' failed' if str(seed) in one['failed'] else ''}"
        for seed, value in zip(one["seeds"], one["values"], strict=True)
    ]
    spread = "" if one["sd"] is None else f" ± {one['sd']:.4f}"
    between = "–" if one["low"] is None else f"{one['low']:.4f} to {one['high']:.4f}"
    return {
        "variant": one["variant"],
        "mean ± sd": f"{screen.number(one['mean'])}{spread}",
        "95% interval": between,
        "seeds": ", ".join(values),
        "seconds": f"{one['seconds']:.0f}",
    }


def _difference(one: Mapping[str, Any]) -> dict[str, Any]:
    def span(found: Mapping[str, Any] | None) -> str:
        if not found or found["low"] is None:
            return "–"
        return f"{100 * found['low']:+.1f} to {100 * found['high']:+.1f}"

    return {
        "variant": one["variant"],
        "beside": one["reference"],
        "points": f"{100 * one['difference']:+.1f}" if one["difference"] is not None else "–",
        "95% over seeds": span(one["seeds"]),
        "95% over rows": span(one["rows"]),
        "p (Holm)": "–" if one["corrected"] is None else f"{one['corrected']:.3f}",
        "rows won : lost": f"{one['won']} : {one['lost']}",
        "McNemar p": "–" if one["mcnemar"] is None else f"{one['mcnemar']:.3f}",
        "shown": "yes" if one["shown"] else "no",
    }


def _say(text: str) -> None:
    screen.console.print(text, markup=False, highlight=False, soft_wrap=True)
