"""What a language model needs beside its stock head: a head for pairs of texts, and a look at which way it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import row_of

NAME = "pair_head"
"""What the head is called in the model it is attached to, among its weights and in its config."""


class PairHead(nn.Module):
    """Whether two stretches of text belong together, read from the mean of the last states."""

    def __init__(self, width: int, drawn_with: float = 0.02) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)
        for layer in (self.dense, self.out):
            nn.init.normal_(layer.weight, std=drawn_with)
            nn.init.zeros_(layer.bias)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Two scores a row: as it should be, or not."""
        weights = mask.to(states.dtype).unsqueeze(2)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        found: torch.Tensor = self.out(torch.tanh(self.dense(mean)))
        return found


def pair_head(model: Any, folder: Path | None) -> None:
    """Have a masked language model give `pair_logits` too, where its architecture has no stock head for pairs.

    Args:
        folder: The model folder with the head's weights; None where it starts from random numbers.
    """
    row = row_of(model.config)
    if row.pair:
        return
    width = getattr(model.config, row.last_width) if row.last_width else model.config.hidden_size
    head = PairHead(width, getattr(model.config, "initializer_range", 0.02))
    if folder is not None:
        head.load_state_dict(_weights(folder, head))
    setattr(model, NAME, head.to(model.device))
    setattr(model.config, NAME, True)
    held: list[torch.Tensor] = []

    def keep(module: Any, args: Any, outputs: Any) -> None:
        held[:] = [outputs[0]]

    def add(module: Any, args: Any, given: Any, outputs: Any) -> Any:
        outputs["pair_logits"] = getattr(module, NAME)(held.pop(), given["attention_mask"])
        return outputs

    model.base_model.register_forward_hook(keep)
    model.register_forward_hook(add, with_kwargs=True)


def _weights(folder: Path, head: PairHead) -> dict[str, torch.Tensor]:
    """The head's weights, which lie beside a saved model's."""
    found: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if name.startswith(f"{NAME}.")]  # noqa: SIM118 - no mapping
            found |= {name.removeprefix(f"{NAME}."): file.get_tensor(name) for name in names}
    wanted = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    if shapes != wanted:
        raise ModelError(
            f"{folder}: {NAME}: found {shapes or 'no weights'}, expected {wanted}; its weights are damaged"
        )
    return found


@torch.no_grad()
def check_causal(model: Any) -> None:
    """Refuse an encoder in which a token sees those after it: it could copy what it is to guess."""
    ids = torch.arange(1, 9, device=model.device).unsqueeze(0)
    other = torch.cat([ids[:, :-1], ids[:, :1]], dim=1)
    learning = model.training
    model.eval()
    one, two = (model(input_ids=each, attention_mask=torch.ones_like(each)).logits[:, :-1] for each in (ids, other))
    model.train(learning)
    if not torch.allclose(one, two, atol=1e-4):
        raise RecipeError(
            f"task.objective: found clm, but {type(model).__name__} sees the tokens that it is to guess; say mlm, or "
            "take an encoder that reads from left to right, as gpt2"
        )
