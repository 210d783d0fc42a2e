"""Several worker processes on one sweep, and the call that starts them and gives the results."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmstart.errors import RecipeError, RunError, StoppedError, WarmstartError
from warmstart.experiments.sweep import SweepWorker, begin_sweep
from warmstart.experiments.sweep_results import SweepResults, write_results
from warmstart.recipe import Recipe, Sweep
from warmstart.recipe.sweep import seconds
from warmstart.runtime.progress import Progress, silent
from warmstart.runtime.signals import watch_stop_signals


def run_sweep(
    sweep: Sweep, recipe: Recipe, folder: str | Path, progress: Progress = silent, workers: int = 1
) -> SweepResults:
    """Search, or resume a search that was stopped or killed; the same call from elsewhere takes part in it.

    Args:
        sweep: What is searched and how; with `recipe`, what `load_sweep` gives.
        folder: The sweep's folder: all that workers share, on one machine or on several.
        progress: What shows progress; of several workers each gets a copy.
        workers: How many processes to start here; 1 to use this one.
    """
    folder = Path(folder)
    if workers < 1:
        raise RecipeError(f"workers: found {workers}, expected 1 or more")
    deadline = time.time() + seconds(sweep.timeout) if sweep.timeout else None
    begin_sweep(sweep, recipe, folder)
    if workers == 1:
        SweepWorker(folder, progress, deadline).run()
    else:
        _run_workers(folder, progress, deadline, workers)
    return write_results(folder, progress)


def _run_workers(folder: Path, progress: Progress, deadline: float | None, workers: int) -> None:
    """Run several workers and wait for them; SIGTERM is passed on, so that each saves its trial."""
    # A fresh interpreter each: a fork of one that computes with threads may hang.
    start = multiprocessing.get_context("spawn").Process
    with _threads(workers), watch_stop_signals() as stop:
        arguments = (folder, progress, deadline, workers, os.getpid())
        processes = [start(target=_run_worker, args=arguments) for _ in range(workers)]
        for process in processes:
            process.start()
        passed = False
        while any(process.is_alive() for process in processes):
            if stop.name == "SIGTERM" and not passed:  # an interrupt from the keyboard reaches them by itself
                passed = True
                for process in processes:
                    process.terminate()
            time.sleep(0.1)
    codes = [process.exitcode for process in processes]
    if stop or StoppedError.exit_code in codes:
        raise StoppedError(f"{stop.name or 'a signal'} came: running trials were saved; the same command resumes them")
    if all(codes):
        raise RunError(
            f"every worker ended with an error ({codes[0]}), shown above; the same command resumes the sweep"
        )


def _run_worker(folder: Path, progress: Progress, deadline: float | None, workers: int, parent: int) -> None:
    """What each of several processes does."""
    try:
        SweepWorker(folder, progress, deadline, workers, parent).run()
    except WarmstartError as error:
        progress.log(str(error))
        sys.exit(error.exit_code)


@contextmanager
def _threads(workers: int) -> Iterator[None]:
    """Divide the cores among workers, unless the user has set the number of threads."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(max((os.cpu_count() or 1) // workers, 1))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
