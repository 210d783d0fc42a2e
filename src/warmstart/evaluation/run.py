"""A run: a recipe carried out, as a folder on disk that explains itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.errors import RunError
from warmstart.recipe import Recipe, load_recipe
from warmstart.storage.json_files import MEGABYTE, read_object

if TYPE_CHECKING:
    from warmstart.inference.predictor import Predictor, Text

LARGEST = 64 * MEGABYTE
"""The largest file of numbers that is read; a long training's history has a line for every few steps."""
PREDICTIONS = {"test": "predictions.parquet", "dev": "predictions-dev.parquet"}
"""The file of answers to each part that is measured."""


class RunFolder:
    """A finished run, opened from its folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "recipe.yaml").is_file():
            raise RunError(f"{self.folder} is no run: it has no recipe.yaml; give a folder that `warmstart fit` wrote")

    @property
    def finished(self) -> bool:
        """Whether the run came to its end; its metrics are written last."""
        return (self.folder / "metrics.json").is_file()

    @cached_property
    def recipe(self) -> Recipe:
        """The complete recipe, defaults included."""
        return load_recipe(self._own("recipe.yaml"))

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """The numbers measured on test (and dev), by part."""
        found: dict[str, Any] = self._json("metrics.json")
        return found

    @cached_property
    def data(self) -> dict[str, Any]:
        """Files, rows and fingerprints of each part, and the findings."""
        found: dict[str, Any] = self._json("data.json")
        return found

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and hardware."""
        found: dict[str, Any] = self._json("environment.json")
        return found

    @property
    def stage(self) -> str:
        """The folder of the training itself; stages before it have lower numbers."""
        found = sorted(path.name for path in (self.folder / "stages").glob("*-finetune"))
        return f"stages/{found[-1] if found else '01-finetune'}"

    @cached_property
    def training(self) -> dict[str, Any]:
        """Steps, seconds, losses and what the window cut."""
        found: dict[str, Any] = self._json(f"{self.stage}/history.json")
        return found

    @cached_property
    def forgetting(self) -> dict[str, dict[str, Any]]:
        """What the encoder still knew along each stage, by the stage's name; empty where the recipe did not ask."""
        found = sorted(path.parent.name for path in self.folder.glob("stages/*/forgetting.json"))
        return {stage: self._json(f"stages/{stage}/forgetting.json") for stage in found}

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """What several seeds, a baseline or an ablation showed; empty where the recipe did not ask for any."""
        found: dict[str, Any] = self._json("evidence.json") if (self.folder / "evidence.json").is_file() else {}
        return found

    @property
    def model(self) -> Path:
        """The folder that opens in plain `transformers`."""
        return self.folder / "model"

    @cached_property
    def predictor(self) -> Predictor:
        """The finished model, ready to answer."""
        from warmstart.inference.predictor import Predictor

        return Predictor.load(self.folder)

    def predict(self, texts: Sequence[Text]) -> list[dict[str, Any]]:
        """One answer for each text."""
        return self.predictor.predict(texts)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {'finished' if self.finished else 'unfinished'})"

    def _own(self, name: str) -> Path:
        """The path of a file in the run, refusing a link that leads out of it."""
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise RunError(f"{path}: leads out of the run over a link; put a copy of the file in its place")
        return path

    def _json(self, name: str) -> Any:
        try:
            return read_object(self._own(name), RunError, LARGEST)
        except FileNotFoundError:
            raise RunError(
                f"{self.folder} has no {name}: the run did not finish; start `warmstart fit` again"
            ) from None
