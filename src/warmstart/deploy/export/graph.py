"""A model written as an ONNX graph, for batches of any size and texts of any length; that graph in whole numbers."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from warmstart.errors import MissingExtra, ModelError
from warmstart.models.architectures import encoder_config

OPSET = 17
AXES = {1: ("documents",), 2: ("rows", "tokens"), 3: ("rows", "endings", "tokens")}
"""The names of an input's axes, by how many there are; none has a fixed size."""


class Plain(torch.nn.Module):
    """A model that is called with tensors in a row and gives a row of tensors, as a trace wants it."""

    def __init__(self, model: Any, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        return tuple(found[name].float() for name in self.outputs)


@torch.no_grad()
def write_graph(model: Any, inputs: Mapping[str, torch.Tensor], path: Path) -> None:
    """Trace a model into one file; refuses one whose operations ONNX does not have, saying which model.

    Args:
        inputs: A batch of a few texts of different length. A bi-encoder's gives one vector a text, and `texts`, which
            says what is compared with what, is left to the engine.
    """
    # A copy: the trace puts modules into another mode, and it must be on the processor.
    model = copy.deepcopy(model).cpu().eval()
    given = {name: tensor.cpu() for name, tensor in inputs.items() if name != "texts"}
    kind = encoder_config(model.config).model_type
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = tuple(name for name, one in model(**given).items() if torch.is_tensor(one))
            axes = {name: dict(enumerate(AXES[tensor.dim()])) for name, tensor in given.items()}
            torch.onnx.export(
                Plain(model, tuple(given), outputs).eval(),
                tuple(given.values()),
                str(path),
                # The newer exporter's files cannot be turned into whole numbers.
                dynamo=False,
                opset_version=OPSET,
                input_names=list(given),
                output_names=list(outputs),
                dynamic_axes=axes,
            )
    except ImportError:
        raise MissingExtra("ONNX is not installed: pip install 'warmstart[onnx]'") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"a model of {kind} ({type(model).__name__}) cannot be written as an ONNX graph: {reason}\n"
            "It can be answered with --engine torch only"
        ) from None
    finally:
        logging.disable(before)
    if len(list(path.parent.glob("*"))) > 1:
        raise ModelError(f"a model of {kind} this large does not fit one ONNX file of 2 GB; answer with --engine torch")


def quantize(path: Path, target: Path) -> None:
    """Write a graph's weights in whole numbers of 8 bits, a scale for each column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(path, target, weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.disable(before)
