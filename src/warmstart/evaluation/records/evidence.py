"""`evidence.json`: what several seeds, a baseline or an ablation showed."""

from __future__ import annotations

from dataclasses import dataclass

FILE = "evidence.json"


@dataclass(frozen=True)
class EstimateRecord:
    """A mean with its 95% interval; bounds are None where one value alone has no spread."""

    mean: float | None
    low: float | None
    high: float | None
    count: int
    """How many values it is the mean of."""
    p: float | None
    """Of a difference, how likely one so large is by chance; else None."""


@dataclass(frozen=True)
class RowMean:
    """The selected model's mean score of a row, with its 95% interval over test rows."""

    mean: float
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True)
class SelectedRecord:
    """The model that the run keeps."""

    how: str
    """`best`, `average` or `ensemble`; `first` where nothing could choose."""
    why: str
    seed: int | None
    """The seed it was trained with; None where it is made of several."""
    value: float | None
    """Its headline."""


@dataclass(frozen=True)
class VariantRecord:
    """One variant over its seeds."""

    variant: str
    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    seeds: list[int]
    values: list[float | None]
    """The headline by seed, in the order of `seeds`."""
    failed: dict[str, str]
    """Seeds that failed, and why."""
    without_failed: float | None
    """The mean over the other seeds."""
    seconds: float
    """Mean training time."""


@dataclass(frozen=True)
class ComparisonRecord:
    """The difference of a variant to its reference, in the units of the metric."""

    variant: str
    reference: str
    difference: float | None
    low: float | None
    high: float | None
    over: str
    """What the interval is over: `seeds`, or `rows` where there is one model each."""
    p: float | None
    p_corrected: float | None
    """The p value corrected for the number of comparisons (Holm)."""
    effect: float | None
    """Of the test rows where the two differ, the share on which the variant is better."""
    won: int
    lost: int
    cohens_d: float | None
    mcnemar: float | None
    seeds: EstimateRecord
    rows: EstimateRecord | None
    significant: bool
    sentence: str


@dataclass(frozen=True)
class EvidenceRecord:
    """The variants of a recipe over their seeds, their differences, and the model that was selected."""

    headline: str
    part: str
    verdict: str
    rows: RowMean
    selected: SelectedRecord
    variants: list[VariantRecord]
    comparisons: list[ComparisonRecord]
