"""Weights that are numbers: a model with a NaN among them would answer `nan`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from warmstart.errors import ModelError

if TYPE_CHECKING:
    from torch import nn


def check_finite(name: str, model: nn.Module, new: Collection[str] = ()) -> None:
    """Refuse a model with a weight that is NaN or infinite.

    Args:
        new: Weights that are not the file's.
    """
    for key, parameter in model.named_parameters():
        if key not in new and not parameter.is_meta and not bool(parameter.isfinite().all()):
            raise ModelError(
                f"{name}: {key} has values that are NaN or infinite, so its answers would be NaN; the file is damaged, "
                "or its training failed"
            )
