"""onnx: an exported model in ONNX Runtime, in fp32 or int8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.inference.engines.base import ModelSource
from warmstart.inference.exported_graph import FILES, GraphEngine, check_graph
from warmstart.inference.exported_model import run_of


class OnnxEngine(GraphEngine):
    """A graph in ONNX Runtime, on the CPU, with as many threads as PyTorch has.

    Args:
        folder: An export.
        precision: `fp32` or `int8`.
    """

    name = "onnx"
    precisions = ("fp32", "int8")
    packages = ("onnx", "onnxruntime")

    def __init__(self, folder: Path, precision: str = "fp32") -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtraError("ONNX Runtime is not installed: pip install 'warmstart[onnx]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        path = folder / FILES[precision]
        self.inputs, self.outputs = check_graph(path)
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors share no class
            raise ModelError(f"{path}: ONNX Runtime cannot open it: {' '.join(str(error).split())[:300]}") from None
        self.precision = precision

    @classmethod
    def load(cls, source: ModelSource, precision: str) -> Self:
        if precision == "int8" and not (source.export.folder / FILES["int8"]).is_file():
            run = run_of(source.folder)
            raise ModelError(
                f"{source.export.folder} has no {FILES['int8']}; write it with: warmstart export {run} --int8"
            )
        return super().load(source, precision)

    @classmethod
    def usable_precisions(cls, source: ModelSource, precision: str) -> Iterator[str]:
        """Those that the export has a graph of."""
        for name in super().usable_precisions(source, precision):
            if (source.export.folder / FILES[name]).is_file():
                yield name

    def run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        outputs = self.session.run(list(self.outputs), {name: tensor.numpy() for name, tensor in inputs.items()})
        return {name: torch.from_numpy(value) for name, value in zip(self.outputs, outputs, strict=True)}


ENGINE = OnnxEngine
