"""An export on disk: a model folder for other engines than PyTorch, and where a run has its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmstart.errors import ModelError
from warmstart.storage.artifacts import MANIFEST, checksum, verify
from warmstart.storage.json_files import read_object

FOLDER = "onnx"
"""The name of an export in a run."""
FILE = "export.json"
"""What an export was made of, and how it did when it was checked."""


def is_export(folder: Path) -> bool:
    """Whether a folder is an export."""
    return (folder / FILE).is_file()


def export_of(folder: Path) -> Path | None:
    """The export that belongs to a model folder: the folder itself, or the one in the run; None where there is none."""
    if is_export(folder):
        return folder
    place = (folder.parent if folder.name == "model" else folder) / FOLDER
    return place if is_export(place) else None


def open_export(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The export of a model folder and what its file says, whole and of the model that stands there now."""
    place = export_of(folder)
    run = folder.parent if folder.name == "model" else folder
    again = f"write one with: warmstart export {run}"
    if place is None:
        raise ModelError(f"{run} has no export for this engine; {again}")
    verify(place)
    about = read_object(place / FILE, ModelError)
    if place != folder and about.get("source") != source_of(folder):
        raise ModelError(f"{place} is an export of another model than {folder}; remove it, and {again}")
    return place, about


def source_of(folder: Path) -> str:
    """What names the content of a model folder."""
    return str(checksum(folder / MANIFEST)["sha256"])
