"""The processes of one distributed training, as `torchrun` starts them: how many, which one this is, who goes first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from warmstart.errors import RecipeError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_MAX_WAIT = timedelta(days=30)
"""Reading and evaluating may take hours; if the main process dies, the launcher ends those that wait for it."""
_turns = itertools.count()


def world_size() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Which of them this process is, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_main_process() -> bool:
    """Whether this process is the one that writes the run's folder and reports to the user."""
    return rank() == 0


def check_several(setting: str) -> None:
    """Refuse a setting that needs several processes where there is one."""
    if world_size() == 1:
        raise RecipeError(
            f"{setting}: found true, but this is one process; start several with torchrun --nproc-per-node 2 "
            "--no-python warmstart fit …, or leave it out"
        )


@contextmanager
def main_process_first() -> Iterator[None]:
    """The main process runs the block first, the others once it is done."""
    key = _next_key()
    if world_size() > 1 and not is_main_process():
        _store().wait([key], _MAX_WAIT)
    yield
    if world_size() > 1 and is_main_process():
        _store().set(key, "done")


def as_main_process_sees(fact: bool) -> bool:
    """What the main process found to be so, for all of them, which look at different times."""
    if world_size() == 1:
        return fact
    key, store = _next_key(), _store()
    if is_main_process():
        store.set(key, str(int(fact)))
        return fact
    store.wait([key], _MAX_WAIT)
    return bool(int(store.get(key)))


def _next_key() -> str:
    """A name that all processes give to the same meeting, since they meet in the same order."""
    return f"warmstart/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_turns)}"


def _store() -> Store:
    """The launcher's key-value store, which works without a process group: before a training there is none."""
    from torch.distributed.rendezvous import rendezvous

    store: Store = next(rendezvous("env://"))[0]
    return store
