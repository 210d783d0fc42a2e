"""Rows that one task learns from and another is tested on: told, and left out where a recipe says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from warmstart import tasks
from warmstart.data import split
from warmstart.data.table import Table
from warmstart.pipeline.prepare import Parts, together
from warmstart.recipe import Recipe


def without_overlap(recipes: Mapping[str, Recipe], parts: Mapping[str, Parts]) -> dict[str, Parts]:
    """Find training rows whose texts are in another task's dev or test; leave them out if their recipe says so.

    The finding is told with the data of the task that would learn from them.
    """
    schemas = {name: tasks.schema_of(one.task.name, one.task.options) for name, one in recipes.items()}
    held = {
        (name, part): split.keys(own.tables[part], together(own.tables[part], schemas[name]))
        for name, own in parts.items()
        for part in ("dev", "test")
        if part in own.tables
    }
    found = {}
    for name, own in parts.items():
        train = own.tables["train"]
        drop = "shared" in recipes[name].data.drop
        keys = split.keys(train, together(train, schemas[name]))
        gone = np.zeros(len(train), dtype=bool)
        for (other, part), theirs in held.items():
            twins = np.isin(keys, theirs)
            if other != name and twins.any():
                _tell(own, train, twins, f"the {part} of {other}", drop)
                gone |= twins
        left = train.select(np.flatnonzero(~gone)) if drop and gone.any() else train
        found[name] = replace(own, tables={**own.tables, "train": left})
    return found


def _tell(parts: Parts, train: Table, twins: np.ndarray, whose: str, drop: bool) -> None:
    file, line = train.place(int(np.flatnonzero(twins)[0]))
    count = int(twins.sum())
    done = "left out of training" if drop else "kept; leave them out with `drop: [shared]` in their recipe"
    message = f"{count:,} training rows are in {whose}, this one first; {done}"
    parts.findings.add("shared", "note" if drop else "warning", message, file, line, count, train.unit(file))
