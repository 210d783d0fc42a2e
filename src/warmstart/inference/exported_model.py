"""An export on disk: a model folder for other engines than PyTorch, and where a run has its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmstart.errors import ModelError
from warmstart.storage.artifacts import MANIFEST, checksum, verify
from warmstart.storage.json_files import JsonObject, read_object

FOLDER = "onnx"
"""The name of an export in a run."""
FILE = "export.json"
"""What an export was made of, and how it did when it was checked."""


@dataclass(frozen=True)
class ExportedModel:
    """An export that is complete.

    Args:
        engines: How the answers of each engine compared with PyTorch's when it was written, by the engine's name.
    """

    folder: Path
    engines: dict[str, JsonObject]

    def why_not(self, engine: str) -> str | None:
        """Why an engine is not used for it, by that comparison; None where it can be."""
        if engine not in self.engines:
            return f"it was not checked with {engine}; write it again where that is installed: warmstart export RUN"
        return self.engines[engine].get("refused")


def is_export(folder: Path) -> bool:
    """Whether a folder is an export."""
    return (folder / FILE).is_file()


def export_of(folder: Path) -> Path | None:
    """The export that belongs to a model folder: the folder itself, or the one in the run; None where there is none."""
    if is_export(folder):
        return folder
    export = run_of(folder) / FOLDER
    return export if is_export(export) else None


def open_export(folder: Path) -> ExportedModel:
    """The export of a model folder; one that is damaged, or of another model than is there now, is refused."""
    export, run = export_of(folder), run_of(folder)
    again = f"write one with: warmstart export {run}"
    if export is None:
        raise ModelError(f"{run} has no export for this engine; {again}")
    verify(export)
    about = read_object(export / FILE, ModelError)
    if export != folder and about.get("source") != source_of(folder):
        raise ModelError(f"{export} is an export of another model than {folder}; remove it, and {again}")
    engines = about.get("engines", {})
    if not isinstance(engines, dict) or not all(isinstance(result, dict) for result in engines.values()):
        raise ModelError(f"{export / FILE}: engines: found {str(engines)[:80]!r}, expected names and results; {again}")
    return ExportedModel(export, engines)


def run_of(folder: Path) -> Path:
    """The run that a model folder is in."""
    return folder.parent if folder.name == "model" else folder


def source_of(folder: Path) -> str:
    """What names the content of a model folder."""
    return str(checksum(folder / MANIFEST)["sha256"])
