"""The options of a sweep: which fields of a recipe are searched, over which values, how and for how long."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from warmstart.options import Options, Value, Values
from warmstart.recipe.synonyms import RANGE, SWEEP

DEFAULT_TRIALS = 20
_TIME = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_POWER = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""A number as `5e-5`, which plain YAML takes for text."""


class SearchRange(Options):
    """Numbers between two bounds."""

    synonyms: ClassVar[Mapping[str, str]] = RANGE

    low: float
    """The lower bound, included."""
    high: float
    """The upper bound, included."""
    log: bool = False
    """Whether to sample on a logarithmic scale, as is usual for learning rates."""
    step: Annotated[float, Field(gt=0)] | None = None
    """The distance between two values. Default: 1 if both bounds are integers, otherwise any number in between."""
    integer: bool = False
    """Whether to use integers only. Default: true if both bounds, and the step, are written as integers."""

    @model_validator(mode="before")
    @classmethod
    def _integers_where_written_so(cls, values: object) -> object:
        if isinstance(values, dict) and "integer" not in values:
            bounds = [values.get(name) for name in ("low", "high", "step") if values.get(name) is not None]
            return {**values, "integer": bool(bounds) and all(type(bound) is int for bound in bounds)}
        return values

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low is {self.low:g} and high is {self.high:g}; expected low below high")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError("log: true needs low above 0, and no step")
        return self

    def bounds(self) -> list[float]:
        """The two bounds, as a recipe takes them."""
        return [int(bound) if self.integer else bound for bound in (self.low, self.high)]

    def points(self) -> list[float] | None:
        """All its numbers; None where they cannot be counted."""
        step = self.step or (1 if self.integer else None)
        if step is None:
            return None
        count = int((self.high - self.low) / step + 1e-9) + 1
        numbers = [self.low + index * step for index in range(count)]
        return [int(number) for number in numbers] if self.integer else numbers


class Sweep(Options):
    """A hyperparameter search over fields of a recipe, by a metric on its dev rows."""

    synonyms: ClassVar[Mapping[str, str]] = SWEEP

    recipe: str | Values | None = None
    """The recipe to start from: a file, `recipes:NAME` for one that comes with warmstart, or the recipe itself.
    Default: the one given on the command line."""
    search: Annotated[dict[str, list[Value] | SearchRange], Field(min_length=1)]
    """The choices for each field, by its dotted key, such as `training.batch_size: [16, 32]`; or a range, such as
    `training.learning_rate: {low: 1e-5, high: 1e-4, log: true}`."""
    trials: Annotated[int, Field(ge=1)] | None = None
    """The number of trials. Default: 20, or all combinations of a grid."""
    sampler: Literal["auto", "tpe", "random", "grid"] = "auto"
    """How settings are sampled: near those that did well (`tpe`, Bergstra et al. 2011), at `random`, or each
    combination once, in random order (`grid`). auto: `grid` if all combinations can be tried, otherwise `tpe`."""
    pruner: Literal["none", "median", "hyperband"] = "none"
    """When to stop a trial after an epoch: never (`none`), if it is below the `median` of the earlier trials at that
    epoch, from the sixth trial on, or by `hyperband` (Li et al. 2018)."""
    metric: str | None = None
    """The metric on the dev rows to optimize. Default: the task's headline metric."""
    direction: Literal["maximize", "minimize"] = "maximize"
    """Whether to `maximize` or `minimize` the metric."""
    seed: int = 0
    """Seed of the sampler; the trainings use the recipe's seed."""
    timeout: str | None = None
    """Start no new trial after this time, such as `90m`, `2h` or `1h30m`; running trials are finished. Default: no
    limit."""

    @field_validator("search", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        return {
            key: [_number(choice) for choice in choices] if isinstance(choices, list) else choices
            for key, choices in value.items()
        }

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.timeout is not None:
            seconds(self.timeout)
        if self.pruner != "none" and self.metric is not None:
            raise ValueError(
                f"pruner: {self.pruner} uses the task's headline metric; leave metric out, or set pruner: none"
            )
        if self.direction != "maximize" and self.metric is None:
            raise ValueError("direction: minimize needs a metric; the task's headline metric is always maximized")
        for key, space in self.search.items():
            if isinstance(space, SearchRange):
                if self.sampler == "grid" and space.points() is None:
                    raise ValueError(f"search.{key}: a grid needs a list of choices, or a range with a step")
            elif not space or any(choice in space[:index] for index, choice in enumerate(space)):
                raise ValueError(f"search.{key}: found {space}, expected one or more choices, all different")
        return self

    def resolved(self) -> Self:
        """The same with its sampler named."""
        if self.sampler != "auto":
            return self
        points = [_points(space) for space in self.search.values()]
        size = math.prod(len(values) for values in points if values is not None)
        grid = None not in points and size <= (self.trials or DEFAULT_TRIALS)
        return self.model_copy(update={"sampler": "grid" if grid else "tpe"})

    @property
    def wanted(self) -> int:
        """How many trials there are to be."""
        if self.sampler != "grid":
            return self.trials or DEFAULT_TRIALS
        size = sum(1 for _ in self.grid())
        return min(self.trials or size, size)

    def grid(self) -> Iterator[Values]:
        """Every combination, the last field's values changing first."""
        for values in itertools.product(*(_points(space) or [] for space in self.search.values())):
            yield dict(zip(self.search, values, strict=True))

    def yaml(self) -> str:
        """The complete sweep, defaults included, as YAML."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def seconds(text: str) -> float:
    """A time as `90m`, `2h` or `1h30m` in seconds."""
    match = _TIME.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"timeout: found {text!r}, expected a time such as 90m, 2h or 1h30m")
    return sum(float(count or 0) * size for count, size in zip(match.groups(), (86400, 3600, 60, 1), strict=True))


def _points(space: list[Value] | SearchRange) -> Sequence[Value] | None:
    """All values of a field that is searched; None where they cannot be counted."""
    return space.points() if isinstance(space, SearchRange) else space


def _number(value: object) -> object:
    return float(value) if isinstance(value, str) and _POWER.fullmatch(value) else value
