"""Rows that are added to those of a recipe, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warmstart.errors import RecipeError
from warmstart.recipe.fields import FileOptions
from warmstart.recipe.recipe import load_recipe


def added_files(recipe: str | None, files: Sequence[str]) -> list[str]:
    """The files that a recipe adds already and further ones, whose paths are taken from the current folder.

    Args:
        recipe: A recipe file, or None where there is none.
    """
    earlier = load_recipe(recipe).data.add if recipe else None
    if isinstance(earlier, FileOptions):
        raise RecipeError(
            f"--add: {recipe} has options of its own for data.add; put the files into data.add.file there"
        )
    own = [earlier] if isinstance(earlier, str) else earlier or []
    further = (file if file.startswith("hub:") else str(Path(file).absolute()) for file in files)
    return list(dict.fromkeys([*own, *further]))
