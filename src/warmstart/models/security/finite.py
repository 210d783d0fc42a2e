"""Weights that are numbers: a model with a NaN among them would answer `nan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warmstart.errors import ModelError

if TYPE_CHECKING:
    from torch import nn


def check_finite(name: str, model: nn.Module) -> None:
    """Refuse a model with a weight that is NaN or infinite."""
    for key, parameter in model.named_parameters():
        if not parameter.is_meta and not bool(parameter.isfinite().all()):
            raise ModelError(
                f"{name}: {key} has values that are NaN or infinite, so its answers would be NaN; the file is damaged, "
                "or its training failed"
            )
