"""Points of a sharded training at which one of its processes ends by SIGKILL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warmstart.training import checkpoint_state, shards
from warmstart.training.checkpoints import CheckpointStore
from warmstart.training.trainer import WarmstartTrainer

POINTS = ("step", "shards", "publish", "resume")
"""In the third step; when a process has written its share of the second checkpoint; when that is whole, but not
published; and when shards were read to resume, after a kill in a step."""


def kill_at(point: str) -> None:
    """Have this process end at a point, if it is the one: the main process where it publishes, else the last one."""
    number, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if number != (0 if point == "publish" else count - 1):
        return
    if point == "step":
        WarmstartTrainer.training_step = _until(3, WarmstartTrainer.training_step)  # type: ignore[method-assign]
    elif point == "shards":
        shards.save = _until(2, shards.save)
    elif point == "publish":
        CheckpointStore.save = _unpublished(CheckpointStore.save)  # type: ignore[method-assign]
    elif point == "resume":
        checkpoint_state.load_shards = _until(1, checkpoint_state.load_shards)


def _until(last: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after so many calls of which there is no more process."""
    calls: list[None] = []

    def ending(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        calls.append(None)
        if len(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return ending


def _unpublished(save: Callable[..., Any]) -> Callable[..., Any]:
    """`CheckpointStore.save`, which ends the process when the second checkpoint is written, but not published."""
    calls: list[None] = []

    def ending(store: CheckpointStore, step: int, write: Callable[[Path], object]) -> Any:
        calls.append(None)
        return save(store, step, _until(1, write) if len(calls) == 2 else write)

    return ending
