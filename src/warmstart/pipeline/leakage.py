"""Leakage between tasks: training rows of one that are in another's dev or test; reported, and dropped on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from warmstart import tasks
from warmstart.data import split
from warmstart.data.table import Table
from warmstart.pipeline.prepare import Parts, grouping_columns
from warmstart.recipe import Recipe


def without_overlap(recipes: Mapping[str, Recipe], parts: Mapping[str, Parts]) -> dict[str, Parts]:
    """Report training rows whose texts are in another task's dev or test; leave them out if their recipe drops them.

    The finding is among those of the task that would be trained on them.
    """
    schemas = {name: tasks.schema_of(recipe.task.name, recipe.task.options) for name, recipe in recipes.items()}
    held_out = {
        (name, part): split.row_keys(own.tables[part], grouping_columns(own.tables[part], schemas[name]))
        for name, own in parts.items()
        for part in ("dev", "test")
        if part in own.tables
    }
    kept = {}
    for name, own in parts.items():
        train = own.tables["train"]
        drop = "leaked" in recipes[name].data.drop
        keys = split.row_keys(train, grouping_columns(train, schemas[name]))
        leaked = np.zeros(len(train), dtype=bool)
        for (other, part), theirs in held_out.items():
            twins = np.isin(keys, theirs)
            if other != name and twins.any():
                _report(own, train, twins, f"the {part} of {other}", drop)
                leaked |= twins
        left = train.select(np.flatnonzero(~leaked)) if drop and leaked.any() else train
        kept[name] = replace(own, tables={**own.tables, "train": left})
    return kept


def _report(parts: Parts, train: Table, twins: NDArray[np.bool_], whose: str, drop: bool) -> None:
    first = train.location(int(np.flatnonzero(twins)[0]))
    count = int(twins.sum())
    done = "left out of training" if drop else "kept; leave them out with `drop: [leaked]` in their recipe"
    message = f"{count:,} training rows are in {whose}, this one first; {done}"
    parts.findings.add("shared", "note" if drop else "warning", message, first, count)
