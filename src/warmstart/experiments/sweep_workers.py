"""Workers: several processes on one sweep, and the call that starts them and says what was found."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warmstart.errors import RecipeError, RunError, Stopped, WarmstartError
from warmstart.experiments.sweep import Worker, begin
from warmstart.experiments.sweep_results import Searched, write_results
from warmstart.recipe import Recipe, Sweep
from warmstart.recipe.sweep import seconds
from warmstart.runtime.progress import Progress, silent
from warmstart.runtime.signals import stop_asked


def sweep(asked: Sweep, recipe: Recipe, folder: str | Path, progress: Progress = silent, workers: int = 1) -> Searched:
    """Search, or go on with a search that was stopped or killed; the same call from elsewhere takes part in it.

    Args:
        asked: What is searched and how; with `recipe`, what `load_sweep` gives.
        folder: The sweep's folder: all that workers share, on one machine or on several.
        progress: What shows progress; of several workers each gets a copy.
        workers: How many processes to start here; 1 for this one.
    """
    folder = Path(folder)
    if workers < 1:
        raise RecipeError(f"workers: found {workers}, expected 1 or more")
    deadline = time.time() + seconds(asked.budget) if asked.budget else None
    begin(asked, recipe, folder)
    if workers == 1:
        Worker(folder, progress, deadline).run()
    else:
        _together(folder, progress, deadline, workers)
    return write_results(folder, progress)


def _together(folder: Path, progress: Progress, deadline: float | None, workers: int) -> None:
    """Run several workers and wait for them; SIGTERM is passed on, so that each saves what it has under way."""
    # A fresh interpreter each: a fork of one that computes with threads may hang.
    start = multiprocessing.get_context("spawn").Process
    with _threads(workers), stop_asked() as asked:
        arguments = (folder, progress, deadline, workers, os.getpid())
        found = [start(target=_work, args=arguments) for _ in range(workers)]
        for one in found:
            one.start()
        passed = False
        while any(one.is_alive() for one in found):
            if asked.name == "SIGTERM" and not passed:  # an interrupt from the keyboard reaches them by itself
                passed = True
                for one in found:
                    one.terminate()
            time.sleep(0.1)
    codes = [one.exitcode for one in found]
    if asked or Stopped.exit_code in codes:
        raise Stopped(f"{asked.name or 'a signal'} came: trials under way were saved; the same command goes on")
    if all(codes):
        raise RunError(f"every worker ended with an error ({codes[0]}), told above; the same command goes on")


def _work(folder: Path, progress: Any, deadline: float | None, workers: int, parent: int) -> None:
    """What a process of several does."""
    try:
        Worker(folder, progress, deadline, workers, parent).run()
    except WarmstartError as error:
        progress.say(str(error))
        sys.exit(error.exit_code)


@contextmanager
def _threads(workers: int) -> Iterator[None]:
    """Share the cores out among workers, unless the user has said how many threads there are to be."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(max((os.cpu_count() or 1) // workers, 1))
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]
