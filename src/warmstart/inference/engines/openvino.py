"""openvino: an exported model in OpenVINO, Intel's engine, in fp32 or bf16."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.inference.exported_graph import FILES, GraphEngine, check_graph

if TYPE_CHECKING:
    from openvino import Core

HINTS = {"fp32": "f32", "bf16": "bf16"}
TELEMETRY = "openvino_telemetry"


class OpenVinoEngine(GraphEngine):
    """A graph in OpenVINO, on the CPU, with as many threads as PyTorch has.

    Args:
        folder: An export.
        precision: `fp32` or `bf16`.
    """

    name = "openvino"
    precisions = ("fp32", "bf16")
    packages = ("onnx", "openvino")

    def __init__(self, folder: Path, precision: str = "fp32") -> None:
        core = _core()
        path = folder / FILES["fp32"]
        self.inputs, self.outputs = check_graph(path)
        settings = {
            # Without the hint it takes bf16 where the processor has it.
            "INFERENCE_PRECISION_HINT": HINTS[precision],
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
        }
        try:
            self.model = core.compile_model(str(path), "CPU", settings)
        except RuntimeError as error:
            raise ModelError(f"{path}: OpenVINO cannot open it: {' '.join(str(error).split())[:300]}") from None
        self.precision = precision

    def run(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        outputs = self.model({name: tensor.numpy() for name, tensor in inputs.items()})
        # Copied: the next pass writes into the same memory.
        return {name: torch.from_numpy(outputs[index].copy()) for index, name in enumerate(self.outputs)}


@cache
def _core() -> Core:
    """The only core of this process, which stays to its end.

    Each core puts a stack for signals in the place of another's and takes it back when it goes: of two, the first one
    to go leaves the other its freed memory to put back, and the next signal that Python handles ends the process.
    """
    return import_openvino().Core()


def import_openvino() -> ModuleType:
    """The module `openvino`, without what it would send home and write into the home folder when it is imported."""
    before = sys.modules.get(TELEMETRY)
    # None makes an import fail: OpenVINO then uses a stand-in of its own that does nothing.
    sys.modules[TELEMETRY] = None  # type: ignore[assignment]
    try:
        import openvino
    except ImportError:
        raise MissingExtraError("OpenVINO is not installed: pip install 'warmstart[openvino]'") from None
    finally:
        if before is None:
            del sys.modules[TELEMETRY]
        else:
            sys.modules[TELEMETRY] = before
    module: ModuleType = openvino
    return module


ENGINE = OpenVinoEngine
