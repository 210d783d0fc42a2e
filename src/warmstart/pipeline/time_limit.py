"""A training within a time limit: as many steps as fit, so that the learning rate still ends where it should.

The time of a step is measured once, before training, and what follows from it is published: a run that resumes takes
the same steps.
"""

from __future__ import annotations

import itertools
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from warmstart.evaluation.records import time_limit as record_file
from warmstart.evaluation.records.files import read_record, write_record
from warmstart.evaluation.records.time_limit import TimeLimitRecord
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.storage.artifacts import publish, verify
from warmstart.tasks.shared.teacher_vectors import TEACHER_VECTOR
from warmstart.training.given_states import given_states
from warmstart.training.job import TrainingJob
from warmstart.training.steps import count_steps
from warmstart.training.trainer import collate

if TYPE_CHECKING:
    from warmstart.training.batches import Rows

FOLDER = "time-limit"
TIMED = 4
"""Batches whose forward and backward pass is timed; the first, which warms up, is not counted."""
BESIDES = 1.25
"""What a step costs beside that: the optimizer, loading, logging."""
RESERVE = 0.1
"""The share of the limit that is left for what comes after training."""
FEWEST = 10
"""Steps below which nothing is trained where there is a linear probe to keep."""


def limit_steps(
    job: TrainingJob, limit: float, spent: float, has_probe: bool, folder: Path, progress: Progress
) -> TimeLimitRecord:
    """How many steps to train for: as published in the run's folder, or by timing some now.

    Args:
        limit: Seconds for all, of which `spent` are gone.
        has_probe: Whether there is a linear probe to keep where time is too short.
    """
    target = folder / FOLDER
    with processes.main_process_first():
        if processes.is_main_process() and not target.exists():
            _, planned = count_steps(job.rows, job.settings)
            seconds = seconds_per_step(job)
            steps = min(planned, int((limit * (1 - RESERVE) - spent) / seconds))
            steps = 0 if has_probe and steps < min(FEWEST, planned) else max(steps, 1)
            record = TimeLimitRecord(limit, round(spent, 3), round(seconds, 4), steps, planned)
            progress.log(record.sentence)
            with publish(target) as staging:
                write_record(record, staging / record_file.FILE)
    verify(target)
    return read_record(TimeLimitRecord, target / record_file.FILE)


def seconds_per_step(job: TrainingJob) -> float:
    """The time of an optimizer step, measured on some batches; weights and random numbers stay as they are."""
    model, state = job.model, torch.get_rng_state()
    training = model.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.train().to(device)
    sampler, _ = count_steps(job.rows, job.settings)
    rows: Rows = job.rows
    times = []
    for batch in itertools.islice(sampler, TIMED):
        inputs = collate(job, 1, [{**rows[index], "epoch": 0} for index in batch])
        # Labels of a loss of our own are not the model's: another one may be summed up in as much time.
        for name in ("row", TEACHER_VECTOR, *(("labels",) if job.task.loss() else ())):
            inputs.pop(name, None)
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        began = time.perf_counter()
        with given_states(job.lower_blocks, inputs):
            outputs = model(**inputs)
        next(iter(outputs.values())).sum().backward()
        times.append(time.perf_counter() - began)
    model.zero_grad(set_to_none=True)
    model.train(training)
    torch.set_rng_state(state)
    return statistics.median(times[1:] or times) * BESIDES
