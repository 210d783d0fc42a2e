"""Where a model is: the folder in a run, found without loading anything."""

from __future__ import annotations

from pathlib import Path

from warmstart.errors import ModelError
from warmstart.tasks.shared.saved_task import FILE


def model_folder(path: str | Path) -> Path:
    """The model folder of a run, or the folder itself if it is one."""
    path = Path(path)
    if (path / "model").is_symlink():
        raise ModelError(f"{path / 'model'}: found a link, expected the run's own folder; put a copy in its place")
    for folder in (path / "model", path):
        if (folder / FILE).is_file():
            return folder
    if path.is_file():
        raise ModelError(f"{path}: found a file, expected the folder of a run that `warmstart fit` wrote")
    if not path.is_dir():
        raise ModelError(f"{path}: no such folder; give a run that `warmstart fit` wrote")
    raise ModelError(f"{path} holds no finished model (no model/{FILE}); give a run that `warmstart fit` finished")
