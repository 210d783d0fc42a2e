"""The claim on a run's folder: one `fit` at a time trains into it, and a process that dies gives it up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warmstart.errors import BusyError, RunError
from warmstart.evaluation.records import format_version
from warmstart.evaluation.records import metrics as metrics_record
from warmstart.evaluation.run import RECIPE
from warmstart.runtime import processes
from warmstart.storage.locks import lock_holder, try_lock

LOCK = ".lock"
"""The file in a run's folder that is locked while a process trains into it."""


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a run's folder until the block ends, refusing one that another process holds.

    Of several processes that train together the main one claims it for all. A folder that is empty afterwards is
    removed.
    """
    check_free(folder)
    if not processes.is_main_process():
        yield
        return
    lock = folder / LOCK
    try:
        with try_lock(lock, remove=True) as mine:
            if not mine:
                raise BusyError(
                    f"{folder}: {lock_holder(lock)} is training into it; wait until it has ended, "
                    "or choose another folder with --out"
                )
            check_free(folder)  # another process may have finished it in between
            yield
    finally:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


def check_free(folder: Path) -> None:
    """Refuse a folder that holds a finished run, or anything that is not a run; a stopped one is resumed."""
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file, and a run is a folder; choose another with --out")
    # A kill may leave hidden files that are no part of a run; they are removed when it resumes.
    if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
        return
    if (folder / metrics_record.FILE).is_file():
        raise RunError(f"{folder} holds a finished run; choose another with --out, or remove it")
    if not any((folder / name).is_file() for name in (RECIPE, format_version.FILE)):
        raise RunError(f"{folder} holds files that are no run; choose another folder with --out")
    format_version.check_format_version(folder)
