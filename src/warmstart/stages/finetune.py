"""The finetune stage: an encoder and a new head learn one task from labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers

from warmstart import tasks
from warmstart.artifacts import publish, write_json
from warmstart.encoders.load import Loaded, has_head, load_config, load_encoder, load_tokenizer, most_tokens, quietly
from warmstart.errors import RecipeError
from warmstart.progress import Progress
from warmstart.recipe import Recipe
from warmstart.stages.prepare import Parts, encode, fit_task
from warmstart.tasks.base import Task
from warmstart.tasks.common.saved import save_task
from warmstart.training import Settings, train
from warmstart.windows import Frame, Window

DEFAULT_TOKENS = 512
"""The widest window taken without being asked for: attention costs grow with its square."""


@dataclass(frozen=True)
class Ready:
    """All that a training needs, opened and found to fit together."""

    settings: Settings
    task: Task[Any]
    tokenizer: Any
    window: Window
    loaded: Loaded


def make_ready(recipe: Recipe, parts: Parts) -> Ready:
    """Open the encoder and fit the task to the rows, so that what is wrong is said before anything is written."""
    config = load_config(recipe.model)
    tokenizer = load_tokenizer(recipe.model)
    task = fit_task(recipe, parts, _saved(recipe, config))
    window = window_of(recipe, config, tokenizer, task.pair)
    # The head's first weights are drawn here, so the seed is set here.
    transformers.set_seed(recipe.seed)
    loaded = load_encoder(recipe.model, task.auto_class, task.config(), tokenizer, recipe.head)
    return Ready(settings_of(recipe), task, tokenizer, window, loaded)


def finetune(ready: Ready, parts: Parts, folder: Path, work: Path, progress: Progress) -> None:
    """Train on the training rows; publish the model and what the stage did into the run's folder.

    Args:
        work: A folder for files that are not needed afterwards.
    """
    task, tokenizer, window, loaded = ready.task, ready.tokenizer, ready.window, ready.loaded
    rows, cut = encode(parts.tables["train"], task, tokenizer, window, work / "train.arrow", progress)
    # What the Trainer itself writes, such as a tracker's logs, stays with the run.
    trained = train(loaded.model, task, tokenizer, rows, ready.settings, folder / "trainer", progress)
    save(loaded.model, tokenizer, task, window, folder / "model")
    about = {
        "steps": trained.steps,
        "seconds": round(trained.seconds, 3),
        "precision": trained.precision,
        "window": {"tokens": window.tokens, "keep": window.keep, "train": cut},
        "new_parameters": list(loaded.fresh),
        "unused_tensors": list(loaded.unused),
        "history": trained.history,
    }
    with publish(folder / "stages" / "01-finetune") as staging:
        write_json(staging / "history.json", about)


def settings_of(recipe: Recipe) -> Settings:
    """The recipe's training settings as plain arguments."""
    return Settings(**recipe.learn.model_dump(), seed=recipe.seed, trainer=recipe.trainer)


def window_of(recipe: Recipe, config: Any, tokenizer: Any, pair: bool) -> Window:
    """The recipe's window, refusing one that is wider than the encoder takes or leaves no room for text."""
    most = most_tokens(config, tokenizer)
    tokens = recipe.window.tokens or min(most, DEFAULT_TOKENS)
    if tokens > most:
        raise RecipeError(f"window.tokens: found {tokens}, but {recipe.model} takes at most {most}")
    special = Frame.of(tokenizer, pair).size
    if tokens <= special + pair:
        raise RecipeError(f"window.tokens: found {tokens}, of which {special} are special ones; that leaves no text")
    return Window(tokens, recipe.window.keep)


def save(model: Any, tokenizer: Any, task: Task[Any], window: Window, folder: Path) -> None:
    """Publish a folder that opens in plain `transformers` and in `warmstart.load`."""
    with publish(folder) as staging, quietly():
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        save_task(task, window, staging)


def _saved(recipe: Recipe, config: Any) -> Any:
    """The config of the head that is kept, or None where one is drawn."""
    auto_class = tasks.find(recipe.task.name).auto_class
    return config if recipe.head == "keep" and has_head(config, auto_class) else None
