"""`linear-probe/probe.json`: what a linear model on the features of the encoder scored before training."""

from __future__ import annotations

from dataclasses import dataclass

FILE = "probe.json"


@dataclass(frozen=True)
class TfidfRecord:
    """What counting words scored on the rows of the same folds."""

    metric: str
    folds: int
    value: float
    """The mean of the metric over the folds."""
    half_width: float
    """Half the width of the 95% t interval over the folds."""
    seconds: float

    @property
    def score(self) -> str:
        """The score with its interval."""
        return _score(self.metric, self.value, self.half_width, self.folds)

    @property
    def sentence(self) -> str:
        """What a user is told."""
        return f"TF-IDF + linear SVM, without an encoder: {self.score}, {self.seconds:.0f} s"


@dataclass(frozen=True)
class ProbeRecord:
    """A linear probe and its score by cross-validation on the training rows."""

    method: str
    strength: float
    """The `C` of a logistic regression, or the `alpha` of a ridge regression, for vectors of length 1."""
    rows: int
    """Rows it was fitted to."""
    of_rows: int
    """All training rows."""
    metric: str
    folds: int
    """Folds of the cross-validation; 0 where no label has two rows."""
    value: float | None
    """The mean of the metric over the folds."""
    half_width: float | None
    """Half the width of the 95% t interval over the folds."""
    seconds: float
    """Time for features, cross-validation and fit."""
    label_names: bool = False
    """Whether it was fitted to the names of labels as well, since that predicted held-out rows better."""
    tfidf: TfidfRecord | None = None
    """What a model without an encoder scored; None for pairs, numbers and tokens."""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        sample = "" if self.rows == self.of_rows else f", on {self.rows:,} of {self.of_rows:,} rows"
        return f"linear probe ({self.method} on frozen features): {self.score}{sample}, {self.seconds:.0f} s"

    @property
    def score(self) -> str:
        """The score with its interval, and how it was measured."""
        if self.value is None:
            return "too few rows for cross-validation"
        return _score(self.metric, self.value, self.half_width, self.folds)


def _score(metric: str, value: float, half_width: float | None, folds: int) -> str:
    spread = "" if half_width is None else f" ± {half_width:.3f}"
    return f"{metric} {value:.3f}{spread} by {folds}-fold cross-validation"
