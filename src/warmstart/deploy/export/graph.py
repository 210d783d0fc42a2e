"""A model as an ONNX graph, for batches of any size and texts of any length; and that graph quantized to int8."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from warmstart.errors import MissingExtraError, ModelError
from warmstart.models.architectures import encoder_config

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OPSET = 17
AXES = {1: ("documents",), 2: ("batch", "tokens"), 3: ("batch", "endings", "tokens")}
"""The names of an input's axes, by how many there are; none has a fixed size."""


class TraceableModel(torch.nn.Module):
    """A model that takes and returns plain tuples of tensors, as tracing requires."""

    def __init__(self, model: torch.nn.Module, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.model(**dict(zip(self.inputs, tensors, strict=True)))
        return tuple(outputs[name].float() for name in self.outputs)


@torch.no_grad()
def write_graph(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], path: Path) -> None:
    """Trace a model into one file; refuses one with operations that ONNX does not have.

    Args:
        inputs: A batch of a few texts of different lengths. A bi-encoder gives one vector a text; `texts`, which says
            what is compared with what, is left to the engine.
    """
    # A copy: tracing changes the mode of modules, and must be on the CPU.
    model = copy.deepcopy(model).cpu().eval()
    given = {name: tensor.cpu() for name, tensor in inputs.items() if name != "texts"}
    kind = encoder_config(model.config).model_type
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = tuple(name for name, output in model(**given).items() if torch.is_tensor(output))
            axes = {name: dict(enumerate(AXES[tensor.dim()])) for name, tensor in given.items()}
            torch.onnx.export(
                TraceableModel(model, tuple(given), outputs).eval(),
                tuple(given.values()),
                str(path),
                # The files of the newer exporter cannot be quantized.
                dynamo=False,
                opset_version=OPSET,
                input_names=list(given),
                output_names=list(outputs),
                dynamic_axes=axes,
            )
    except ImportError:
        raise MissingExtraError("ONNX is not installed: pip install 'warmstart[onnx]'") from None
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"a model of {kind} ({type(model).__name__}) cannot be exported to ONNX: {reason}\n"
            "Only --engine torch can be used with it"
        ) from None
    finally:
        logging.disable(before)
    if len(list(path.parent.glob("*"))) > 1:
        raise ModelError(f"a model of {kind} this large does not fit into one ONNX file of 2 GB; use --engine torch")


def quantize(path: Path, target: Path) -> None:
    """Quantize the weights of a graph to int8, with a scale for each column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(path, target, weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.disable(before)
