"""How a file given beside a run is read: as the run's own files were, where options say nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warmstart.data.schema import Schema
from warmstart.data.source import Source
from warmstart.evaluation.run import RunFolder
from warmstart.recipe import make_recipe


def source_of(run: str, file: str, said: dict[str, Any], schema: Schema | None = None) -> Source:
    """The source for a file: the run's reading options, overridden by what was said, for these columns or all."""
    own: dict[str, Any] = {}
    if (Path(run) / "recipe.yaml").is_file():
        data = RunFolder(run).recipe.data
        own = data.reading("test") or data.reading("train") or {}
        # A format that was said belongs to files so named: a run on CSV can still be asked about JSONL.
        alike = Path(own["files"][0]).suffixes == Path(file).suffixes
        own = {f"data.{name}": value for name, value in own.items() if name != "files" and (alike or name != "format")}
    recipe = make_recipe({"model": run, **own, **said, "data.train": file})
    reading = recipe.data.reading("train") or {}
    columns = {name: column for name, column in reading["columns"].items() if not schema or name in schema.names}
    return Source(**{**reading, "columns": columns})
