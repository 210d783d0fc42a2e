"""The trainings that `fit` makes of a stage, with what its rules decide."""

from __future__ import annotations

from collections.abc import Iterator

from warmstart.models.loading import load_config
from warmstart.pipeline.held_out import SHARE
from warmstart.pipeline.prepare import read_rows
from warmstart.pipeline.prompts import with_prompts
from warmstart.pipeline.rules import with_rules
from warmstart.recipe import Recipe
from warmstart.recipe.sweep_files import settings_in
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder


def decided_trainings(name: str, recipe: Recipe, progress: Progress) -> Iterator[tuple[str, Recipe]]:
    """Each training by its name: those that compare on held-out rows first, and last the one on all rows.

    Which of those that are compared is best is not known before; the first one stands for it.
    """
    recipe, _ = with_prompts(recipe)
    decision = with_rules(recipe, read_rows(recipe, cache_folder(), progress), load_config(recipe.model))
    ways = [settings_in(decision.recipe, settings, "by rule") for settings in decision.candidates.values()]
    for way, trained in zip(decision.candidates, ways, strict=True):
        fewer = {"data.fraction": recipe.data.fraction * (1 - SHARE)}
        yield f"{name} to compare{f': {way}' if way else ''}", settings_in(trained, fewer, "held out")
    yield name, ways[0] if ways else decision.recipe
