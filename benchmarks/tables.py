"""What results pages that compare variants share: their tables, progress in lines, names given with commas."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

ABOUT = """
Each mean is followed by its 95% confidence interval and, in parentheses, the number of seeds. Each difference has two
intervals, which answer two questions: would it show up with other training seeds, and on other test rows of this kind?
p is the larger of two p values (paired t test over seeds, permutation test over rows), corrected for the number of
comparisons in the table; it is bold if the difference is significant (p at most 0.05). A run has failed if it is
hardly better than always predicting the same answer. Minutes are the training time of a run, with other work on the
machine: a rough guide.
""".strip()
"""How a table is read."""


class Lines:
    """Progress as one line for each thing said."""

    def __init__(self, about: str) -> None:
        self.about, self.started = about, time.monotonic()

    def bar(self, name: str, total: float | None) -> AbstractContextManager[Any]:
        from warmstart.runtime.progress import silent

        return silent.bar(name, total)

    def log(self, text: str) -> None:
        print(f"{(time.monotonic() - self.started) / 60:6.1f} min  {self.about}: {text}", flush=True)


@contextmanager
def errors_told() -> Iterator[None]:
    """Leave with the message and the exit code of an error of warmstart's."""
    from warmstart.errors import WarmstartError

    try:
        yield
    except WarmstartError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def asking(text: str | None, seeds: int, sets: Any, page: str) -> argparse.ArgumentParser:
    """The options of a measurement of variants over sets and seeds."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=seeds, help=f"seeds (default {seeds})")
    parser.add_argument("--sets", default="", help=f"some of {','.join(sets)} (default all)")
    parser.add_argument("--variants", default="", help="some of the variants, with commas (default all)")
    parser.add_argument("--no-train", action="store_true", help="report on the runs that are there")
    parser.add_argument("--write", action="store_true", help=f"write docs/results/{page}.md")
    return parser


def chosen(text: str, known: Any) -> list[str]:
    """Names given with commas between them, each known."""
    names = text.split(",") if text else list(known)
    if unknown := set(names) - set(known):
        raise SystemExit(f"{', '.join(sorted(unknown))}: not known; known: {', '.join(known)}")
    return names


def table(title: str, rows: list[Any], reference: Mapping[str, str]) -> str:
    """The variants of one set, the best first.

    Args:
        reference: The variant that each is compared with; those that are not named stand alone.
    """
    from warmstart.evaluation.comparison import compare_all, summarize

    found = {one: summarize([row for row in rows if row.variant == one]) for one in {row.variant for row in rows}}
    against = {one.variant: one for one in compare_all(rows, reference)}
    lines = [
        f"## {title}",
        "",
        f"Runs: {len(rows)}.",
        "",
        "| variant | accuracy, % | compared with | points, 95% over seeds | 95% over test rows | p (Holm) | failed "
        "| minutes |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in sorted(found.values(), key=lambda one: (-one.all.mean, one.variant)):
        lines.append(f"| {one.variant} | {_mean(one)} | {_difference(against.get(one.variant))} | {_cost(one)} |")
    return "\n".join(lines)


def means(rows: list[Any]) -> dict[str, float]:
    """The mean of each variant, for the closing line."""
    from warmstart.evaluation.comparison import summarize

    names = dict.fromkeys(row.variant for row in rows)
    return {one: round(summarize([row for row in rows if row.variant == one]).all.mean, 4) for one in names}


def _mean(one: Any) -> str:
    def text(estimate: Any) -> str:
        half = f" ± {100 * (estimate.high - estimate.mean):.1f}" if estimate.count > 1 else ""
        return f"{100 * estimate.mean:.1f}{half} ({estimate.count})"

    return text(one.all) + (f"; without failed {text(one.sound)}" if one.failed and one.sound.count else "")


def _difference(one: Any) -> str:
    if one is None:
        return "– | – | – | –"
    over = [f"{100 * e.low:+.1f} to {100 * e.high:+.1f}" if e and e.count > 1 else "–" for e in (one.seeds, one.rows)]
    p = "–" if one.p_corrected != one.p_corrected else f"{one.p_corrected:.3f}"
    shown = f"**{p}**" if one.significant else p
    return f"{one.reference} | {100 * one.difference:+.1f} ({over[0]}) | {over[1]} | {shown}"


def _cost(one: Any) -> str:
    failed = ", ".join(f"seed {seed}" for seed in one.failed) or "0"
    return f"{failed} | {one.seconds / 60:.1f}"
