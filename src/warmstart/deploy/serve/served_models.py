"""The models of a server: what the application must know about each to check a request, without its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from warmstart.deploy.serve.named_runs import seal_of
from warmstart.deploy.serve.refusals import Refusal
from warmstart.errors import DataError
from warmstart.inference.ensembles import members_of
from warmstart.inference.folders import model_folder
from warmstart.models.loading import load_config
from warmstart.storage.artifacts import verify
from warmstart.storage.json_files import Json
from warmstart.tasks.base import AnyTask
from warmstart.tasks.shared.protocols import ReadsWindows
from warmstart.tasks.shared.saved_task import open_task
from warmstart.text.windows import Window

InputRow = dict[str, object]
"""A text of a request, as the columns that its task reads."""


@dataclass(frozen=True)
class ServedModel:
    """One state of one model; when its folder changes, that is another `ServedModel`.

    Attributes:
        seal: The manifest's own checksum, which identifies this state.
    """

    name: str
    path: Path
    seal: str
    task: AnyTask
    window: Window

    @classmethod
    def open(cls, name: str, path: str | Path) -> ServedModel:
        """Check the folder of a run, or of its model, and read its task and window."""
        folder = model_folder(path)
        members = members_of(folder, verify(folder)) or [folder]
        task, saved = open_task(folder, load_config(str(members[0])))
        return cls(name, Path(path), seal_of(path), task, saved.window)

    @property
    def version(self) -> str:
        """The state, short enough to show to a client."""
        return self.seal[:12]

    def rows(self, texts: Sequence[Json]) -> list[InputRow]:
        """The texts of a request as rows with the same columns, so that any of them can share a batch."""
        columns = tuple(self.task.parse_input(self.task.example, 1))
        rows: list[InputRow] = []
        for index, text in enumerate(texts):
            try:
                row = self.task.parse_input(text, index + 1)
            except DataError as error:
                raise self.refusal(index, str(error)) from None
            rows.append({column: row.get(column) for column in columns})
        return rows

    def refusal(self, index: int, message: str, status: int = 400) -> Refusal:
        """A refusal because of one text of a request."""
        what = message.removeprefix(f"text {index + 1}").lstrip(": ")
        return Refusal(status, what, f"texts such as {self.task.example!r}", f"texts[{index}]")

    def describe(self) -> dict[str, object]:
        """What a client may know about the model."""
        labels = getattr(self.task, "labels", None)
        all_slices = self.window.method == "slices" and self.window.max_slices is None
        return {
            "name": self.name,
            "task": self.task.name,
            "labels": list(getattr(labels, "names", [])),
            "window": asdict(self.window),
            "whole": isinstance(self.task, ReadsWindows) or all_slices,
            "example": self.task.example,
            "version": self.version,
        }


def open_models(runs: Mapping[str, Path]) -> dict[str, ServedModel]:
    """The models of runs, by the same names."""
    return {name: ServedModel.open(name, path) for name, path in runs.items()}
