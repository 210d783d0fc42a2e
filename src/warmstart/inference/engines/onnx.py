"""ONNX Runtime: an exported model in 32 bits, or in whole numbers of 8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.inference.engines.graphs import Graph, check_graph

FILES = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
"""The graph of each precision in an export."""


class Onnx(Graph):
    """A graph in ONNX Runtime, on the processor, with as many threads as PyTorch has.

    Args:
        folder: An export.
        precision: `fp32` or `int8`.
    """

    name = "onnx"

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

    def run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        found = self.session.run(list(self.outputs), {name: tensor.numpy() for name, tensor in inputs.items()})
        return {name: torch.from_numpy(one) for name, one in zip(self.outputs, found, strict=True)}
