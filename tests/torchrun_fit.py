"""Trainings one after the other, as one of several processes, for test_torchrun.py.

The argument is a JSON list of what `warmstart.fit` takes, and two things more: `stop` sends the main process, and not
the others, a SIGTERM after so many steps; `noted` is a file for the rows each process learned from at each step. Where
it says `tasks`, it is what `several` takes.
"""

import json
import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import warmstart
from warmstart.errors import StoppedError
from warmstart.pipeline.multitask import train_multitask
from warmstart.pipeline.multitask_recipes import MultitaskStage
from warmstart.recipe import MultitaskOptions, make_recipe
from warmstart.runtime import processes
from warmstart.training import trainer as training


class Alarm:
    """Progress that has a signal sent after a step of the training."""

    def __init__(self, stop):
        self.stop, self.done = stop, 0

    @contextmanager
    def bar(self, name, total):
        self.name, self.done = name, 0
        yield self

    def advance(self, amount=1, note=""):
        self.done += amount
        if self.name == "training" and amount == 1 and self.done == self.stop:
            os.kill(os.getpid(), signal.SIGTERM)

    def log(self, text):
        pass


def fit(stop, noted, **settings):
    """Train; what happened is noted in a file a process."""
    step_of = training.WarmstartTrainer.training_step
    seen = {"steps": [], "said": ""}

    def note(self, model, inputs, num_items_in_batch=None):
        seen["steps"].append(inputs["row"].tolist())
        return step_of(self, model, inputs, num_items_in_batch)

    training.WarmstartTrainer.training_step = note
    try:
        run = warmstart.fit(**settings, progress=Alarm(stop))
        assert run.finished
        assert "test" in run.metrics  # every process finds a finished run
    except StoppedError as stopped:
        seen["said"] = str(stopped)
    training.WarmstartTrainer.training_step = step_of
    Path(f"{noted}.{processes.rank()}").write_text(json.dumps(seen))


def several(out, model, tasks, options):
    """Learn several tasks on one encoder; each is a recipe's task and data."""
    folder = Path(out)
    work = folder / ".work"
    with processes.main_process_first():
        work.mkdir(parents=True, exist_ok=True)
    recipes = {name: make_recipe({"model": model, **values}) for name, values in tasks.items()}
    stage = MultitaskStage(recipes, MultitaskOptions(**{"with": ["others.yaml"]}, **options))
    train_multitask(stage, folder, folder / "cache", work)


if __name__ == "__main__":
    for settings in json.loads(sys.argv[1]):
        (several if "tasks" in settings else fit)(**settings)
