"""A run: what training a recipe made, as a folder on disk that explains itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warmstart.errors import RunError, WarmstartError
from warmstart.evaluation.records import data, diagnosis, evidence, forgetting, metrics, training
from warmstart.evaluation.records.data import DataRecord
from warmstart.evaluation.records.diagnosis import Diagnosis
from warmstart.evaluation.records.evidence import EvidenceRecord
from warmstart.evaluation.records.files import LARGEST, read_record
from warmstart.evaluation.records.forgetting import ForgettingRecord
from warmstart.evaluation.records.format_version import check_format_version, write_format_version
from warmstart.evaluation.records.metrics import Metrics, read_metrics
from warmstart.evaluation.records.training import TrainingRecord
from warmstart.recipe import Recipe, absolute, load_recipe
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime import notebook_html
from warmstart.storage.files import write_text
from warmstart.storage.folders import make_folder
from warmstart.storage.json_files import JsonObject, read_object
from warmstart.tasks.base import Answer

if TYPE_CHECKING:
    from warmstart.inference.predictor import Predictor, Text

RECIPE = "recipe.yaml"
ENVIRONMENT = "environment.json"

RecordT = TypeVar("RecordT")


class RunFolder:
    """A run, opened from its folder."""

    FINETUNE = "stages/01-finetune"
    """The folder of the fine-tuning where no stage comes before it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / RECIPE).is_file():
            raise RunError(f"{self.folder} is no run: it has no {RECIPE}; give a folder that `warmstart fit` wrote")
        check_format_version(self.folder)

    @property
    def finished(self) -> bool:
        """Whether the run is finished; its metrics are written last."""
        return (self.folder / metrics.FILE).is_file()

    @cached_property
    def recipe(self) -> Recipe:
        """The complete recipe, defaults included."""
        return load_recipe(self._own(RECIPE))

    @cached_property
    def completed_recipe(self) -> Recipe:
        """The recipe with what rules decided where it leaves something open; of a finished run."""
        return settings_in(self.recipe, {rule.field: rule.value for rule in self.training.rules}, str(self.folder))

    @cached_property
    def metrics(self) -> Metrics:
        """The metrics measured on test (and dev), by part."""
        try:
            return read_metrics(self._own(metrics.FILE))
        except FileNotFoundError:
            raise self._unfinished(metrics.FILE) from None

    @cached_property
    def data(self) -> DataRecord:
        """Files, rows and fingerprints of each part, and the findings."""
        return self._record(DataRecord, data.FILE)

    @cached_property
    def environment(self) -> JsonObject:
        """Versions and hardware."""
        try:
            return read_object(self._own(ENVIRONMENT), RunError, LARGEST)
        except FileNotFoundError:
            raise self._unfinished(ENVIRONMENT) from None

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package that the run was made with."""
        versions = self.environment.get("versions")
        if not isinstance(versions, dict):
            raise RunError(f"{self.folder / ENVIRONMENT}: versions: found {versions!r:.60}, expected a mapping")
        return {str(name): str(version) for name, version in versions.items()}

    @property
    def stage(self) -> str:
        """The folder of the fine-tuning itself; stages before it have lower numbers."""
        stages = sorted(path.name for path in (self.folder / "stages").glob("*-finetune"))
        return f"stages/{stages[-1]}" if stages else self.FINETUNE

    @cached_property
    def training(self) -> TrainingRecord:
        """Steps, seconds, losses and what the window truncated."""
        return self._record(TrainingRecord, f"{self.stage}/{training.FILE}")

    @cached_property
    def forgetting(self) -> dict[str, ForgettingRecord]:
        """What the encoder still knew along each stage, by the stage's name; empty if it was not measured."""
        stages = sorted(path.parent.name for path in self.folder.glob(f"stages/*/{forgetting.FILE}"))
        return {stage: self._record(ForgettingRecord, f"stages/{stage}/{forgetting.FILE}") for stage in stages}

    @cached_property
    def evidence(self) -> EvidenceRecord | None:
        """What several seeds, a baseline or an ablation showed; None if the recipe has none of them."""
        path = self.folder / evidence.FILE
        return self._record(EvidenceRecord, evidence.FILE) if path.is_file() else None

    @property
    def diagnosis(self) -> Diagnosis | None:
        """What `warmstart diagnose` recorded last; None if it was never run."""
        path = self.folder / diagnosis.FILE
        return self._record(Diagnosis, diagnosis.FILE) if path.is_file() else None

    @property
    def model(self) -> Path:
        """The folder that opens in plain `transformers`."""
        return self.folder / "model"

    @cached_property
    def predictor(self) -> Predictor:
        """The finished model, ready to predict."""
        from warmstart.inference.predictor import Predictor

        return Predictor.load(self.folder)

    def predict(self, texts: Sequence[Text]) -> list[Answer]:
        """One prediction for each text."""
        return self.predictor.predict(texts)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'; '.join(self._state())})"

    def _repr_html_(self) -> str:
        """The run in a notebook."""
        try:
            measurements = self.metrics if self.finished else {}
        except RunError:  # a damaged record must not keep a cell from showing the run
            measurements = {}
        rows = [[part, name, value] for part, measured in measurements.items() for name, value in measured.items()]
        title = f"Run {self.folder}"
        return notebook_html.table(title, ["part", "metric", "value"] if rows else [], rows, "; ".join(self._state()))

    def _state(self) -> list[str]:
        """The run in a few words: what it is, and how far or how good."""
        try:
            state = [f"{self.recipe.task.name} with {Path(self.recipe.model).name or 'an encoder from scratch'}"]
        except WarmstartError:
            state = []
        try:
            headline = metrics.headline_of(self.metrics) if self.finished else None
        except RunError as error:
            return [*state, f"damaged: {error}"]
        if not self.finished:
            return [*state, "unfinished; `warmstart fit` resumes it"]
        score = f"{headline.name} {headline.value:.4f} on {headline.part}" if headline else "nothing was measured"
        return [*state, "finished", score]

    def _own(self, name: str) -> Path:
        """The path of a file in the run, refusing a link that leads out of it."""
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise RunError(f"{path}: leads out of the run over a link; put a copy of the file in its place")
        return path

    def _record(self, kind: type[RecordT], name: str) -> RecordT:
        try:
            return read_record(kind, self._own(name))
        except FileNotFoundError:
            raise self._unfinished(name) from None

    def _unfinished(self, name: str) -> RunError:
        return RunError(f"{self.folder} has no {name}: the run did not finish; start `warmstart fit` again")


def begin_run(folder: Path, recipe: Recipe) -> None:
    """Write what makes a folder a run: its form, and the complete recipe with absolute paths."""
    make_folder(folder)
    write_format_version(folder)
    write_text(folder / RECIPE, absolute(recipe).yaml())


def finished_run(folder: Path) -> RunFolder | None:
    """The run in a folder, if it is finished; None as well where no run is."""
    if not (folder / RECIPE).is_file():
        return None
    run = RunFolder(folder)
    return run if run.finished else None
