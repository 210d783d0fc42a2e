"""Several processes of one training, as `torchrun` starts them: how many, which one this is, and who goes first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

_LONG = timedelta(days=30)
"""Reading and measuring may take hours; if the main process dies, the launcher ends those that wait for it."""
_turns = itertools.count()


def count() -> int:
    """How many processes there are."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def index() -> int:
    """Which of them this is, from 0."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this is the one that writes the run's folder and speaks to the user."""
    return index() == 0


@contextmanager
def main_first() -> Iterator[None]:
    """The main process goes through the block first, and the others when it is through."""
    key = f"warmstart/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{next(_turns)}"
    if count() > 1 and not is_main():
        _store().wait([key], _LONG)
    yield
    if count() > 1 and is_main():
        _store().set(key, "through")


def _store() -> Any:
    """The launcher's store of keys, which needs no process group: before a training there is none."""
    from torch.distributed.rendezvous import rendezvous

    store, _, _ = next(rendezvous("env://"))
    return store
