"""Greedy removal: heads switched off one after the other, each time the one whose loss costs the least.

Trying every head each time would take a series of predictions for each pair of heads, so only those are tried that
seem the least important. The order is chosen on one set of rows, and can be evaluated on another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmstart.inspection.ablation import Ablations
from warmstart.models.switches import Switches
from warmstart.runtime.progress import Progress, silent

CANDIDATES = 10
Head = tuple[int, int]
"""The number of a block, and of a head in it."""


@dataclass(frozen=True)
class Removal:
    """A model without some heads."""

    heads: int
    """How many are off."""
    last: str
    """The head that was switched off last, such as `3.7`; empty where all are on."""
    without: str
    """All that are off, as `predict --without` takes them; empty where all are on."""
    row_score: float
    """The mean score of a row, on the rows by which the order was chosen."""
    headline: float | None
    test_row_score: float | None = None
    """The same on other rows, where there are any."""
    test_headline: float | None = None


def remove_heads(
    chosen_on: Ablations,
    importance: Mapping[Head, float],
    steps: int | None = None,
    evaluated_on: Ablations | None = None,
    candidates: int = CANDIDATES,
    progress: Progress = silent,
) -> list[Removal]:
    """Switch heads off one after the other; the first entry is the whole model.

    Args:
        importance: A number for each head; those with the lowest are tried first.
        steps: How many heads to switch off; None for all of them.
        evaluated_on: Other rows, on which nothing is chosen.
        candidates: How many heads are tried each time.
    """
    left = sorted(importance, key=lambda head: (importance[head], head))
    steps = len(left) if steps is None else min(steps, len(left))
    off: list[Head] = []
    removals = [_removal(off, chosen_on, evaluated_on)]
    with progress.bar("removing heads", steps) as bar:
        for _ in range(steps):
            chosen_on.go_on_from(_switches(off))
            # The first of the best: the least important where scores are the same.
            best = max(left[:candidates], key=lambda head: chosen_on.measure(_switches([*off, head])).mean)
            left.remove(best)
            off.append(best)
            removals.append(_removal(off, chosen_on, evaluated_on))
            bar.advance(note=removals[-1].last)
    return removals


def _removal(off: Sequence[Head], chosen_on: Ablations, evaluated_on: Ablations | None) -> Removal:
    switches = _switches(off) if off else None
    own = chosen_on.measure(switches)
    if evaluated_on:
        evaluated_on.go_on_from(switches)
    other = evaluated_on.measure(switches) if evaluated_on else None
    test = (None, None) if other is None else (other.mean, other.headline)
    last = "{}.{}".format(*off[-1]) if off else ""
    return Removal(len(off), last, str(switches) if switches else "", own.mean, own.headline, *test)


def _switches(heads: Sequence[Head]) -> Switches:
    by_block: dict[int, list[int]] = {}
    for block, head in sorted(heads):
        by_block.setdefault(block, []).append(head)
    return Switches(by_block)
