"""Several models that share one encoder, each with its own head, for multi-task training.

Each model can still be run, and saved as a plain folder, by itself. Its embeddings and blocks are shared with all the
others; a pooler is part of the head that reads it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import encoder_config
from warmstart.models.heads.pooled import build_encoder
from warmstart.models.hidden_states import encoder_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Loss = Callable[[Any, Any], torch.Tensor | Mapping[str, torch.Tensor]]
"""A function of a model's outputs and the labels, the mean over a batch."""
LR_FACTOR = 100
"""A log-variance has so many times the head's learning rate: by Adam at 5e-5 it would hardly move in 1,000 steps."""


def share_encoder(models: Mapping[str, PreTrainedModel]) -> PreTrainedModel:
    """Put all models on one encoder, in place, and return it by itself, without head or pooler.

    The encoder is that of the model with the most embeddings, since a task may have added tokens of its own.
    """
    encoders = {name: encoder_of(model) for name, model in models.items()}
    source = max(encoders.values(), key=lambda encoder: encoder.get_input_embeddings().num_embeddings)
    for name, encoder in encoders.items():
        if type(encoder) is not type(source):
            raise ModelError(
                f"{name}: its encoder is a {type(encoder).__name__}, and others have {type(source).__name__}"
            )
    with torch.device("meta"):
        alone = build_encoder(copy.deepcopy(source.config))
    names = [name for name, part in (*alone._modules.items(), *alone._parameters.items()) if part is not None]
    for encoder in (*encoders.values(), alone):
        for name in names:
            setattr(encoder, name, getattr(source, name))
    for model in models.values():
        encoder_config(model.config).vocab_size = source.config.vocab_size
        if hasattr(model, "tie_weights"):
            model.tie_weights()  # a head with tied embeddings, as of a masked language model, uses these
    return alone


class MultiTaskModel(nn.Module):
    """One encoder with several heads; a batch goes through one of them, and its loss is weighted.

    With `uncertainty`, the weights are learned: a task's loss L becomes ½·exp(−s)·L + ½·s, with s its log-variance
    ("Multi-Task Learning Using Uncertainty to Weigh Losses", Kendall et al. 2018, eq. 7), which starts from 0.

    Args:
        models: Models of one architecture, by the name of their task; they are put on one encoder, in place.
        losses: For a task with a loss of its own, that loss; the others' heads compute theirs.
        loss_weights: The weight of each task's loss, 1 where none is given; or `uncertainty`.
    """

    def __init__(
        self,
        models: Mapping[str, PreTrainedModel],
        losses: Mapping[str, Loss | None],
        loss_weights: Mapping[str, float] | str,
    ) -> None:
        super().__init__()
        self.encoder = share_encoder(models)
        self.config = self.encoder.config
        # In a list, not by name: a task's name may contain a dot, a module's may not.
        self.models = nn.ModuleList(models.values())
        self.positions = {name: position for position, name in enumerate(models)}
        self.losses = losses
        self.loss_weights = loss_weights
        self.scaled = nn.Parameter(torch.zeros(len(models))) if loss_weights == "uncertainty" else None

    @property
    def base_model(self) -> PreTrainedModel:
        """The encoder, under the name that transformers models have it: the layer map starts from it."""
        return self.encoder

    def forward(self, task: str, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The outputs of one task's model, its loss weighted: here, so that gradients are shared between processes."""
        model, own_loss = self.models[self.positions[task]], self.losses[task]
        labels = inputs.pop("labels", None) if own_loss else None
        outputs = dict(model(**inputs))
        if own_loss and labels is not None:
            floats = {name: output.float() if _is_half(output) else output for name, output in outputs.items()}
            with torch.autocast(self.encoder.device.type, enabled=False):  # as where a loss is computed outside a model
                loss = own_loss(floats, labels)
            outputs["loss"] = sum(loss.values()) if isinstance(loss, Mapping) else loss
        if "loss" in outputs:
            outputs["loss"] = self._weighted(task, outputs["loss"])
        return outputs

    @property
    def log_variances(self) -> torch.Tensor | None:
        """The log-variance of each task, in order; None where the weights are given."""
        if self.scaled is None:
            return None
        # The value is LR_FACTOR times the parameter, the gradient is unchanged: clipping is as for any other parameter.
        return self.scaled + (LR_FACTOR - 1) * self.scaled.detach()

    def current_weights(self) -> dict[str, float]:
        """The weight of each task's loss at present."""
        variances = self.log_variances
        if variances is None:
            return {name: float(self.loss_weights.get(name, 1.0)) for name in self.positions}  # type: ignore[union-attr]
        return dict(zip(self.positions, (0.5 * torch.exp(-variances.detach())).tolist(), strict=True))

    def _weighted(self, task: str, loss: torch.Tensor) -> torch.Tensor:
        variances = self.log_variances
        if variances is None:
            return loss * self.loss_weights.get(task, 1.0)  # type: ignore[union-attr]
        variance = variances[self.positions[task]]
        return 0.5 * torch.exp(-variance) * loss + 0.5 * variance

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """Each tensor once, under the first of its names, so that a checkpoint contains the encoder once."""
        names = {name for name, _ in self.named_parameters()} | {name for name, _ in self.named_buffers()}
        return {name: value for name, value in super().state_dict(*args, **kwargs).items() if name in names}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor], strict: bool = True, assign: bool = False) -> Any:
        """Load the output of `state_dict`."""
        different = sorted({*self.state_dict()} ^ {*state_dict})
        if different:
            raise RuntimeError(f"the state is not of this model: {', '.join(different[:3])} is in one of the two only")
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def _is_half(value: object) -> bool:
    return torch.is_tensor(value) and value.dtype in (torch.bfloat16, torch.float16)
