"""The figures of a study with other encoders than its own, in one table of its page."""

from __future__ import annotations

from collections.abc import Mapping

from warmstart.evaluation.comparison import summarize
from warmstart.recipe.study import Study
from warmstart.studies.published import mean_with_interval
from warmstart.studies.regret import Results, cell_means, mean_regret

ABOUT = """
Scores on some of the cells, and under those of each encoder, how far each method is behind the best one of a cell on
average.
""".strip()


def other_encoders_table(study: Study, others: Mapping[str, Results]) -> str:
    """A row for each encoder and cell, and one for the regrets of each encoder; nothing without other encoders.

    Args:
        others: The results of each encoder by its name.
    """
    measured = {name: results for name, results in others.items() if results}
    rows = [row for results in measured.values() for each in results.values() for row in each]
    methods = [name for name in study.compared() if any(row.variant == name for row in rows)]
    if not methods:
        return ""
    lines = [
        "## With other encoders",
        "",
        ABOUT,
        "",
        f"| encoder | cell | {' | '.join(methods)} |",
        f"| --- | --- | {' | '.join('---:' for _ in methods)} |",
    ]
    for encoder, results in measured.items():
        for cell, of_cell in results.items():
            by_method = [[row for row in of_cell if row.variant == name] for name in methods]
            means = [mean_with_interval(summarize(own)) if own else "–" for own in by_method]
            size = study.sizes[cell.size].about or cell.size
            lines.append(f"| {encoder} | {cell.set}, {size} | {' | '.join(means)} |")
        regrets = [100 * mean_regret(cell_means(results), name) for name in methods]
        shown = ["–" if regret != regret else f"{regret:.1f}" for regret in regrets]
        lines.append(f"| {encoder} | *mean regret* | {' | '.join(shown)} |")
    return "\n".join(lines)
