"""The task beside a saved model: what `warmstart.json` in a model folder says, written and read in one place."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from warmstart import tasks
from warmstart.errors import ModelError, RecipeError
from warmstart.storage.json_files import read_object
from warmstart.tasks.base import Task
from warmstart.text.windows import Window

FILE = "warmstart.json"
FORMAT = 1
WIDEST = 1 << 20
COLDEST, HOTTEST = 0.05, 20.0
"""The least and the greatest number that logits may be divided by."""


def save_task(task: Task[Any], window: Window, folder: Path) -> None:
    """Write what a predictor must know beyond the model's config; labels are in the config alone."""
    about = {
        "format": FORMAT,
        "task": task.name,
        "options": task.options.model_dump(mode="json"),
        "pair": task.pair,
        "window": asdict(window),
    }
    (folder / FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def saved_temperature(folder: Path) -> float:
    """What the model's logits are divided by before they become probabilities; 1 where it was not calibrated."""
    path = folder / FILE
    found = read_object(path, ModelError).get("temperature", 1.0)
    if isinstance(found, bool) or not isinstance(found, int | float) or not COLDEST <= found <= HOTTEST:
        raise ModelError(f"{path}: temperature: found {str(found)[:80]!r}, expected {COLDEST} to {HOTTEST}")
    return float(found)


def open_task(folder: Path, config: Any) -> tuple[Task[Any], Window]:
    """The task and window that a model folder was trained with."""
    path = folder / FILE
    try:
        about = read_object(path, ModelError)
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {FILE}: not a model that `warmstart fit` wrote") from None
    if about.get("format") != FORMAT:
        raise ModelError(f"{path}: format: found {about.get('format')!r}, this version reads {FORMAT}")
    for key, kind in {"task": str, "options": dict, "pair": bool, "window": dict}.items():
        if not isinstance(about.get(key), kind):
            raise ModelError(f"{path}: {key}: found {str(about.get(key))[:80]!r}, expected {_SAID[kind]}")
    window = _window(path, about["window"])
    try:
        kind = tasks.find(about["task"])
        options = tasks.options_of(about["task"], about["options"], str(path))
    except RecipeError as error:
        raise ModelError(f"{path}: {error}") from None
    try:
        return kind.of(options, about["pair"], config), window
    except (KeyError, TypeError, AttributeError):
        raise ModelError(
            f"{folder / 'config.json'}: id2label: found {str(getattr(config, 'id2label', None))[:80]!r}, "
            "expected a name for each number from 0 on"
        ) from None


def _window(path: Path, said: dict[str, Any]) -> Window:
    """The window in a saved task: known names only, numbers that a text can have, and settings that go together."""
    known = [field.name for field in fields(Window)]
    if not {"max_tokens", "method"} <= set(said) <= set(known):
        raise ModelError(f"{path}: window: found {str(said)[:80]!r}, expected {', '.join(known)}")
    for name, value in said.items():
        if name == "method" or (value is None and name in {"head_tokens", "max_slices"}):
            continue
        if type(value) is not int or not 0 <= value <= WIDEST:
            found = f"{path}: window.{name}: found {str(value)[:80]!r}"
            raise ModelError(f"{found}, expected a whole number, at most {WIDEST:,}")
    try:
        return Window(**said)
    except ValueError as error:
        raise ModelError(f"{path}: window.{str(error)[:200]}") from None


_SAID: dict[type, str] = {str: "a word", dict: "names and values", bool: "true or false"}
