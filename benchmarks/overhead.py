"""Training time of warmstart's one training path, as a ratio to a bare PyTorch loop over the very same batches.

The model has the size of MiniLM (6 blocks, 384 wide) with random weights: time does not depend on their values.
Both sides train by turns in one process, so that both meet the same noise.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from common import arguments, finish, write_page
from warmstart.data.arrow_files import write_arrow
from warmstart.models.precision import resolve_precision
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.training.job import TrainingJob
from warmstart.training.settings import Settings
from warmstart.training.train import train

ROUNDS = int(os.environ.get("WARMSTART_BENCH_ROUNDS", "5"))
BATCH = 32


class Padder:
    """The one thing of a tokenizer that collating needs."""

    def pad(self, plain: dict[str, list[list[int]]]) -> dict[str, list[list[int]]]:
        longest = max(map(len, plain["input_ids"]))
        ids = [row + [0] * (longest - len(row)) for row in plain["input_ids"]]
        return {"input_ids": ids, "attention_mask": [[int(one != 0) for one in row] for row in ids]}


class Recorder:
    """Rows that note in which batches they were asked for."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.batches: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(self.rows[index])

    def __getitems__(self, indices: list[int]) -> list[dict[str, Any]]:
        self.batches.append(list(indices))
        return list(self.rows.__getitems__(indices))


def build_model() -> Any:
    """A model of MiniLM's size."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, num_labels=2
    )
    return transformers.BertForSequenceClassification(config)


def bare(
    model: Any, task: Classify, rows: Any, batches: list[list[int]], settings: Settings, tokenizer: Any = None
) -> float:
    """The loop one would write by hand: the same optimizer, schedule, clipping and precision."""
    decayed = [p for n, p in model.named_parameters() if p.ndim > 1]
    others = [p for n, p in model.named_parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
    warmup = int(settings.warmup * len(batches))
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, len(batches))
    half = resolve_precision(settings.precision) == "bf16"
    model.train()
    started = time.perf_counter()
    for indices in batches:
        batch = task.collate(rows.__getitems__(indices), tokenizer or Padder())
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return time.perf_counter() - started


def main() -> None:
    """Measure and report."""
    args = arguments(__doc__ or "", 40, "optimizer steps a round")
    task = Classify.from_answers(ClassifyOptions(), ["no", "yes"], pair=False)
    draw = random.Random(0)
    columns = {
        "input_ids": [[draw.randrange(1, 30000) for _ in range(draw.randint(8, 64))] for _ in range(4096)],
        "labels": [draw.randrange(2) for _ in range(4096)],
        "row": list(range(4096)),
    }
    settings = Settings(max_steps=args.n, batch_size=BATCH, batching="random")
    ours, loops = [], []
    with tempfile.TemporaryDirectory() as folder:
        rows = write_arrow([columns], Path(folder) / "rows.arrow")
        for number in range(ROUNDS + 1):
            recorder = Recorder(rows)
            job = TrainingJob(build_model(), task, Padder(), recorder, settings)
            took = train(job, Path(folder) / "trainer").seconds
            loop = bare(build_model(), task, rows, recorder.batches[: args.n], settings)
            if number:  # the first round warms caches and allocators up
                ours.append(took)
                loops.append(loop)
    ratios = [a / b for a, b in zip(ours, loops, strict=True)]
    figures = {"ratio": round(statistics.median(ratios), 3), "ratios": [round(r, 3) for r in sorted(ratios)]}
    figures |= {"steps": args.n, "rounds": ROUNDS}
    if args.write:
        write_page("overhead", "Overhead of training", "make bench-overhead", _page(figures))
    finish(figures)


def _page(figures: dict[str, Any]) -> str:
    return (
        f"Training {figures['steps']} steps of {BATCH} rows (8 to 64 tokens) with a model of MiniLM's size takes "
        f"**{figures['ratio']}** times as long as a bare PyTorch loop over the same batches, with the same "
        "optimizer, schedule, clipping and precision: the median of "
        f"{figures['rounds']} rounds ({', '.join(map(str, figures['ratios']))}), in which both alternate in one "
        "process.\n\nThe target is at most 1.05."
    )


if __name__ == "__main__":
    main()
