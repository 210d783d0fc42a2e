"""What an engine is: padded batches in, the model's outputs out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch


class Engine(Protocol):
    """A model ready to compute.

    Attributes:
        name: What `--engine` calls it.
        precision: The number format it computes in.
        gives_vectors: Whether a text by itself has a vector among the outputs, `documents`.
    """

    @property
    def name(self) -> str: ...

    @property
    def precision(self) -> str: ...

    @property
    def gives_vectors(self) -> bool: ...

    def compute(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The outputs of a batch that `Task.collate` made, by their names: 32 bits, in the machine's own memory."""
        ...
