"""An encoder that is held still gives the same features in every epoch: computed once, kept on disk for the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from warmstart.data import table
from warmstart.errors import RecipeError
from warmstart.inference.batching import alike
from warmstart.models.precision import Precision, resolve
from warmstart.runtime import processes
from warmstart.runtime.progress import Progress
from warmstart.tasks.base import Task
from warmstart.tasks.shared.text_inputs import count_slices
from warmstart.text.windows import Window

ANSWERS = ("labels", "start_positions", "end_positions")
ROWS = {"vectors": 1024, "states": 128}
"""Rows read ahead, so that those of like length can share a batch; of tokens' states fewer fit into memory."""


def check_slices(model: Any, task: Task[Any], window: Window) -> None:
    """Refuse a head that learns from more of a text in slices than the one vector that is kept of it."""
    if task.own_windows:  # each window is a row of its own
        return
    if window.method == "slices" and (model.keeps == "states" or model.slice_pooling.attention is not None):
        raise RecipeError(
            "layers.freeze: encoder keeps one vector of a text in slices, and a bilstm or attention learns from more; "
            "choose another head.type, head.pooling or window.slice_pooling, or window.method: head"
        )


def keep_features(
    model: Any, rows: Any, task: Task[Any], tokenizer: Any, precision: str, path: Path, progress: Progress
) -> Any:
    """The encoded rows with what the encoder gives for each, memory-mapped from `path`; the main process writes them.

    Args:
        model: A model of our own (`encoders.pooled`); its dropout is off meanwhile.
        rows: A `datasets.Dataset` of the task's features.
    """
    what = model.keeps
    if processes.is_main():
        learning = model.training
        model.eval().to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
        _write(model, rows, task, tokenizer, resolve(precision, model.config), path, progress)
        model.train(learning)
    kept = table.open_written(path)
    # As arrays, not as lists of Python's numbers: a text has thousands.
    return kept.with_format("numpy", columns=[what], output_all_columns=True)


def _write(
    model: Any, rows: Any, task: Task[Any], tokenizer: Any, precision: Precision, path: Path, progress: Progress
) -> None:
    what = model.keeps
    kind = pa.large_list(pa.float32())
    schema = rows.features.arrow_schema.remove_metadata().append(pa.field(what, kind))

    def batches() -> Iterator[dict[str, Any]]:
        with progress.bar("features", len(rows)) as bar:
            for chunk in rows.with_format("arrow").iter(batch_size=ROWS[what]):
                columns = {name: chunk.column(name).combine_chunks() for name in chunk.column_names}
                plain = {name: column.to_pylist() for name, column in columns.items()}
                features = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
                found: list[Any] = [None] * len(features)
                for chosen in alike(features):
                    some = _features(model, [features[index] for index in chosen], task, tokenizer, precision)
                    for index, array in zip(chosen, some, strict=True):
                        found[index] = array
                    bar.advance(len(chosen))
                yield {**columns, what: _column(found)}

    table.write(batches(), path, schema)


@torch.inference_mode()
def _features(
    model: Any, features: Sequence[Mapping[str, Any]], task: Task[Any], tokenizer: Any, precision: Precision
) -> list[npt.NDArray[np.float32]]:
    """A flat array for each row: its vector, those of its texts, or the states of their tokens, one after the other."""
    inputs = task.collate(list(map(dict, features)), tokenizer)
    inputs = {name: tensor.to(model.device) for name, tensor in inputs.items() if name not in ANSWERS}
    kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    with torch.autocast(model.device.type, dtype=kind, enabled=precision != "fp32"):
        found = model.features(**inputs).float().cpu()
    arrays = list(found)
    if model.keeps == "states":
        real = inputs["attention_mask"].bool().cpu().reshape(len(found), -1)
        arrays = [states[mask] for states, mask in zip(found, real, strict=True)]
    # A text in slices has become one already; texts beside one another have not.
    counts = [1 if len(found) == len(features) else count_slices(feature) or 1 for feature in features]
    texts = iter(arrays)
    return [torch.cat([next(texts).reshape(-1) for _ in range(count)]).numpy() for count in counts]


def _column(arrays: list[npt.NDArray[np.float32]]) -> Any:
    ends = np.cumsum([0, *map(len, arrays)])
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), pa.array(np.concatenate(arrays)))
