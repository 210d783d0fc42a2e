"""The options of a sweep: which fields of a recipe are searched, over what, how and for how long."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from warmstart.options import Options

DEFAULT_TRIALS = 20
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_POWER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""A number as `5e-5`, which plain YAML takes for text."""


class Range(Options):
    """Numbers from one to another."""

    low: float
    """The least."""
    high: float
    """The most."""
    log: bool = False
    """Whether equal factors are equally likely, as suits rates, instead of equal differences."""
    step: Annotated[float, Field(gt=0)] | None = None
    """Only every so many from the least on. None: all between; whole numbers where both ends are written whole."""
    whole: bool = False
    """Whole numbers only."""

    @model_validator(mode="before")
    @classmethod
    def _whole_where_written_so(cls, values: Any) -> Any:
        if isinstance(values, dict) and "whole" not in values:
            said = [values.get(name) for name in ("low", "high", "step") if values.get(name) is not None]
            return {**values, "whole": bool(said) and all(type(one) is int for one in said)}
        return values

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low:g} and high is {self.high:g}; expected low below high")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log: true wants low above 0, and no step")
        return self

    def ends(self) -> list[Any]:
        """The least and the most, as a recipe takes them."""
        return [int(one) if self.whole else one for one in (self.low, self.high)]

    def points(self) -> list[Any] | None:
        """All its numbers; None where there is no end of them."""
        step = self.step or (1 if self.whole else None)
        if step is None:
            return None
        count = int((self.high - self.low) / step + 1e-9) + 1
        found = [self.low + index * step for index in range(count)]
        return [int(one) for one in found] if self.whole else found


class Sweep(Options):
    """A search over fields of a recipe, by a metric on its dev rows."""

    recipe: str | dict[str, Any] | None = None
    """What is searched around: a recipe file, `recipes:NAME` for one that comes with warmstart, or a recipe as it
    stands. None: it is given on the command line."""
    search: Annotated[dict[str, list[Any] | Range], Field(min_length=1)]
    """For each dotted field of the recipe its choices, as `training.batch_size: [16, 32]`; or a range, as
    `training.learning_rate: {low: 1e-5, high: 1e-4, log: true}`."""
    trials: Annotated[int, Field(ge=1)] | None = None
    """How many settings are tried. None: 20, or every one of a grid."""
    sampler: Literal["auto", "tpe", "random", "grid"] = "auto"
    """How settings are drawn: near those that did well (`tpe`, Bergstra et al. 2011), at `random`, or each combination
    once in random order (`grid`). auto: `grid` where there are no more combinations than trials, else `tpe`."""
    prune: Literal["none", "median", "hyperband"] = "none"
    """When a trial is given up after an epoch: never, when it is below the `median` of the trials before it at that
    epoch, from the sixth trial on, or by `hyperband` (Li et al. 2018)."""
    metric: str | None = None
    """The number on the dev rows to choose by. None: the task's headline."""
    goal: Literal["highest", "lowest"] = "highest"
    """Which value of `metric` is the best."""
    seed: int = 0
    """Seed of the drawing of settings; that of the trainings is the recipe's."""
    budget: str | None = None
    """How long new trials are begun, as `90m`, `2h` or `1h30m`; one that is under way is finished. None: no limit."""

    @field_validator("search", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            key: [_number(one) for one in found] if isinstance(found, list) else found for key, found in value.items()
        }

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.budget is not None:
            seconds(self.budget)
        if self.prune != "none" and self.metric is not None:
            raise ValueError(f"prune: {self.prune} goes by the task's headline; leave metric out, or say prune: none")
        if self.goal != "highest" and self.metric is None:
            raise ValueError("goal: lowest is for a metric that you name; the highest headline is always the best")
        for key, found in self.search.items():
            if isinstance(found, list) and (not found or any(one in found[:at] for at, one in enumerate(found))):
                raise ValueError(f"search.{key}: found {found}, expected one or more choices, all different")
            if self.sampler == "grid" and isinstance(found, Range) and found.points() is None:
                raise ValueError(f"search.{key}: a grid wants a list of choices, or a range with a step")
        return self

    def resolved(self) -> Self:
        """The same with its sampler named."""
        if self.sampler != "auto":
            return self
        points = [found.points() if isinstance(found, Range) else found for found in self.search.values()]
        size = math.prod(len(one) for one in points if one is not None)
        grid = None not in points and size <= (self.trials or DEFAULT_TRIALS)
        return self.model_copy(update={"sampler": "grid" if grid else "tpe"})

    @property
    def wanted(self) -> int:
        """How many trials there are to be."""
        if self.sampler != "grid":
            return self.trials or DEFAULT_TRIALS
        size = sum(1 for _ in self.grid())
        return min(self.trials or size, size)

    def grid(self) -> Iterator[dict[str, Any]]:
        """Every combination, the last field's values changing first."""
        points = [found.points() or [] if isinstance(found, Range) else found for found in self.search.values()]
        for values in itertools.product(*points):
            yield dict(zip(self.search, values, strict=True))

    def yaml(self) -> str:
        """The complete sweep, defaults included, as YAML."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def seconds(text: str) -> float:
    """A time as `90m`, `2h` or `1h30m` in seconds."""
    found = _TIME.fullmatch(text.strip())
    if not found or not any(found.groups()):
        raise ValueError(f"budget: found {text!r}, expected a time as 90m, 2h or 1h30m")
    return sum(float(one or 0) * size for one, size in zip(found.groups(), (86400, 3600, 60, 1), strict=True))


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, str) and _POWER.fullmatch(value) else value
