"""The models that are served: what the front must know of each to check a request, without its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warmstart.deploy.serve.refusals import Refused
from warmstart.errors import DataError, RecipeError, RunError
from warmstart.inference.ensembles import members_of
from warmstart.inference.predictor import model_folder
from warmstart.models.loading import load_config
from warmstart.storage.artifacts import MANIFEST, verify
from warmstart.storage.json_files import read_object
from warmstart.tasks.base import Task
from warmstart.tasks.shared.task_config import open_task
from warmstart.text.windows import Window

Row = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """One state of one model; another state of its folder is another of these.

    Attributes:
        seal: The manifest's own checksum, so what names this state.
    """

    name: str
    path: Path
    seal: str
    task: Task[Any]
    window: Window

    @classmethod
    def open(cls, name: str, path: str | Path) -> Served:
        """Check the folder of a run, or of its model, and read what is asked there."""
        folder = model_folder(path)
        members = members_of(folder, verify(folder)) or [folder]
        task, window = open_task(folder, load_config(str(members[0])))
        return cls(name, Path(path), seal_of(path), task, window)

    def rows(self, texts: Sequence[Any]) -> list[Row]:
        """The texts of a request as rows that all have the same columns, so that any can share a batch."""
        columns = tuple(self.task.row(self.task.example, 1))
        found = []
        for index, given in enumerate(texts):
            try:
                row = self.task.row(given, index + 1)
            except DataError as error:
                raise self.refusal(index, str(error)) from None
            found.append({name: row.get(name) for name in columns})
        return found

    def refusal(self, index: int, message: str, status: int = 400) -> Refused:
        """Say that one text of a request cannot be answered."""
        what = message.removeprefix(f"text {index + 1}").lstrip(": ")
        return Refused(status, what, f"texts such as {self.task.example!r}", f"texts[{index}]")

    def about(self) -> dict[str, Any]:
        """What a client may know of it."""
        labels = getattr(self.task, "labels", None)
        return {
            "name": self.name,
            "task": self.task.name,
            "labels": list(getattr(labels, "names", [])),
            "window": asdict(self.window),
            "whole": self.task.own_windows or (self.window.method == "slices" and self.window.max_slices is None),
            "example": self.task.example,
            "version": self.seal[:12],
        }


def seal_of(path: str | Path) -> str:
    """The checksum in a model's manifest: it changes with the model."""
    return str(read_object(model_folder(path) / MANIFEST, RunError, most=1 << 24).get("seal", ""))


def open_all(given: Sequence[str]) -> dict[str, Served]:
    """The models of a command line, each `NAME=RUN` or `RUN`, whose folder names it."""
    found: dict[str, Served] = {}
    for one in given:
        name, equals, path = one.partition("=")
        if not equals or "/" in name:
            name, path = Path(one).resolve().name, one
        if not name or not all(part.isalnum() or part in "-_." for part in name) or not name.isascii():
            raise RecipeError(f"{one}: found the name {name!r}, expected letters, digits, - _ and .; type NAME={path}")
        if name in found:
            raise RecipeError(f"{one}: there are two models of the name {name!r}; type OTHER={path}")
        found[name] = Served.open(name, path)
    return found
