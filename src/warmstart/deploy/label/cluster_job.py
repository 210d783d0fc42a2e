"""The shards of a group as one Ray Data job: a pool of workers, each shard answered by one of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from warmstart import errors
from warmstart.deploy.label.attempts import AttemptCounter
from warmstart.deploy.label.job import LabelJob
from warmstart.deploy.label.locations import Folder
from warmstart.deploy.label.retries import is_storage_fault, retried
from warmstart.deploy.label.shards import Shard
from warmstart.deploy.label.worker import ShardWorker, has_model
from warmstart.errors import RunError
from warmstart.storage.artifacts import disk_errors

LOADING_DEATHS = 5
"""Workers that may die in a row while they load the model, before the job is given up."""


class RemoteAttempts:
    """The counts of an actor, as a worker asks for them."""

    def __init__(self, counter: Any) -> None:
        self.counter = counter

    def begin(self, what: str) -> int:
        import ray

        return int(ray.get(self.counter.begin.remote(what)))

    def finish(self, what: str) -> None:
        import ray

        ray.get(self.counter.finish.remote(what))


class WorkerCall:
    """A worker as Ray Data calls it; an error is returned as a record, since Ray would print pages."""

    def __init__(self, work: LabelJob, counter: Any) -> None:
        self.work = work
        self.counter = counter
        self.worker: ShardWorker | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        shard = Shard(**{name: value for name, value in row.items() if name != "group"})
        timeout = self.work.out.retry_timeout
        try:
            retried(self._load, self.work.run, timeout, self._model_is_away)
            record = retried(lambda: self._answer(row["group"], shard), shard.name, timeout, is_storage_fault)
        except Exception as error:
            record = {"failed": _kind(error), "message": str(error), "errno": getattr(error, "errno", None)}
        return {"record": json.dumps(record)}

    def _load(self) -> None:
        self.worker = self.worker or ShardWorker(self.work, RemoteAttempts(self.counter))

    def _answer(self, group: str, shard: Shard) -> dict[str, Any]:
        assert self.worker is not None
        return self.worker(group, shard)

    def _model_is_away(self, error: BaseException) -> bool:
        """Whether the model could not be loaded because its folder is out of reach, or memory is short."""
        return is_storage_fault(error) or (isinstance(error, errors.WarmstartError) and not has_model(self.work.run))


def answered(
    ray: Any, work: LabelJob, group: str, shards: Sequence[Shard], workers: int, gpus: float
) -> Iterator[dict[str, Any]]:
    """The record of each shard, in the order in which they finish.

    A worker that dies is restarted, and its shard with it. So a shard may be answered more than once, but then its
    files are the same, byte for byte, under the same names.
    """
    from ray import data as ray_data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray_data.DataContext.get_current()
    context.enable_progress_bars = False
    context.max_consecutive_actor_init_deaths = LOADING_DEATHS
    counter = ray.remote(AttemptCounter).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    items = [{"group": group, **asdict(shard)} for shard in shards]
    data = ray_data.from_items(items, override_num_blocks=len(items)).map(
        WorkerCall,
        fn_constructor_args=(work, counter),
        # One at a time: then a death is blamed on the shard in work, and on no other.
        compute=ray_data.ActorPoolStrategy(size=min(workers, len(items)), max_tasks_in_flight_per_actor=1),
        num_cpus=work.threads,
        num_gpus=gpus or None,
    )
    try:
        for row in data.iter_rows():
            yield _unless_failed(json.loads(row["record"]), work.out)
    except ray.exceptions.RayError as error:
        last = (" ".join(str(error).split()) or type(error).__name__)[-300:]
        raise RunError(
            f"Ray gave up: {last}; is the same version of warmstart installed on every machine? Run the same command "
            "again to resume"
        ) from error


def _kind(error: Exception) -> str:
    """The class that the driver raises again: one of `warmstart.errors`, where the error's class inherits from one."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind]
    return kinds[0] if kinds else type(error).__name__


def _unless_failed(record: dict[str, Any], out: Folder) -> dict[str, Any]:
    """A record, if it is one; else the error that a worker reported is raised."""
    if "failed" not in record:
        return record
    known = getattr(errors, record["failed"], None)
    if isinstance(known, type) and issubclass(known, errors.WarmstartError):
        raise known(record["message"])
    with disk_errors(out.local) if out.local else nullcontext():
        if record["errno"]:
            raise OSError(record["errno"], record["message"])
    raise RunError(f"a worker failed: {record['failed']}: {record['message']}; fix that and run the same command again")
