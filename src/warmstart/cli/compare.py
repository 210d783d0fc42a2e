"""warmstart compare: whether runs differ, by how much, and how sure that is."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from warmstart.cli import options


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Two runs or more, the one that others are compared with first; or folders of runs seed-0, seed-1 …",
            metavar="RUN RUN…",
        ),
    ],
    json: options.Json = False,
) -> None:
    """Hold runs side by side."""
    from warmstart.cli import evidence_tables as evidence_shown
    from warmstart.cli import screen
    from warmstart.evaluation.comparison import number
    from warmstart.experiments.compare_runs import Beside, beside

    found: Beside = beside(runs)
    each: list[dict[str, Any]] = [
        {
            "variant": one.variant,
            "mean": number(one.all.mean),
            "low": number(one.all.low),
            "high": number(one.all.high),
            "seeds": list(one.seeds),
            "failed": {str(seed): why for seed, why in one.failed.items()},
        }
        for one in found.summaries
    ]
    differences = [one.as_json() for one in found.comparisons]
    if json:
        told = {"headline": found.headline, "part": found.part, "reference": runs[0]}
        screen.print_json({**told, "runs": each, "comparisons": differences})
        return
    rows = [
        {
            "run": one["variant"],
            found.headline: one["mean"],
            "95% over seeds": "–" if one["low"] is None else f"{one['low']:.4f} to {one['high']:.4f}",
            "seeds": len(one["seeds"]),
            "failed": len(one["failed"]),
        }
        for one in each
    ]
    screen.grid(f"{found.headline} on {found.part} rows", rows)
    evidence_shown.comparisons(differences)
