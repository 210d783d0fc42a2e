"""`encoder/choice.json` in a run: which encoder was chosen of several, and what each of them scored."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.evaluation.records.files import read_record, write_record
from warmstart.storage.artifacts import publish, verify

FOLDER, FILE = "encoder", "choice.json"


@dataclass(frozen=True)
class EncoderScore:
    """What a linear probe on an encoder scored, and what the encoder costs."""

    model: str
    metric: str
    value: float | None
    """The mean of the metric over the folds of a cross-validation; None where labels have too few rows."""
    half_width: float | None
    """Half the width of its 95% interval over the folds."""
    seconds: float
    """Time for the features of the training rows and the regressions."""
    texts_per_second: float
    """How many texts a second the model answers, in fp32."""
    megabytes: float
    """The size of its weights."""

    @property
    def name(self) -> str:
        """The encoder without its owner or folder."""
        return self.model.rstrip("/").rpartition("/")[2]

    @property
    def score(self) -> str:
        """The score with its interval."""
        return "too few rows" if self.value is None else f"{self.value:.3f} ± {self.half_width or 0.0:.3f}"


@dataclass(frozen=True)
class EncoderChoice:
    """The encoder that was chosen."""

    model: str
    reason: str
    scores: list[EncoderScore]
    """Of all encoders, the best first."""

    @property
    def sentence(self) -> str:
        """What a user is told."""
        name = self.model.rstrip("/").rpartition("/")[2]
        return f"{name} of {len(self.scores)} encoders, since {self.reason}"


def publish_choice(choice: EncoderChoice, folder: Path) -> None:
    """Write the choice to a run's folder."""
    with publish(folder / FOLDER) as staging:
        write_record(choice, staging / FILE)


def read_choice(folder: Path) -> EncoderChoice | None:
    """The choice of a run; None where its recipe named the encoder."""
    if not (folder / FOLDER).is_dir():
        return None
    verify(folder / FOLDER)
    return read_record(EncoderChoice, folder / FOLDER / FILE)
