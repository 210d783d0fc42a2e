"""The task beside a saved model: what `warmstart.json` in a model folder says, written and read in one place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from warmstart import tasks
from warmstart.errors import ModelError
from warmstart.tasks.base import Task
from warmstart.windows import Window

FILE = "warmstart.json"
FORMAT = 1


def save_task(task: Task[Any], window: Window, folder: Path) -> None:
    """Write what a predictor must know beyond the model's config; labels are in the config alone."""
    about = {
        "format": FORMAT,
        "task": task.name,
        "options": task.options.model_dump(mode="json"),
        "pair": task.pair,
        "window": {"tokens": window.tokens, "keep": window.keep},
    }
    (folder / FILE).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def open_task(folder: Path, config: Any) -> tuple[Task[Any], Window]:
    """The task and window that a model folder was trained with."""
    path = folder / FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} has no {FILE}: not a model that `warmstart fit` wrote") from None
    except ValueError as error:
        raise ModelError(f"{path}: not JSON: {error}") from None
    if about.get("format") != FORMAT:
        raise ModelError(f"{path}: found format {about.get('format')!r}, this version reads {FORMAT}")
    kind = tasks.find(about["task"])
    options = tasks.options_of(about["task"], about["options"], str(path))
    return kind.of(options, about["pair"], config), Window(**about["window"])
