"""The order of examples after a resume is the order without one, for every epoch, offset and order, 0 and 2 workers.

A tiny training notes the rows of each batch. It is stopped after each of its steps in turn and resumed; the rows
before and after must together be those of the training left alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from common import ROOT, arguments, finish, write_page

sys.path.insert(0, str(ROOT / "tests"))

from tiny import tiny_model, tiny_tokenizer
from warmstart.data.arrow_files import write_arrow
from warmstart.tasks.classify import Classify, ClassifyOptions
from warmstart.text.windows import Window
from warmstart.training import trainer as training
from warmstart.training.checkpoints import CheckpointPolicy, CheckpointStore
from warmstart.training.job import TrainingJob
from warmstart.training.settings import Settings
from warmstart.training.train import train

ROWS, BATCH, EPOCHS = 37, 4, 3  # the last batch of an epoch is a short one
ORDERS: dict[str, dict[str, Any]] = {
    "random": {"batching": "random"},
    "by-length": {"batching": "by-length"},
    "tokens": {"batching": "by-length", "batch_tokens": 36},
}


class Stop(Exception):
    """Stands for a kill."""


class Watcher:
    """Progress that stops a training after a step."""

    def __init__(self, step: int | None) -> None:
        self.step, self.done = step, 0

    def bar(self, name: str, total: float | None) -> Any:
        return self

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def log(self, text: str) -> None:
        pass

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += int(amount)
        if self.done == self.step and amount == 1:
            raise Stop


@contextlib.contextmanager
def noting(noted: list[list[int]]) -> Iterator[None]:
    """Note the rows of each batch that is trained on."""
    step_of = training.WarmstartTrainer.training_step

    def note(self: Any, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        noted.append(inputs["row"].tolist())
        return step_of(self, model, inputs, num_items_in_batch)

    training.WarmstartTrainer.training_step = note  # type: ignore[method-assign]
    try:
        yield
    finally:
        training.WarmstartTrainer.training_step = step_of  # type: ignore[method-assign]


def main() -> None:
    """Prove and report."""
    args = arguments(__doc__ or "", 200, "cases")
    torch.set_num_threads(1)
    task = Classify.from_answers(ClassifyOptions(), ["a", "b"], pair=False)
    texts = {
        "text": [f"the film {n}" + " good" * (n % 5) for n in range(ROWS)],
        "label": ["ab"[n % 2] for n in range(ROWS)],
    }
    features = task.encode(texts, tiny_tokenizer(), Window(16))
    columns = {name: [one[name] for one in features] for name in ("input_ids", "token_type_ids", "labels")}
    equal = 0
    with tempfile.TemporaryDirectory() as name:
        rows = write_arrow([{**columns, "row": list(range(ROWS))}], Path(name) / "rows.arrow")

        def seen(folder: Path, stop: int | None, workers: int, order: str) -> list[list[int]]:
            """The rows of each batch, in order; the training may be stopped after a step."""
            noted: list[list[int]] = []
            with noting(noted), contextlib.suppress(Stop):
                loader = {"dataloader_num_workers": workers}
                settings = Settings(batch_size=BATCH, epochs=EPOCHS, precision="fp32", trainer=loader, **ORDERS[order])
                policy = CheckpointPolicy(CheckpointStore(folder), every_steps=1, every_minutes=None)
                model, watcher = tiny_model("bert", "sequence", 2), Watcher(stop)
                train(TrainingJob(model, task, tiny_tokenizer(), rows, settings), folder / "own", watcher, policy)
            return noted

        def resumed(folder: Path, stop: int, workers: int, order: str) -> list[list[int]]:
            """The same, stopped after a step, which is not saved, and gone on with."""
            return seen(folder, stop, workers, order)[: stop - 1] + seen(folder, None, workers, order)

        ways = [(workers, order) for workers in (0, 2) for order in ORDERS]
        alone = {way: seen(Path(name) / f"alone-{way[1]}-{way[0]}", None, *way) for way in ways}
        most = max(map(len, alone.values()))
        cases = [(step, *way) for step in range(1, most) for way in ways if step < len(alone[way])][: args.n]
        for step, *way in cases:
            equal += resumed(Path(name) / f"case-{step}-{way}", step, *way) == alone[tuple(way)]
    figures = {"cases": len(cases), "equal": equal}
    figures["workers_agree"] = all(alone[0, order] == alone[2, order] for order in ORDERS)
    figures["every_row_once_an_epoch"] = all(map(_every_row_once, alone.values()))
    if args.write:
        write_page("order", "Order of rows after a resume", "make proof-order", _page(figures))
    finish(figures)


def _every_row_once(batches: list[list[int]]) -> bool:
    """Whether each epoch of a training holds every row once."""
    epoch = len(batches) // EPOCHS
    parts = [batches[start : start + epoch] for start in range(0, len(batches), epoch)]
    return all(sorted(row for batch in part for row in batch) == list(range(ROWS)) for part in parts)


def _page(figures: dict[str, Any]) -> str:
    return (
        f"**{figures['equal']} of {figures['cases']}** resumed runs saw the same rows, batch by batch, as an "
        f"uninterrupted run: {EPOCHS} epochs of {ROWS} rows in batches of {BATCH}, stopped after each step in turn, "
        "with 0 and with 2 data loader workers, with random batches, length-grouped batches, and a token budget per "
        "batch."
    )


if __name__ == "__main__":
    main()
