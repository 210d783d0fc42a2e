"""A trial run: training on some of a recipe's own batches, saving and evaluating, in a process of its own, timed.

It uses the code of a real run on fewer rows: short, medium and long batches, the largest among them, so that memory is
what it will be. It runs in a new process, since memory once taken is not always returned.
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
from typing import NamedTuple

import numpy as np

from warmstart import errors
from warmstart.errors import TrainingError, WarmstartError
from warmstart.evaluation.evaluate import evaluate
from warmstart.inference.predictor import Predictor
from warmstart.inference.search import searches_documents
from warmstart.options import Values
from warmstart.pipeline.baselines_on_test import some_test_rows
from warmstart.pipeline.finetune import PreparedTraining, finetune, prepare_training
from warmstart.pipeline.frozen_layers import BAR
from warmstart.pipeline.prepare import Parts, read_rows
from warmstart.plan.cost_curve import BatchShape, batch_shapes, evenly_spaced
from warmstart.plan.stopwatch import Clock, peak_gb
from warmstart.recipe import Recipe, absolute, load_recipe
from warmstart.runtime.progress import Progress
from warmstart.storage.cache import cache_folder
from warmstart.storage.files import write_text
from warmstart.training.batches import row_lengths
from warmstart.training.checkpoints import CheckpointPolicy, CheckpointStore
from warmstart.training.dropout_trial import dropout_kernel
from warmstart.training.job import TrainingJob
from warmstart.training.settings import Settings
from warmstart.training.steps import count_steps
from warmstart.training.streams import StreamRows, as_stream

BATCHES, STEPS = 8, 16
"""Batches to train on, and the fewest steps on them."""
WARM_UP, EVALUATED = 16, 128
"""Rows to evaluate: some for warming up, and some that are timed."""
RESULT = "trial_run.json"


class TimedStep(NamedTuple):
    """A timed step."""

    shape: BatchShape
    seconds: float
    cpu_seconds: float
    """Processor time, which other work on the machine hardly changes."""


@dataclass(frozen=True)
class TrialRun:
    """What was measured; times of evaluation, features and saving are already those of the whole run."""

    startup: float
    """Seconds until the first step."""
    steps: list[TimedStep]
    features: float
    """Seconds to compute the features of a frozen encoder, or of frozen layers; 0 where all of it is trained."""
    saving: float
    evaluation: float
    peak_gb: float
    """Peak memory: of the accelerator where there is one, else of the process."""
    resting_gb: float
    """Memory between two steps."""


def trial_run(recipe: Recipe, folder: Path, progress: Progress) -> TrialRun:
    """Run a trial of a recipe in a process of its own.

    Args:
        folder: For files that are not needed afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "recipe.yaml", absolute(recipe).yaml())
    progress.log("measuring some steps in a new process")
    began = time.time()
    command = [sys.executable, "-m", "warmstart.plan.trial_run", str(folder)]
    # The code of this process, wherever it was imported from.
    paths = [str(Path(errors.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    if not (folder / RESULT).is_file():
        raise TrainingError(
            f"the trial run failed with exit code {done.returncode}: {done.stderr.strip()[-600:] or 'no message'}"
        )
    result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    if "error" in result:
        raise getattr(errors, result["error"])(result["message"])
    steps = [TimedStep(BatchShape(*shape), seconds, busy) for shape, seconds, busy in result.pop("steps")]
    return TrialRun(**{**result, "startup": result["startup"] - began}, steps=steps)


def run_trial(recipe: Recipe, folder: Path) -> TrialRun:
    """Run a trial of a recipe in this process; `startup` is then a time of day."""
    clock = Clock()
    folder.mkdir()
    parts = read_rows(recipe, cache_folder(), clock)
    ready = prepare_training(recipe, parts, folder, clock)
    part = _part(ready)
    run = folder / "run"
    run.mkdir()
    finetune(part, CheckpointPolicy(CheckpointStore(folder / "checkpoints"), None, None), run, clock)
    ended = time.time()
    ticks = clock.bars["training"]
    read = as_stream(part.task, part.rows)
    sampler, _ = count_steps(read, part.settings)
    per_text = part.settings.slices_per_text
    shapes = [shape for _ in range(int(part.settings.epochs or 1)) for shape in batch_shapes(read, sampler, per_text)]
    steps = [
        TimedStep(shape, then.time - now.time, then.cpu_seconds - now.cpu_seconds)
        for shape, now, then in zip(shapes, ticks, ticks[1:], strict=False)
    ]
    more = row_lengths(ready.rows).sum() / row_lengths(part.rows).sum()
    features = sum(bar[-1].time - bar[0].time for name in ("features", BAR) if (bar := clock.bars.get(name)))
    return TrialRun(
        ticks[0].time - features,
        steps[1:] or steps,  # the first one warms up
        float(more) * features,
        ended - ticks[-1].time,
        _evaluation_seconds(parts, run, clock, ready.probe_answers_test),
        peak_gb(),
        ticks[-2].memory_gb,
    )


def _part(ready: PreparedTraining) -> PreparedTraining:
    """A training on some of the batches, from the smallest to the largest, with all layers unfrozen that ever are."""
    if isinstance(stream := as_stream(ready.task, ready.rows), StreamRows):
        # As many documents as these batches take; pieces are all alike.
        enough = ready.settings.batch_size * stream.bptt * BATCHES
        count = int(np.searchsorted(stream.lengths.cumsum(), enough)) + 1
        settings = _plain(ready.settings, math.ceil(STEPS / BATCHES), "torch")
        return replace(
            ready, rows=ready.rows.select(range(min(count, len(stream)))), settings=settings, dev=None, test=None
        )
    sampler, steps = count_steps(ready.rows, ready.settings)
    whole = TrainingJob(ready.loaded.model, ready.task, ready.tokenizer, ready.rows, ready.settings)
    kernel = dropout_kernel(whole, steps)
    batches = list(itertools.islice(sampler, ready.settings.max_steps))
    full = max(map(len, batches))
    if not ready.settings.batch_tokens:  # rows of a smaller batch would be regrouped with the others
        batches = [batch for batch in batches if len(batch) == full]
    shapes = batch_shapes(ready.rows, batches, ready.settings.slices_per_text)
    order = sorted(range(len(batches)), key=lambda number: (shapes[number].tokens, shapes[number].length))
    chosen = [batches[order[index]] for index in evenly_spaced(len(order), BATCHES)]
    rows = ready.rows.select([row for batch in chosen for row in batch])
    epochs = math.ceil(STEPS / len(chosen))
    return replace(ready, rows=rows, settings=_plain(ready.settings, epochs, kernel), dev=None, test=None)


def _plain(settings: Settings, epochs: int, dropout_kernel: str) -> Settings:
    """The same steps, without what only matters to a whole training."""
    trainer = {k: v for k, v in settings.trainer.items() if k not in {"gradient_accumulation_steps", "report_to"}}
    return replace(
        settings,
        epochs=float(epochs),
        max_steps=None,
        min_steps=None,
        average_last_epochs=1,
        early_stopping_patience=None,
        optimizer="adamw",
        unfreeze="all",
        fsdp=False,
        dropout_kernel=dropout_kernel,
        trainer=trainer,
    )


def _evaluation_seconds(parts: Parts, run: Path, clock: Clock, probed: bool) -> float:
    """Seconds to load the model and evaluate it on all dev and test rows, extrapolated from some of them."""
    began = time.time()
    rows = {name: part for name, part in parts.tables.items() if name != "train"}
    if not rows:
        return 0.0
    predictor = Predictor.load(run)
    first = next(iter(rows.values()))
    evaluate(predictor, first.select(evenly_spaced(len(first), WARM_UP)), progress=clock)
    total = time.time() - began
    for name, part in rows.items():
        sample = part.select(evenly_spaced(len(part), EVALUATED))
        began = time.time()
        evaluate(predictor, sample, progress=clock)
        # All documents are candidates, so some queries cost what all do.
        every = part.documents is not None and searches_documents(predictor.task, True)
        count = len(part) + (len(some_test_rows(part)) if probed and name == "test" else 0)
        total += (time.time() - began) * (1 if every else count / len(sample))
    return total


def main() -> None:
    """Run a trial of the recipe in the folder, and write what was measured, or the error."""
    folder = Path(sys.argv[1])
    result: Values
    try:
        result = asdict(run_trial(load_recipe(folder / "recipe.yaml"), folder / "work"))
    except WarmstartError as error:
        result = {"error": type(error).__name__, "message": str(error)}
    write_text(folder / RESULT, json.dumps(result))


if __name__ == "__main__":
    main()
