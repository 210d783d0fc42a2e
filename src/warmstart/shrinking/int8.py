"""A smaller model quantized to int8, written only if it passes the gate that the smaller model has passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from warmstart.data.schema import Row
from warmstart.errors import RunError
from warmstart.experiments.export_run import export
from warmstart.inference.predictor import Predictor
from warmstart.runtime.progress import Progress
from warmstart.shrinking.gate import Gate, judge
from warmstart.storage.artifacts import publish, verify
from warmstart.storage.files import link_or_copy
from warmstart.storage.folders import discard

NO_LIMIT = 1000.0
"""Points that the export may lose by its own check: the gate decides."""


def check_free(out: Path) -> None:
    """Refuse a folder that is there already, before anything is trained."""
    if out.exists():
        raise RunError(f"--int8 {out}: already exists; remove it or choose another folder")


def write_int8(
    model: Path, out: Path, rows: Sequence[Row], original: Sequence[float], min_ratio: float, progress: Progress
) -> Gate:
    """Export a model folder to ONNX with int8 weights, and write it if its scores pass the gate.

    Args:
        out: The folder of the export; not written if the gate is not passed.
        rows: The rows to compare on.
        original: What the unshrunk model, with PyTorch in fp32, scores on each of them.
    """
    work = out.with_name(f".{out.name}.quantizing")
    discard(work)  # of a process that was killed
    export(model, work, int8=True, max_drop=NO_LIMIT, rows=rows, progress=progress)
    gate = judge(original, _scores(Predictor.load(work, "int8", "onnx"), rows), min_ratio)
    if gate.passed:
        with publish(out, {"gate": asdict(gate)}) as staging:
            for name in verify(work)["files"]:
                link_or_copy(work / name, staging / name)
    discard(work)
    return gate


def _scores(predictor: Predictor, rows: Sequence[Row]) -> list[float]:
    """How good the answer to each row is, as the task scores rows."""
    task = predictor.task
    answers = list(predictor.answer(predictor.encode(rows)))
    columns = {key: [row[key] for row in rows] for key in task.metric_columns if key in rows[0]}
    return [float(score) for score in type(task).row_scores(task.options, columns, answers)]
