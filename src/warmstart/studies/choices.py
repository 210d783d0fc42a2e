"""A choice of a study: of several methods the one that is best on dev rows, as a published grid is searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from warmstart.studies.figures import KeptResult


def chosen(choices: Mapping[str, Sequence[str]], results: Sequence[KeptResult]) -> list[KeptResult]:
    """The result that each choice takes for each seed, under the choice's name; it has cost what all of them cost.

    A seed for which not all methods are measured yet has no choice.
    """
    taken = []
    for name, among in choices.items():
        for seed in sorted({result.seed for result in results}):
            tried = [result for result in results if result.seed == seed and result.variant in among]
            on_dev = {result.variant: result.dev for result in tried if result.dev is not None}
            if set(on_dev) == set(among):
                best = max(tried, key=lambda result: on_dev[result.variant])
                taken.append(replace(best, variant=name, cpu_seconds=sum(result.cpu_seconds for result in tried)))
    return taken
