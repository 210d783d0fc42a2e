"""The files of an export: the graph, and everything else a predictor reads, so that the folder stands alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warmstart.deploy.export.compare_answers import check_lengths
from warmstart.deploy.export.graph import write_graph
from warmstart.inference.batching import count_tokens
from warmstart.inference.engines.onnx import OnnxEngine
from warmstart.inference.ensembles import members_of
from warmstart.inference.exported_graph import FILES
from warmstart.inference.predictor import Predictor
from warmstart.models.security.folder import SETTINGS, TEMPLATES, VOCABULARIES
from warmstart.storage.artifacts import verify
from warmstart.storage.files import move_file
from warmstart.tasks.shared.protocols import HasTensors
from warmstart.tasks.shared.saved_task import FILE

NEEDED = {"config.json", "tokenizer.json", "tokenizer_config.json", *SETTINGS, *VOCABULARIES}
"""The files of a model folder that make a config and a tokenizer."""
MAX_CHECKED = 2048
"""The most tokens of a text that a graph is checked with: a recurrent model takes texts without end."""
SAMPLE = 4
"""Rows that a model is traced with."""


def write_export(predictor: Predictor, folder: Path, rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write an export of a model folder into an empty folder.

    Args:
        predictor: The predictor of that folder, with PyTorch.
        rows: Rows to trace the model with, in the form that it reads.
    """
    first = (members_of(folder, verify(folder)) or [folder])[0]
    inputs = sample(predictor, rows)
    with tempfile.TemporaryDirectory(dir=out) as place:
        path = Path(place) / FILES["fp32"]
        write_graph(predictor.engine.model, inputs, path)  # type: ignore[attr-defined]
        move_file(path, out / FILES["fp32"])
    check_lengths(predictor.engine, OnnxEngine(out), inputs, min(predictor.window.max_tokens, MAX_CHECKED))
    shutil.copyfile(folder / FILE, out / FILE)
    for path in sorted(first.iterdir()):
        if path.name in NEEDED or path.suffix in TEMPLATES:
            shutil.copyfile(path, out / path.name)
    if isinstance(predictor.task, HasTensors):
        predictor.task.save_tensors(out)


def sample(predictor: Predictor, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A batch of a few texts of different lengths, so that the trace is not specific to one length."""
    encoded = predictor.with_engine(predictor.engine).encode(rows)
    features = sorted((feature for _, own in encoded for feature in own), key=count_tokens)
    chosen = [features[place * (len(features) - 1) // (SAMPLE - 1)] for place in range(SAMPLE)]
    return predictor.collate(chosen)
