"""The engine that every model has: PyTorch, as plain `transformers` computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from warmstart.models.precision import Precision, autocast, resolve_precision


class Torch:
    """A PyTorch model, on the accelerator where there is one.

    Args:
        precision: `fp32` (what plain `transformers` computes), `bf16`, `fp16`, or `auto` for the fastest here.
    """

    name = "torch"

    def __init__(self, model: Any, precision: str = "fp32") -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.eval().to(self.device)
        self.precision: Precision = resolve_precision(precision, model.config)

    @property
    def gives_vectors(self) -> bool:
        return hasattr(self.model, "vectors")

    @torch.inference_mode()
    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The model's outputs that are tensors."""
        given = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        with autocast(self.precision, self.device):
            found = self.model(**given)
        return {name: one.float().cpu() for name, one in found.items() if torch.is_tensor(one)}
