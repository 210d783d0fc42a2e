"""The state of a recurrent model between two steps of a training, which its checkpoints hold."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import TrainerCallback

from warmstart.storage.json_files import JsonObject

LayerState = tuple[torch.Tensor, torch.Tensor]


class CarriedState(TrainerCallback):  # type: ignore[misc]
    """What a model has read so far: the next piece of each stream is read from there, without gradients to before."""

    def __init__(self) -> None:
        self.layers: tuple[LayerState, ...] | None = None

    def reset(self) -> None:
        """Begin anew, as at the beginning of an epoch."""
        self.layers = None

    def keep(self, layers: Sequence[LayerState]) -> None:
        """Keep the state after a step, cut off from how it was computed."""
        self.layers = tuple((hidden.detach(), cell.detach()) for hidden, cell in layers)

    def state_dict(self) -> JsonObject:
        """What a checkpoint holds of it."""
        return {"layers": self.layers}

    def load_state_dict(self, state: JsonObject) -> None:
        """Restore what a checkpoint holds."""
        self.layers = state["layers"]
