"""How a file for a run is read: by default as the run's own files were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.evaluation.run import RunFolder
from warmstart.recipe import make_recipe


def source_of(run: str, file: str, fields: dict[str, Any], schema: Schema | None = None) -> Source:
    """The source for a file: with the run's reading options, overridden by some fields, for these columns or all."""
    own: dict[str, Any] = {}
    if (Path(run) / "recipe.yaml").is_file():
        data = RunFolder(run).recipe.data
        own = data.reading("test") or data.reading("train") or {}
        # The run's format holds for files of the same suffix: a run on CSV can still read JSONL.
        alike = Path(own["files"][0]).suffixes == Path(file).suffixes
        own = {
            f"data.{name}": _as_field(value)
            for name, value in own.items()
            if name != "files" and (alike or name != "format")
        }
    recipe = make_recipe({"model": run, **own, **fields, "data.train": file})
    reading = recipe.data.reading("train") or {}
    columns = {name: column for name, column in reading["columns"].items() if not schema or name in schema.names}
    return Source(**{**reading, "columns": columns})


def _as_field(value: Any) -> Any:
    """A reading option as a recipe holds it: a file of queries or documents has `file` there, not `files`."""
    if isinstance(value, Mapping) and "files" in value:
        return {"file": list(value["files"]), **{name: option for name, option in value.items() if name != "files"}}
    return value
