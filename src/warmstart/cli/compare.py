"""warmstart compare: whether runs differ, by how much, and how certain that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from warmstart.cli import options
from warmstart.errors import RunError


def command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Two or more runs, which are compared with the first; or folders that contain runs seed-0, seed-1 …",
            metavar="RUN RUN…",
        ),
    ],
    json: options.Json = False,
) -> None:
    """Compare runs."""
    for run in runs:
        if not Path(run).is_dir():
            raise RunError(f"{run}: no such folder; give what `warmstart fit` wrote")
    from warmstart.cli import evidence_tables, screen
    from warmstart.evaluation.comparison import finite
    from warmstart.evaluation.records.files import as_json
    from warmstart.experiments.compare_runs import compare_runs

    comparison = compare_runs(runs)
    differences = [difference.record() for difference in comparison.comparisons]
    each: list[dict[str, Any]] = [
        {
            "variant": summary.variant,
            "mean": finite(summary.all.mean),
            "low": finite(summary.all.low),
            "high": finite(summary.all.high),
            "seeds": list(summary.seeds),
            "failed": {str(seed): why for seed, why in summary.failed.items()},
        }
        for summary in comparison.summaries
    ]
    if json:
        about = {"headline": comparison.headline, "part": comparison.part, "reference": runs[0]}
        screen.print_json({**about, "runs": each, "comparisons": [as_json(record) for record in differences]})
        return
    rows = [
        {
            "run": row["variant"],
            comparison.headline: row["mean"],
            "95% over seeds": "–" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}",
            "seeds": len(row["seeds"]),
            "failed": len(row["failed"]),
        }
        for row in each
    ]
    screen.grid(f"{comparison.headline} on {comparison.part} rows", rows)
    evidence_tables.comparisons(differences)
