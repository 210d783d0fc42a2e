"""Which dropout a training takes: a short trial on this machine, with the sizes of the run's own batches.

The choice is written beside the checkpoints before the first step, so that a training that is resumed draws as before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional as F

from warmstart.errors import RunError
from warmstart.models.architectures import encoder_config
from warmstart.runtime import processes
from warmstart.storage.files import write_json
from warmstart.storage.folders import make_folder
from warmstart.storage.json_files import read_object
from warmstart.training.batches import Rows, row_lengths
from warmstart.training.fast_dropout import FastDropout
from warmstart.training.job import TrainingJob
from warmstart.training.task_sampling import MultiTaskRows

Kernel = Literal["torch", "fast"]
FILE = "dropout.json"
FASTER = 0.9
"""The fast one is taken if it needs at most this share of PyTorch's time."""
MIN_ELEMENTS = 10**8
"""Below it, a whole training spends about a second on dropout: not worth a trial."""
TRIAL_ELEMENTS = 1 << 22
"""Attention weights in the trial."""
LOOKED = 64
"""Rows whose tokens are counted."""
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads")


def dropout_kernel(job: TrainingJob, steps: int, folder: Path | None = None) -> Kernel:
    """The kernel to train with; `auto` is decided by a trial.

    Args:
        steps: How many the training has.
        folder: Where the choice is stored for a training that is resumed.
    """
    if job.settings.dropout_kernel in ("torch", "fast"):
        return "fast" if job.settings.dropout_kernel == "fast" else "torch"
    sizes = _trial_sizes(job, steps)
    if sizes is None:
        return "torch"
    with processes.main_process_first():
        kernel = _stored(folder)
        if kernel is None:
            kernel = _faster(*sizes)
            if folder is not None and processes.is_main_process():
                make_folder(folder)
                write_json(folder / FILE, {"kernel": kernel})
    return kernel


def _stored(folder: Path | None) -> Kernel | None:
    if folder is None or not (folder / FILE).is_file():
        return None
    return "fast" if read_object(folder / FILE, RunError).get("kernel") == "fast" else "torch"


def _trial_sizes(job: TrainingJob, steps: int) -> tuple[int, int, int, int] | None:
    """Rows, tokens, hidden size and heads to try; None where a trial is not worth it."""
    model, rows = job.model, job.settings.batch_size
    config: Any = encoder_config(getattr(model, "config", None))
    layers, hidden, heads = (getattr(config, name, 0) for name in SIZES)
    on_processor = next(model.parameters()).device.type == "cpu"
    drops = any(isinstance(module, nn.Dropout) and module.p for module in model.modules())
    if not (on_processor and drops and heads):  # a recurrent model has no heads
        return None
    length = _typical_length(job.rows)
    if steps * layers * rows * length * (2 * hidden + heads * length) < MIN_ELEMENTS:
        return None
    return max(min(rows, TRIAL_ELEMENTS // (heads * length * length)), 1), length, hidden, heads


def _faster(rows: int, length: int, hidden: int, heads: int) -> Kernel:
    # The training's own random numbers stay as they are.
    with torch.random.fork_rng(devices=[]):
        step = _dropouts_of_a_block(rows, length, hidden, heads)
        plain, fast = _seconds(step, nullcontext()), _seconds(step, FastDropout())
    return "fast" if fast <= FASTER * plain else "torch"


def _typical_length(rows: Rows | MultiTaskRows) -> int:
    """The mean tokens of the first rows; 0 where rows are not tokens, as those of a frozen encoder."""
    first = [rows[number] for number in range(min(len(rows), LOOKED))]
    if not first or "input_ids" not in first[0]:
        return 0
    return int(row_lengths(first).mean())


def _dropouts_of_a_block(rows: int, length: int, hidden: int, heads: int) -> Callable[[], None]:
    """A function that computes the dropouts of one block, forward and backward."""
    states = torch.randn(rows, length, hidden, requires_grad=True)
    shape = (rows, heads, length, hidden // heads)
    query, key, value = (torch.randn(shape, requires_grad=True) for _ in range(3))

    def step() -> None:
        for _ in range(2):
            torch.autograd.backward(F.dropout(states, 0.1).sum())
        torch.autograd.backward(F.scaled_dot_product_attention(query, key, value, dropout_p=0.1).sum())

    return step


def _seconds(step: Callable[[], None], mode: Any) -> float:
    """The least CPU time of three steps."""
    times = []
    with mode:
        for _ in range(3):
            start = time.process_time()
            step()
            times.append(time.process_time() - start)
    return min(times)
