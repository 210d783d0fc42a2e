"""Bugs put in on purpose, of the kinds that the simulation is there to find: each must be found."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from filelock import Timeout

from warmstart.evaluation.records import metrics
from warmstart.experiments import sweep_journal
from warmstart.pipeline import multitask, reuse, run_recipe
from warmstart.storage import artifacts, damages, files, folders, locks

Plant = Callable[[], AbstractContextManager[None]]


@contextmanager
def replaced(name: str, value: Any, *modules: Any) -> Iterator[None]:
    """A function replaced wherever it is imported."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def no_fsync() -> AbstractContextManager[None]:
    """Files are not flushed before they are moved into place."""
    flush = folders.flush
    return replaced("flush", lambda path: flush(path) if path.is_dir() else None, folders, files)


def no_folder_sync() -> AbstractContextManager[None]:
    """Folders are not flushed after a rename in them."""
    return replaced("flush_folder", lambda folder: None, folders, files, artifacts, sweep_journal)


def rename_before_sync() -> AbstractContextManager[None]:
    """A file is moved into place, and flushed only then."""

    @contextmanager
    def atomic_file(path: Path) -> Iterator[Path]:
        staging = path.with_name(f".{path.name}.{os.urandom(4).hex()}{folders.STAGING}")
        yield staging
        staging.replace(path)
        folders.flush(path)
        folders.flush_folder(path.parent)

    return replaced("atomic_file", atomic_file, files, metrics)


def record_before_data() -> AbstractContextManager[None]:
    """A run is marked as finished before its files are listed."""

    def finish_run(values: Mapping[str, object], folder: Path) -> None:
        files.write_json(folder / metrics.FILE, values)
        damages.list_files(folder, folder / metrics.FILE, metrics.FILE)

    return replaced("finish_run", finish_run, run_recipe, multitask, reuse.metrics)


class ExistenceLock:
    """A lock that is a file which exists, and so outlives its process."""

    def __init__(self, path: Path, *, poll_interval: float, **_: Any) -> None:
        self.path, self.poll_interval = path.with_name(f"{path.name}.held"), poll_interval

    def acquire(self, blocking: bool = True) -> None:
        while True:
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
                return
            except FileExistsError:
                if not blocking:
                    raise Timeout(str(self.path)) from None
                time.sleep(self.poll_interval)

    def release(self) -> None:
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def claim_not_released() -> AbstractContextManager[None]:
    """The claim of a process that was killed is never given up."""
    return replaced("FileLock", ExistenceLock, locks)


PLANTS: dict[str, Plant] = {
    "fsync left out": no_fsync,
    "folder not synced": no_folder_sync,
    "rename before sync": rename_before_sync,
    "record before data": record_before_data,
    "claim not released": claim_not_released,
}
