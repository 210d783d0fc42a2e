"""`diagnosis.json`: where a run errs, whether its probabilities can be trusted, and which labels look wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from warmstart.evaluation.records.data_profile import ClassBalance, EmbeddingMap, LengthHistogram
from warmstart.evaluation.records.files import OPTIONAL
from warmstart.tasks.base import ErrorTable

FILE = "diagnosis.json"


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each true label (rows) was predicted as which (columns)."""

    labels: list[str]
    counts: list[list[int]]

    def __post_init__(self) -> None:
        size = len(self.labels)
        if len(self.counts) != size or any(len(row) != size for row in self.counts):
            raise ValueError("expected a row and a column for each label")


@dataclass(frozen=True)
class Slice:
    """A group of rows, compared with the rest."""

    by: str
    name: str
    rows: int
    value: float
    """The mean score in the slice, with its 95% interval."""
    low: float
    high: float
    rest: float
    """The mean score of all other rows."""
    p: float
    """How likely a mean so far below the rest is by chance; corrected for the number of slices (Holm)."""
    significant: bool = False
    """Whether the model may be called worse here."""


@dataclass(frozen=True)
class SmallSlices:
    """Slices that have too few rows to be compared."""

    slices: int
    least: int
    """Rows that a slice and the rest must have."""


@dataclass(frozen=True)
class MistakeWords:
    """The words behind a wrong answer."""

    words: list[str]
    """Those that speak for it most, first."""
    tested: bool
    """Whether the model depends on them more than on words taken at random."""
    weights: list[tuple[str, float]] | None = field(default=None, metadata=OPTIONAL)
    """The words of the text in their order, each with the space before it, and how much it speaks for the answer: 1 is
    most, below 0 is against it. Of a long text the first ones."""

    def __str__(self) -> str:
        return ", ".join(self.words or ["none"]) + ("" if self.tested else " (no better than random words)")


@dataclass(frozen=True)
class Mistake:
    """A row that the model got wrong."""

    row: str
    """File and line."""
    text: str | None
    """What it was asked; None where the file cannot be read again."""
    truth: Any
    prediction: Any
    confidence: float | None
    words: MistakeWords | None = field(default=None, metadata=OPTIONAL)
    """The words behind the prediction, where that was asked for."""


@dataclass(frozen=True)
class ReliabilityBin:
    """The rows whose confidence is above `low` and up to `high`."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """How far confidence and accuracy are apart."""

    ece: float
    """The expected calibration error."""
    bins: list[ReliabilityBin]


@dataclass(frozen=True)
class Calibration:
    """The temperature that makes probabilities fit, and how well they do before and after."""

    temperature: float
    fitted_on: str
    rows: int
    accuracy: float
    before: Reliability
    after: Reliability
    stored: float = 1.0
    """The temperature in the model's folder."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A confidence below which to give no answer, and what that does on other rows than it was chosen on."""

    precision: float | None = field(default=None, metadata=OPTIONAL)
    """The target precision it was chosen for, or"""
    abstain: float | None = field(default=None, metadata=OPTIONAL)
    """the share of rows to leave unanswered."""
    confidence: float | None
    """None where no threshold reaches the target."""
    answered: float
    """The share of rows that are answered."""
    rows: int
    measured: float | None
    """The share of those answers that are right, with its 95% interval."""
    low: float | None
    high: float | None
    chosen_on: str


@dataclass(frozen=True)
class LabelError:
    """A training row whose label is probably wrong."""

    row: str
    text: str | None
    label: str
    suggested: str
    score: float
    """How believable the label is, from 0 to 1."""


@dataclass(frozen=True)
class LabelErrors:
    """The training rows whose labels are probably wrong."""

    how: str
    checked: int
    """How many rows were checked."""
    count: int
    """How many labels look wrong."""
    rows: list[LabelError]
    """The least believable first, as many as were asked for."""


@dataclass(frozen=True)
class Diagnosis:
    """Where a run errs."""

    part: str
    task: str
    rows: int
    notes: list[str]
    confusion: ConfusionMatrix | None = field(default=None, metadata=OPTIONAL)
    slices: list[Slice] | None = field(default=None, metadata=OPTIONAL)
    """Worst first; None for a task whose rows depend on each other."""
    slices_too_small: SmallSlices | None = field(default=None, metadata=OPTIONAL)
    mistakes: list[Mistake] | None = field(default=None, metadata=OPTIONAL)
    """Those the model was surest of first."""
    tables: list[ErrorTable] | None = field(default=None, metadata=OPTIONAL)
    calibration: Calibration | None = field(default=None, metadata=OPTIONAL)
    thresholds: list[Threshold] | None = field(default=None, metadata=OPTIONAL)
    label_errors: LabelErrors | None = field(default=None, metadata=OPTIONAL)
    class_balance: ClassBalance | None = field(default=None, metadata=OPTIONAL)
    lengths: LengthHistogram | None = field(default=None, metadata=OPTIONAL)
    embedding_map: EmbeddingMap | None = field(default=None, metadata=OPTIONAL)
