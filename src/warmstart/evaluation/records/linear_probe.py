"""`linear-probe/probe.json`: what a linear model on the features of the encoder scored before training."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from warmstart.evaluation.records.files import OPTIONAL

FILE = "probe.json"


@dataclass(frozen=True)
class OnTestRows:
    """A baseline's score on the test rows that the model is measured on, or on some of them."""

    value: float
    low: float | None
    """The 95% interval over rows; None for a metric that is not a mean over rows."""
    high: float | None
    rows: int
    of_rows: int

    @property
    def where(self) -> str:
        """The rows in words."""
        some = f"{self.rows:,} of " if self.rows < self.of_rows else ""
        return f"{some}{self.of_rows:,} test rows"


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
    on_test: OnTestRows | None = field(default=None, metadata=OPTIONAL)

    @property
    def score(self) -> str:
        """The score on test rows, and by cross-validation with its interval."""
        return _score(self.metric, self.value, self.half_width, self.folds, self.on_test)

    @property
    def sentence(self) -> str:
        """What a user is told."""
        score = replace(self, on_test=None).score
        return f"TF-IDF + linear SVM, without an encoder: {score}, {self.seconds:.0f} s"


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
    on_test: OnTestRows | None = field(default=None, metadata=OPTIONAL)
    """None where there are no test rows, or where the probe is the model itself."""
    refit_strength: float | None = field(default=None, metadata=OPTIONAL)
    """The one that predicted held-out rows best at no temperature, by which the head is solved after training."""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        sample = "" if self.rows == self.of_rows else f", on {self.rows:,} of {self.of_rows:,} rows"
        score = replace(self, on_test=None).score
        return f"linear probe ({self.method} on frozen features): {score}{sample}, {self.seconds:.0f} s"

    @property
    def score(self) -> str:
        """The score on test rows, and by cross-validation with its interval."""
        if self.value is None:
            known = f"{self.metric} {self.on_test.value:.3f} on {self.on_test.where}; " if self.on_test else ""
            return f"{known}too few rows for cross-validation"
        return _score(self.metric, self.value, self.half_width, self.folds, self.on_test)


def _score(metric: str, value: float, half_width: float | None, folds: int, on_test: OnTestRows | None = None) -> str:
    spread = "" if half_width is None else f" ± {half_width:.3f}"
    known = f"{on_test.value:.3f} on {on_test.where}; " if on_test else ""
    return f"{metric} {known}{value:.3f}{spread} by {folds}-fold cross-validation"
