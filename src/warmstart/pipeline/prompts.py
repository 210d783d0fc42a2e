"""The prompts of a recipe, decided: as the recipe sets them, or as its encoder was trained with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from warmstart import tasks
from warmstart.errors import RecipeError
from warmstart.evaluation.records.training import RuleRecord
from warmstart.models.prompts import PromptUse, trained_prompt
from warmstart.options import Options, Value
from warmstart.recipe import Recipe
from warmstart.recipe.sweep_files import settings_in
from warmstart.tasks.shared.prompts import AUTO, PROMPT
from warmstart.tasks.shared.saved_task import FILE, SavedTask
from warmstart.tasks.shared.text_inputs import token_ids
from warmstart.text.windows import Frame, Window

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WHY = "the encoder was trained with it"


def with_prompts(recipe: Recipe) -> tuple[Recipe, list[RuleRecord]]:
    """The recipe with every prompt decided that it leaves to its encoder, and a record of each that there is.

    Where a recipe has stages, call it before them: the encoder that they train does not say what it was made from.
    """
    options = tasks.options_of(recipe.task.name, recipe.task.options)
    uses = tasks.find(recipe.task.name).prompt_uses(options)
    given = recipe.data.prompt
    if given not in {AUTO, ""} and PROMPT not in uses:
        instead = f"has {' and '.join(uses)}; set those" if uses else "takes no prompt; leave it out"
        raise RecipeError(f"{PROMPT}: found {given!r}, but {recipe.task.name} {instead}")
    decided: dict[str, Value] = {}
    for field, use in uses.items():
        if _given(recipe, options, field) == AUTO:
            decided[field] = "" if given == "" or not recipe.model else _of_model(recipe.model, field, use)
    rules = [RuleRecord(field, prompt, WHY) for field, prompt in decided.items() if prompt]
    if given == AUTO:
        decided.setdefault(PROMPT, "")
    return (settings_in(recipe, decided, "by rule") if decided else recipe), rules


def check_prompt(window: Window, frame: Frame, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a prompt that leaves no room for text."""
    tokens = len(token_ids(tokenizer, [window.prompt])[0]) if window.prompt else 0
    if tokens and tokens >= window.max_tokens - frame.size:
        raise RecipeError(
            f"{PROMPT}: found {window.prompt!r}, which has {tokens} tokens, and window.max_tokens: {window.max_tokens} "
            "leaves none for the text; set a shorter prompt or more tokens"
        )


def _given(recipe: Recipe, options: Options, field: str) -> Value:
    section, _, name = field.partition(".")
    return getattr(options if section == "task" else getattr(recipe, section), name)


def _of_model(model: str, field: str, use: PromptUse) -> str:
    """The prompt that a model of ours has in that field, even if it is empty; otherwise that of the encoder."""
    if (Path(model) / FILE).is_file():
        saved = SavedTask.read(Path(model))
        kind, options = tasks.with_options(saved.task, saved.options)
        if field in kind.prompt_uses(options):
            return saved.window.prompt if field == PROMPT else str(getattr(options, field.rpartition(".")[2]))
    return trained_prompt(model, use)
