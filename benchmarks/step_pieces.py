"""Ways to make a training step cheaper that were tried beside the ones that are in use, and what each would bring.

Each is measured against the step as `fit` makes it: cheap dropout, the last block for the first token alone. What is
compared is CPU time on one thread, by turns in one process; two threads and two processes are compared by the clock,
since they are to use both cores.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch

from common import TINY, arguments, finish, timed, write_page
from step import Step, load
from warmstart.models.layer_map import LayerMap
from warmstart.training.fast_dropout import FastDropout

LENGTHS = (32, 128, 384)
ENCODER = "minilm"
COMPILING, PROCESSES = "compile_seconds", "two processes in place of two threads"


class Trial:
    """A step as `fit` makes it, which may be changed in one thing.

    Args:
        length: Tokens of each row.
        share: Of how many parts of a batch it takes one.
    """

    def __init__(self, length: int, share: int = 1) -> None:
        self.step = Step(load(ENCODER), length, "fp32")
        self.model = self.step.model
        rows = len(self.step.batch["labels"]) // share
        self.step.batch = {name: tensor[:rows] for name, tensor in self.step.batch.items()}

    def run(self) -> None:
        """One step."""
        self.step.run(ours=True)

    def compiled(self) -> float:
        """Compile the blocks, and give the CPU seconds that the first step takes for it."""
        for block in LayerMap.of(self.model).blocks:
            assert block.module is not None
            block.module.compile()
        return timed(self.run_plainly)

    def run_plainly(self) -> None:
        """One step with PyTorch's dropout and whole blocks; ours draws its bits by NumPy, which cannot be compiled."""
        self.step.run(ours=False)

    def with_eager(self) -> None:
        """Attention as products of matrices, whose dropout has the cheap bits, too."""
        self.model.set_attn_implementation("eager")

    def with_foreach(self) -> None:
        """AdamW by whole lists of tensors in place of one kernel."""
        self.step.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, foreach=True)

    def without_embeddings(self) -> None:
        """No gradient of the embeddings: the most that sparse ones could save."""
        LayerMap.of(self.model).freeze_to(1)

    def from_cached_states(self) -> None:
        """The lower half frozen and its outputs given, as if they had been stored."""
        layers = LayerMap.of(self.model)
        half = len(layers.blocks) // 2
        layers.freeze_to(1 + half)
        self.model.base_model.encoder.layer = torch.nn.ModuleList(
            [one.module for one in layers.blocks[half:] if one.module is not None]
        )
        self.model.config.num_hidden_layers -= half

    def frozen_half(self) -> None:
        """The lower half frozen, its outputs computed in each step."""
        layers = LayerMap.of(self.model)
        layers.freeze_to(1 + len(layers.blocks) // 2)


def ratio(one: Callable[[], object], other: Callable[[], object], rounds: int) -> float:
    """How many times as long the other takes, the median over rounds."""
    ratios = []
    for number in range(rounds + 1):
        first, second = (one, other) if number % 2 else (other, one)
        times = {id(work): timed(work) for work in (first, second)}
        if number:  # the first round warms up
            ratios.append(times[id(other)] / times[id(one)])
    return round(statistics.median(ratios), 2)


def tried(length: int, rounds: int) -> dict[str, float]:
    """How many times as fast a step is with each of them, at one length."""
    ours, figures = Trial(length), {}
    compiled = Trial(length)
    figures[COMPILING] = round(compiled.compiled(), 1)
    figures["compiled blocks, which have PyTorch's dropout"] = ratio(compiled.run_plainly, ours.run, rounds)
    for name, change in (
        ("eager attention in place of ours, which works in pieces", Trial.with_eager),
        ("AdamW by lists (`foreach`) in place of one kernel (`fused`)", Trial.with_foreach),
        ("no gradient of the embeddings: more than sparse gradients could save", Trial.without_embeddings),
    ):
        other = Trial(length)
        change(other)
        figures[name] = ratio(other.run, ours.run, rounds)
    frozen, cached = Trial(length), Trial(length)
    frozen.frozen_half()
    cached.from_cached_states()
    figures["lower half frozen, its outputs stored, beside computed"] = ratio(cached.run, frozen.run, rounds)
    figures["rows laid end to end with a mask, beside padded ones (2% padding)"] = _end_to_end(ours, length, rounds)
    return figures


def _end_to_end(ours: Trial, length: int, rounds: int) -> float:
    """One attention over all rows, each of which sees itself alone, beside attention row by row."""
    heads = ours.model.config.num_attention_heads
    width = ours.model.config.hidden_size // heads
    count = len(ours.step.batch["labels"])
    padded = torch.randn(3, count, heads, round(1.02 * length), width, requires_grad=True)
    joined = torch.randn(3, 1, heads, count * length, width, requires_grad=True)
    numbers = torch.arange(count).repeat_interleave(length)
    mask = (numbers[:, None] == numbers[None, :])[None, None]

    def attend(states: torch.Tensor, mask: torch.Tensor | None) -> None:
        attention = torch.nn.functional.scaled_dot_product_attention
        with FastDropout():
            output = attention(*states.unbind(), attn_mask=mask, dropout_p=0.1)
        torch.autograd.backward(output.sum())

    return ratio(lambda: attend(joined, mask), lambda: attend(padded, None), rounds)


def two_processes(length: int, steps: int) -> float:
    """How many times as fast two processes with half the rows each are as two threads with all, by the clock.

    Their exchange of gradients, which would come on top, is left out.
    """
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        threads = pool.submit(clocked, 2, length, 1, steps).result()
        processes = [pool.submit(clocked, 1, length, 2, steps) for _ in range(2)]
        return round(threads / max(one.result() for one in processes), 2)


def clocked(threads: int, length: int, share: int, steps: int) -> float:
    """Seconds of so many steps on a share of the rows, the first one left out."""
    torch.set_num_threads(threads)
    trial = Trial(length, share)
    trial.run()
    start = time.perf_counter()
    for _ in range(steps):
        trial.run()
    return time.perf_counter() - start


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 7, "rounds of each comparison")
    torch.set_num_threads(1)
    figures: dict[str, Any] = {}
    for length in LENGTHS[:1] if TINY else LENGTHS:
        figures[str(length)] = tried(length, args.n)
        figures[str(length)][PROCESSES] = two_processes(length, args.n)
        print(length, figures[str(length)], flush=True)
    if args.write:
        write_page(
            "step-pieces", "What else was tried to make a step cheaper", "make bench-step-pieces", _page(figures)
        )
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    names = [name for name in next(iter(figures.values())) if name != COMPILING]
    lines = [f"| {name} | " + " | ".join(f"{one[name]:.2f} ×" for one in figures.values()) + " |" for name in names]
    seconds = ", ".join(f"{one[COMPILING]:.0f}" for one in figures.values())
    return f"""
Of what was tried, one thing pays, and is in use where layers are frozen: to store what the frozen lower half gives
([how much it saves](train.md#a-frozen-lower-half)). Nothing else here is worth what it asks for, in fp32 here.

How many times as fast a step of MiniLM is (at most 32 rows and 2,048 tokens, with [cheap
dropout](step.md) and the last block for the first token alone):

| tried | {" | ".join(f"{length} tokens" for length in figures)} |
| --- |{" ---: |" * len(figures)}
{chr(10).join(lines)}

- **Compiled blocks** (`torch.compile`, inductor) take {seconds} CPU seconds to compile, for one length each; a training
  has many.
- **Eager attention** computes the weights of all rows at once; ours a few rows at a time, which stay in the processor's
  caches, so its gain grows with the length.
- **Rows laid end to end** give attention one sequence as long as all of them, most of which its mask rules out. The
  linear layers see all tokens as one matrix anyway, and batches by length have 2% padding.
- **Stored outputs of a frozen half** save what `layers.freeze` leaves of the lower half. Its dropout is off, and each
  token of a row takes 1.5 KB on disk.
- **Two processes**, each with half the rows, are compared with two threads by the clock, before they exchange
  gradients, on a machine that does nothing else: beside other work, two threads wait for each other.
"""


if __name__ == "__main__":
    main()
