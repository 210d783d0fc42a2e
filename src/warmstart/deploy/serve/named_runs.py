"""The runs to serve, by name: read from the command line before anything that takes time is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warmstart.errors import RecipeError, RunError
from warmstart.inference.folders import model_folder
from warmstart.storage.artifacts import MANIFEST
from warmstart.storage.json_files import read_object

MAX_MANIFEST_BYTES = 1 << 24


def named_runs(arguments: Sequence[str]) -> dict[str, Path]:
    """The runs of a command line, each given as `NAME=RUN`, or as `RUN`, whose folder then names it."""
    runs: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        if not equals or "/" in name:
            name, path = Path(argument).resolve().name, argument
        if not name or not all(char.isalnum() or char in "-_." for char in name) or not name.isascii():
            raise RecipeError(
                f"{argument}: found the name {name!r}, expected letters, digits, - _ and .; type NAME={path}"
            )
        if name in runs:
            raise RecipeError(f"{argument}: there are two models named {name!r}; type OTHER={path}")
        model_folder(path)
        runs[name] = Path(path)
    return runs


def seal_of(path: str | Path) -> str:
    """The checksum in a model's manifest, which changes with the model."""
    manifest = read_object(model_folder(path) / MANIFEST, RunError, max_bytes=MAX_MANIFEST_BYTES)
    return str(manifest.get("seal", ""))
