"""Refusals of a verb that trains, before torch is imported; without a model, with encoders to choose from."""

from __future__ import annotations

from pathlib import Path

from warmstart.errors import RecipeError, WarmstartError
from warmstart.options import Values
from warmstart.pipeline.preflight import check_files, check_recipe, first_rows
from warmstart.recipe import SHIPPED, Recipe, load_recipe, make_recipe
from warmstart.recipe.run_folder import default_folder

SAMPLE = 200
"""Rows whose texts tell the language."""


def checked_recipe(
    verb: str, source: str, base: str | None, changes: Values, out: str | None, writes: bool = True
) -> Recipe:
    """The recipe of a command, checked as far as it can be without torch.

    Args:
        base: The recipe that the command starts from.
        out: The folder of the run, if it is given.
        writes: Whether the verb writes a run.
    """
    if base is None and not {"model", "from_scratch"} & changes.keys() and not changes.get("models"):
        check_files(make_recipe({**changes, "model": "none"}, verb))
        raise RecipeError(_advise(verb, source, changes))
    recipe = load_recipe(base, changes) if base is not None else make_recipe(changes, verb)
    is_file = base is not None and not base.startswith(SHIPPED)
    folder = Path(out) if out else default_folder(recipe, base if is_file else None)
    check_recipe(recipe, folder if writes else None)
    return recipe


def _advise(verb: str, source: str, changes: Values) -> str:
    """Which encoders the texts suggest, as commands that can be typed."""
    from warmstart.models.suggestions import cached_encoders, suggest_encoders

    language, suggestions = suggest_encoders(_texts(changes))
    seem = f" The texts seem to be {language}." if language else ""
    lines = [f"{verb}: no model. Expected a pretrained encoder (--model).{seem} For example:"]
    lines += [f"  warmstart {verb} {source} --model {one.name}    # {one.about}" for one in suggestions]
    if names := cached_encoders():
        lines.append(f"On this machine already: {', '.join(names)}")
    return "\n".join(lines)


def _texts(changes: Values) -> list[str]:
    """Some texts of the training file; none where it cannot be read yet."""
    from warmstart.data.source import Source

    try:
        recipe = make_recipe({**changes, "model": "none"})
        reading = recipe.data.reading("train") or {}
        return [row["text"] for row in first_rows(Source(**reading), recipe.task.name, SAMPLE)]
    except WarmstartError:
        return []
