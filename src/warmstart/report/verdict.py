"""The first sentence of a report, and the warnings before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warmstart.report.blocks import number, percent
from warmstart.report.run_facts import PartScores, RunFacts

LEAKS = ("shared", "shared-conflict")
"""Kinds of finding that make a score too good."""
MUCH = 0.1
"""The share of truncated tokens above which a warning is given."""


def verdict(facts: RunFacts) -> str:
    """The result of the run in one sentence."""
    if facts.evidence is not None and facts.evidence.verdict:
        sentence = facts.evidence.verdict
        return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
    if not facts.scores:
        return "Nothing was measured: the run has neither test nor dev rows."
    return f"{headline_of(facts.scores[0])}; one seed, so another training may differ."


def headline_of(scores: PartScores) -> str:
    """A part's headline with its interval, in words."""
    words = f"{scores.headline} {number(scores.value)} on {scores.rows:,} {scores.part} rows"
    low, high = scores.bounds
    return words if low is None or low != low else f"{words} (95% interval {number(low)} to {number(high)})"


def warnings(facts: RunFacts) -> Iterator[str]:
    """Reasons to trust the numbers less than they look."""
    for warning in facts.warnings:
        yield f"{warning[0].upper()}{warning[1:]}."
    counts: Counter[str] = Counter()
    for finding in facts.run.data.findings:
        if finding.severity == "error" or finding.kind in LEAKS:
            counts[finding.kind] += finding.count
    for kind, count in counts.items():
        effect = "so the score may be too good" if kind in LEAKS else "which is an error in the data"
        yield f"The data has {count:,} finding{'s' if count > 1 else ''} of the kind {kind}, {effect}; see Data."
    share = facts.run.training.window.train.share
    if share > MUCH:
        yield f"The window truncated {percent(share)} of the training tokens; see Truncation."
