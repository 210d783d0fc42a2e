"""What a study holds its figures against: published figures, claims, a curve, and the size of the original."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from warmstart.options import Options

Names = list[str]


class StudyPublished(Options):
    """A column of published figures, shown beside ours."""

    source: str
    """Paper and table, such as `Sun et al. 2019, table 2`."""
    of: str
    """Encoder, dataset and metric, such as `BERT-base, IMDb, test error, %`."""
    figures: Annotated[dict[str, float], Field(min_length=1)]
    """The figure of each method, by the name that the method has here."""


class StudyClaim(Options):
    """A sentence that the figures can bear out or not: one method is ahead of others, or level with them."""

    says: str
    """The claim, in one sentence."""
    source: str = ""
    """Who says so. Default: the study's `source`."""
    ahead: str
    """The method that is said to be ahead."""
    of: Annotated[Names, Field(min_length=1)]
    """The methods that it is said to be ahead of, each of them."""
    within: Annotated[float, Field(gt=0)] | None = None
    """Says instead that they differ by no more than so many points."""
    sets: Names | None = None
    """The sets it is about. Default: all."""
    sizes: Names | None = None
    """The sizes it is about. Default: all."""
    measure: Literal["score", "failed"] = "score"
    """What is compared: the `score`, or how often a run `failed`, where fewer is ahead."""


class StudyCurve(Options):
    """A chart with numbers along its horizontal axis, a line for each method or cell."""

    label: str
    """What the numbers are, such as `training rows`."""
    points: Annotated[dict[str, float], Field(min_length=1)]
    """The number of each size, or of each method."""
    lines: dict[str, str] = {}
    """Of methods: the line that each belongs to. Default: one line for each cell."""
    log: bool = True
    """Whether the horizontal axis is logarithmic; it is not where a number is 0."""


class StudyFullSize(Options):
    """The size of the published experiment, whose cost the page estimates as `warmstart plan` does."""

    trainings: Annotated[int, Field(ge=1)]
    """How many trainings it has."""
    steps: Annotated[int, Field(ge=1)]
    """Optimizer steps of each."""
    batch_size: Annotated[int, Field(ge=1)]
    """Rows per step."""
    max_tokens: Annotated[int, Field(ge=8)]
    """Tokens per row."""
    shape: dict[str, int] = {}
    """What differs from BERT-base, as in `warmstart plan --shape`."""
    hardware: str = "a100-40"
    """A device of `warmstart plan --hardware list`."""
