"""torch: the engine that every model has, PyTorch, as plain `transformers` computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch

from warmstart.errors import ModelError
from warmstart.inference.engines.base import Engine, ModelSource
from warmstart.models.precision import Precision, autocast, resolve_precision


class TorchEngine(Engine):
    """A PyTorch model, on the GPU where there is one.

    Args:
        model: A model of transformers, or one that is called like it.
        precision: `fp32` (what plain `transformers` computes), `bf16`, `fp16`, or `auto` for the fastest here.
    """

    name = "torch"
    precisions = ("fp32", "bf16", "fp16")

    def __init__(self, model: Any, precision: str = "fp32") -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.eval().to(self.device)
        self.precision: Precision = resolve_precision(precision, model.config)

    @classmethod
    def load(cls, source: ModelSource, precision: str) -> Self:
        if source.is_export:
            raise ModelError(
                f"{source.folder} is an export, without weights for PyTorch; use --engine onnx, or give the run"
            )
        return cls(source.load(), precision)

    @classmethod
    def usable_precisions(cls, source: ModelSource, precision: str) -> Iterator[str]:
        return iter(()) if source.is_export else super().usable_precisions(source, precision)

    @property
    def gives_vectors(self) -> bool:
        return hasattr(self.model, "vectors")

    @torch.inference_mode()
    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The model's outputs that are tensors."""
        moved = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        with autocast(self.precision, self.device):
            outputs = self.model(**moved)
        return {name: value.float().cpu() for name, value in outputs.items() if torch.is_tensor(value)}


ENGINE = TorchEngine
