"""Published figures beside ours."""

from __future__ import annotations

from warmstart.evaluation.comparison import VariantSummary, summarize
from warmstart.recipe.study import Study
from warmstart.studies.regret import Results


def mean_with_interval(one: VariantSummary) -> str:
    """A mean in percent with its interval and, in parentheses, the number of seeds and of those that failed."""
    half = f" ± {100 * (one.all.high - one.all.mean):.1f}" if one.all.count > 1 else ""
    failed = f", {len(one.failed)} failed" if one.failed else ""
    return f"{100 * one.all.mean:.1f}{half} ({one.all.count}{failed})"


def published_table(study: Study, results: Results) -> str:
    """A row for each method: what was published of it, and what it has here on each cell; nothing without either."""
    if not study.published:
        return ""
    headlines = {cell: next((row.headline for row in rows if row.headline), "") for cell, rows in results.items()}
    sizes = {cell: study.sizes[cell.size].about or cell.size for cell in results}
    ours = [f"here: {cell.set}, {sizes[cell]}, {headline}, %" for cell, headline in headlines.items()]
    theirs = [f"{table.source}: {table.of}" for table in study.published]
    lines = [
        "## Published beside ours",
        "",
        f"| method | {' | '.join([*theirs, *ours])} |",
        f"| --- | {' | '.join('---:' for _ in [*theirs, *ours])} |",
    ]
    for name in study.compared():
        published = [f"{table.figures[name]:g}" if name in table.figures else "–" for table in study.published]
        own = [[row for row in rows if row.variant == name] for rows in results.values()]
        means = [mean_with_interval(summarize(rows)) if rows else "–" for rows in own]
        lines.append(f"| {name} | {' | '.join([*published, *means])} |")
    return "\n".join(lines)
