"""The shards of a group as one job of Ray Data: a pool of workers, each shard answered by one of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from warmstart.artifacts import disk_errors
from warmstart.deploy.bulk.plan import Shard
from warmstart.deploy.bulk.work import Work
from warmstart.deploy.bulk.worker import Worker
from warmstart.errors import RunError, WarmstartError

DEATHS = 5
"""Workers that may die one after the other while they load the model, before that is taken for a fault of it."""


class Tally:
    """Counts how often each shard was begun, outside of the workers: they may die of it."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}

    def begin(self, shard: str) -> int:
        """Count one more beginning; gives how many there were."""
        self.begun[shard] = self.begun.get(shard, 0) + 1
        return self.begun[shard]


class Call:
    """A worker as Ray Data calls it."""

    def __init__(self, work: Work, tally: Any) -> None:
        import ray

        self.worker = Worker(work, lambda shard: int(ray.get(tally.begin.remote(shard))))

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        shard = Shard(**{name: value for name, value in row.items() if name != "group"})
        return {"record": json.dumps(self.worker(row["group"], shard))}


def answered(
    ray: Any, work: Work, group: str, shards: Sequence[Shard], workers: int, gpus: float
) -> Iterator[dict[str, Any]]:
    """The record of each shard, in the order in which they are done.

    A worker that dies is started anew, and its shard with it. So a shard may be answered more than once, but then its
    files are the same, byte for byte, and are put in the same place.
    """
    from ray import data as ray_data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray_data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_consecutive_actor_init_deaths = DEATHS
    tally = ray.remote(Tally).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    items = [{"group": group, **asdict(shard)} for shard in shards]
    data = ray_data.from_items(items, override_num_blocks=len(items)).map(
        Call,
        fn_constructor_args=(work, tally),
        # One at a time: then a death is that of the shard at work, and no other's.
        compute=ray_data.ActorPoolStrategy(size=min(workers, len(items)), max_tasks_in_flight_per_actor=1),
        num_cpus=work.threads,
        num_gpus=gpus or None,
    )
    try:
        with disk_errors(work.out.local) if work.out.local else _as_it_is():
            for row in data.iter_rows():
                yield json.loads(row["record"])
    except ray.exceptions.RayError as error:
        raise _told(error) from error


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def _told(error: BaseException) -> WarmstartError:
    """What went wrong in a worker, in its own words."""
    cause: BaseException = error
    while (inner := getattr(cause, "cause", None) or cause.__cause__) is not None and inner is not cause:
        cause = inner
    if isinstance(cause, WarmstartError):
        return cause
    return RunError(f"a worker failed: {type(cause).__name__}: {cause}; mend that and run the same command to go on")
