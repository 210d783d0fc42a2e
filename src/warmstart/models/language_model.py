"""Language models: a head for pairs of texts, and a check that one is causal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open
from torch import nn

from warmstart.errors import ModelError, RecipeError
from warmstart.models.architectures import spec_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from transformers.utils import ModelOutput

NAME = "pair_head"
"""The name of the head in the model it is attached to, among its weights and in its config."""


class PairHead(nn.Module):
    """Classifies pairs of texts (next sentence, sentence order) from the mean of the last hidden states."""

    def __init__(self, size: int, std: float = 0.02) -> None:
        super().__init__()
        self.dense = nn.Linear(size, size)
        self.out = nn.Linear(size, 2)
        for layer in (self.dense, self.out):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Two logits a row: whether the texts belong together in this order, or not."""
        weights = mask.to(states.dtype).unsqueeze(2)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
        logits: torch.Tensor = self.out(torch.tanh(self.dense(mean)))
        return logits


def add_pair_head(model: PreTrainedModel, folder: Path | None) -> None:
    """Have a masked language model output `pair_logits` too, where its architecture has no stock head for pairs.

    Args:
        folder: The model folder with the head's weights; None for a randomly initialized one.
    """
    spec = spec_of(model.config)
    if spec.pair_modules:
        return
    size = getattr(model.config, spec.last_hidden_size) if spec.last_hidden_size else model.config.hidden_size
    head = PairHead(size, getattr(model.config, "initializer_range", 0.02))
    if folder is not None:
        head.load_state_dict(_weights(folder, head))
    setattr(model, NAME, head.to(model.device))
    setattr(model.config, NAME, True)
    last_states: list[torch.Tensor] = []

    def keep(module: nn.Module, args: object, outputs: ModelOutput) -> None:
        last_states[:] = [outputs[0]]

    def add(module: nn.Module, args: object, inputs: Mapping[str, torch.Tensor], outputs: ModelOutput) -> ModelOutput:
        outputs["pair_logits"] = getattr(module, NAME)(last_states.pop(), inputs["attention_mask"])
        return outputs

    model.base_model.register_forward_hook(keep)
    model.register_forward_hook(add, with_kwargs=True)


def pair_head_note(model: nn.Module) -> str | None:
    """What to tell of a head for pairs that is our own; None where the model has none, or a stock one."""
    if not hasattr(model, NAME):
        return None
    return (
        f"{model.config.model_type} has no head for pairs of sentences in transformers: a new one is trained with it, "  # type: ignore[union-attr]
        "and fine-tuning on another task leaves it out"
    )


def _weights(folder: Path, head: PairHead) -> dict[str, torch.Tensor]:
    """The head's weights, which are saved with the model's."""
    weights: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if name.startswith(f"{NAME}.")]  # noqa: SIM118 - no mapping
            weights |= {name.removeprefix(f"{NAME}."): file.get_tensor(name) for name in names}
    expected = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if shapes != expected:
        raise ModelError(
            f"{folder}: {NAME}: found {shapes or 'no weights'}, expected {expected}; its weights are damaged"
        )
    return weights


def reads_backward(model: PreTrainedModel) -> bool:
    """Whether a causal model reads texts from the last token to the first."""
    return getattr(model.config, "direction", "forward") == "backward"


def check_carried_state(model: PreTrainedModel) -> None:
    """Refuse a model that cannot go on reading where it stopped."""
    if not spec_of(model.config).carries_state:
        raise RecipeError(
            f"task.bptt: found a stream to read, but a model of {model.config.model_type} carries no state from piece "
            "to piece; leave bptt out, or choose a recurrent model, as from_scratch.architecture: awd-lstm"
        )


@torch.no_grad()
def prepare_causal(model: PreTrainedModel) -> None:
    """Refuse an encoder in which a token attends to those after it: it could copy what it is to predict.

    One that writes its state in place, through which gradients cannot pass, is told not to; generating has a setting of
    its own.
    """
    if spec_of(model.config).writes_state:
        model.config.use_cache = False
    ids = torch.arange(1, 9, device=model.device).unsqueeze(0)
    other = torch.cat([ids[:, :-1], ids[:, :1]], dim=1)
    if reads_backward(model):
        other = torch.cat([ids[:, -1:], ids[:, 1:]], dim=1)
    was_training = model.training
    model.eval()
    first, second = (model(input_ids=each, attention_mask=torch.ones_like(each)).logits for each in (ids, other))
    first, second = (each[:, 1:] if reads_backward(model) else each[:, :-1] for each in (first, second))
    model.train(was_training)
    if not torch.allclose(first, second, atol=1e-4):
        raise RecipeError(
            f"task.objective: found clm, but {type(model).__name__} attends to the tokens that it is to predict; set "
            "mlm, or choose a causal model, such as gpt2"
        )
