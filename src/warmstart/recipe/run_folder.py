"""Where a run is written if nobody says where."""

from __future__ import annotations

from pathlib import Path

from warmstart.recipe.recipe import Recipe


def default_folder(recipe: Recipe, path: str | Path | None = None) -> Path:
    """`runs/` and the name of the recipe file, or of the training file."""
    reading = recipe.data.reading("train") or {}
    name = Path(path).name if path else Path(str(reading["files"][0]).removeprefix("hub:")).name
    return Path("runs") / name.partition(".")[0].partition(":")[0]
