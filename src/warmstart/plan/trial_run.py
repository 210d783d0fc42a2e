"""A rehearsal: some of a recipe's own batches trained on, saved and tested, in a process of its own, by the clock.

All is done by the code of a real run, on fewer rows: short, middling and long batches, the largest among them, so that
memory is what it will be. It runs in a new process, since memory once taken is not always given back.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from warmstart import errors
from warmstart.errors import TrainingError, WarmstartError
from warmstart.evaluation.evaluate import evaluate
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.finetune import Ready, finetune, make_ready
from warmstart.pipeline.prepare import Parts, read_rows
from warmstart.plan.cost_curve import Shape, batch_shapes, evenly
from warmstart.plan.stopwatch import Clock, peak_gb
from warmstart.recipe import Recipe, absolute, load_recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.training.batches import lengths_of
from warmstart.training.checkpoints import Checkpoints
from warmstart.training.settings import Settings
from warmstart.training.steps import steps_of
from warmstart.training.trainer import Saving

BATCHES, STEPS = 8, 16
"""Batches that are trained on, and steps on them, at the least."""
FIRST, TESTED = 16, 128
"""Rows that are tested: some to get going, and some that are timed."""
RESULT = "rehearsal.json"


class Step(NamedTuple):
    """A step that was timed."""

    shape: Shape
    seconds: float
    busy: float
    """Seconds of the processor, which other work on the machine hardly changes."""


@dataclass(frozen=True)
class Rehearsal:
    """What was seen; times of testing, features and saving are already those of the whole run."""

    start: float
    """Seconds until the first step."""
    steps: list[Step]
    features: float
    """Seconds to compute what an encoder held still gives; 0 where it learns."""
    saving: float
    testing: float
    gb: float
    """Memory at the most: of the accelerator where there is one, else of the process."""
    resting: float
    """Memory between two steps."""


def rehearse(recipe: Recipe, folder: Path, progress: Progress) -> Rehearsal:
    """Rehearse a recipe in a process of its own.

    Args:
        folder: For files that are not needed afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.yaml").write_text(absolute(recipe).yaml(), encoding="utf-8")
    progress.say("measuring some steps in a process of its own")
    began = time.time()
    command = [sys.executable, "-m", "warmstart.plan.trial_run", str(folder)]
    # The code of this process, wherever it was imported from.
    paths = [str(Path(errors.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if not (folder / RESULT).is_file():
        raise TrainingError(f"the rehearsal ended with {done.returncode}: {done.stderr.strip()[-600:] or 'no word'}")
    found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    if "error" in found:
        raise getattr(errors, found["error"])(found["message"])
    steps = [Step(Shape(*shape), seconds, busy) for shape, seconds, busy in found.pop("steps")]
    return Rehearsal(**{**found, "start": found["start"] - began}, steps=steps)


def perform(recipe: Recipe, folder: Path) -> Rehearsal:
    """Rehearse a recipe in this process; `start` is then a time of day."""
    clock = Clock()
    folder.mkdir()
    parts = read_rows(recipe, cache_folder(), clock)
    ready = make_ready(recipe, parts, folder, clock)
    part = _part(ready)
    run = folder / "run"
    run.mkdir()
    finetune(part, Saving(Checkpoints(folder / "checkpoints"), None, None), run, clock)
    ended = time.time()
    ticks = clock.bars["training"]
    sampler, _ = steps_of(part.rows, part.settings)
    shapes = [shape for _ in range(int(part.settings.epochs or 1)) for shape in batch_shapes(part.rows, sampler)]
    steps = [
        Step(shape, then.time - now.time, then.busy - now.busy)
        for shape, now, then in zip(shapes, ticks, ticks[1:], strict=False)
    ]
    more = lengths_of(ready.rows).sum() / lengths_of(part.rows).sum()
    features = clock.bars.get("features", [])
    return Rehearsal(
        ticks[0].time - (features[-1].time - features[0].time if features else 0),
        steps[1:] or steps,  # the first one warms up
        float(more) * (features[-1].time - features[0].time) if features else 0.0,
        ended - ticks[-1].time,
        _testing(parts, recipe, run, clock),
        peak_gb(),
        ticks[-2].gb,
    )


def _part(ready: Ready) -> Ready:
    """A training on some batches of the whole, from the smallest to the largest, in which all that ever learns does."""
    sampler, _ = steps_of(ready.rows, ready.settings)
    batches = list(itertools.islice(sampler, ready.settings.max_steps))
    full = max(map(len, batches))
    if not ready.settings.batch_tokens:  # a shorter one would be mixed with the others when they are grouped anew
        batches = [one for one in batches if len(one) == full]
    shapes = batch_shapes(ready.rows, batches)
    order = sorted(range(len(batches)), key=lambda number: (shapes[number].tokens, shapes[number].length))
    chosen = [batches[order[place]] for place in evenly(len(order), BATCHES)]
    rows = ready.rows.select([row for batch in chosen for row in batch])
    epochs = math.ceil(STEPS / len(chosen))
    return replace(ready, rows=rows, settings=_plain(ready.settings, epochs), dev=None)


def _plain(settings: Settings, epochs: int) -> Settings:
    """The same steps, without what only matters to a whole training."""
    trainer = {k: v for k, v in settings.trainer.items() if k not in {"gradient_accumulation_steps", "report_to"}}
    return replace(
        settings,
        epochs=float(epochs),
        max_steps=None,
        min_steps=None,
        average_last_epochs=1,
        early_stopping_patience=None,
        unfreeze="all",
        trainer=trainer,
    )


def _testing(parts: Parts, recipe: Recipe, run: Path, clock: Clock) -> float:
    """Seconds to open the model and answer all rows of dev and test, by some of them."""
    began = time.time()
    rows = {name: part for name, part in parts.tables.items() if name != "train"}
    if not rows:
        return 0.0
    predictor = Predictor.load(run)
    first = next(iter(rows.values()))
    evaluate(predictor, first.select(evenly(len(first), FIRST)), progress=clock)
    total = time.time() - began
    for part in rows.values():
        sample = part.select(evenly(len(part), TESTED))
        began = time.time()
        evaluate(predictor, sample, progress=clock)
        # All documents are candidates, so some rows cost what all do.
        every = part.documents is not None and predictor.task.searches(True)
        total += (time.time() - began) * (1 if every else len(part) / len(sample))
    return total


def main() -> None:
    """Rehearse the recipe in the folder named, and write down what was seen, or what was refused."""
    folder = Path(sys.argv[1])
    found: dict[str, Any]
    try:
        found = asdict(perform(load_recipe(folder / "recipe.yaml"), folder / "work"))
    except WarmstartError as error:
        found = {"error": type(error).__name__, "message": str(error)}
    staging = folder / f"{RESULT}.part"
    staging.write_text(json.dumps(found), encoding="utf-8")
    staging.replace(folder / RESULT)


if __name__ == "__main__":
    main()
