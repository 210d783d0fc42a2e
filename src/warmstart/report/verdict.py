"""The first sentence of a report, and what must be said before it."""

from __future__ import annotations

from collections.abc import Iterator

from warmstart.report.blocks import number, percent
from warmstart.report.run_facts import Facts, Measured
from warmstart.text.windows import Cut

LEAKS = ("shared", "shared-conflict")
"""Kinds of finding that make a score too good."""
MUCH = 0.1
"""The share of tokens not seen from which on it is said at the top."""


def verdict(facts: Facts) -> str:
    """What the run comes to, in one sentence."""
    if said := str(facts.evidence.get("verdict") or ""):
        return said if said.endswith((".", "!", "?")) else f"{said}."
    if not facts.measured:
        return "Nothing was measured: the run has neither test nor dev rows."
    return f"{scored(facts.measured[0])}; one seed, so another training may differ."


def scored(found: Measured) -> str:
    """A part's headline with its interval, in words."""
    words = f"{found.headline} {number(found.value)} on {found.rows:,} {found.part} rows"
    if found.estimate is None or found.estimate.low != found.estimate.low or found.own:
        return words
    return f"{words} (95% interval {number(found.estimate.low)} to {number(found.estimate.high)})"


def warnings(facts: Facts) -> Iterator[str]:
    """What makes the numbers below worth less than they look."""
    if facts.failed:
        yield f"This run counts as failed: {facts.failed}."
    counts: dict[str, int] = {}
    for one in facts.run.data["findings"]:
        if one["severity"] == "error" or one["kind"] in LEAKS:
            counts[one["kind"]] = counts.get(one["kind"], 0) + one["count"]
    for kind, count in counts.items():
        effect = "so the score may be too good" if kind in LEAKS else "which is an error in the data"
        yield f"The data has {count:,} finding{'s' if count > 1 else ''} of the kind {kind}, {effect}; see Data."
    share = Cut(**facts.run.training["window"]["train"]).share
    if share > MUCH:
        yield f"The window left {percent(share)} of the training tokens unseen; see What the window cut."
