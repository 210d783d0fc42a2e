"""Several models on one encoder, each with a head of its own, so that one training can teach it several tasks.

Each model stays what it is: it can be run, and saved as a plain folder, by itself. Its embeddings and blocks are those
of all the others; a pooler is a part of the head that reads it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from warmstart.errors import ModelError
from warmstart.models.architectures import encoder_config
from warmstart.models.heads.pooled import open_encoder

Loss = Callable[[Any, Any], torch.Tensor]
"""A function of a model's outputs and the labels, the mean over a batch."""
PACE = 100
"""How many times the head's rate a log-variance learns at: by Adam at 5e-5 it would hardly move in a thousand steps."""


def share(models: Mapping[str, Any]) -> Any:
    """Put all models on one encoder, in place, and give it by itself, without head or pooler.

    The encoder is that of the model with the most embeddings, since a task may have added tokens of its own.
    """
    encoders = {name: encoder_of(model) for name, model in models.items()}
    source = max(encoders.values(), key=lambda one: one.get_input_embeddings().num_embeddings)
    for name, one in encoders.items():
        if type(one) is not type(source):
            raise ModelError(f"{name}: its encoder is a {type(one).__name__}, and others have {type(source).__name__}")
    with torch.device("meta"):
        alone: Any = open_encoder(copy.deepcopy(source.config))
    names = [name for name, one in (*alone._modules.items(), *alone._parameters.items()) if one is not None]
    for one in (*encoders.values(), alone):
        for name in names:
            setattr(one, name, getattr(source, name))
    for model in models.values():
        encoder_config(model.config).vocab_size = source.config.vocab_size
        if hasattr(model, "tie_weights"):
            model.tie_weights()  # a head that reuses the embeddings, as of a masked language model, is to use these
    return alone


def encoder_of(model: Any) -> Any:
    """The encoder inside a model of transformers or of our own."""
    return model.base_model if hasattr(model, "base_model") else model.encoder


class ManyHeads(nn.Module):
    """One encoder under several heads; a batch goes through one of them, and its loss is weighted.

    Weights of `uncertainty` are learned: a task's loss L counts as ½·exp(−s)·L + ½·s, with s its log-variance
    ("Multi-Task Learning Using Uncertainty to Weigh Losses", Kendall et al. 2018, eq. 7), which starts from 0.

    Args:
        models: Models of one architecture, by the name of their task; they are put on one encoder, in place.
        losses: For a task with a loss of its own, that loss; the others' heads have theirs.
        weights: What a task's loss is multiplied by, 1 where it is not said; or `uncertainty`.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        losses: Mapping[str, Loss | None],
        weights: Mapping[str, float] | str,
    ) -> None:
        super().__init__()
        self.encoder = share(models)
        self.config = self.encoder.config
        # In a list, not by name: a name may hold a dot, which a module's cannot.
        self.models = nn.ModuleList(models.values())
        self.places = {name: place for place, name in enumerate(models)}
        self.losses = losses
        self.weights = weights
        self.scaled = nn.Parameter(torch.zeros(len(models))) if weights == "uncertainty" else None

    @property
    def base_model(self) -> Any:
        """The encoder, as a model of transformers has it: the layer map is drawn from it."""
        return self.encoder

    def forward(self, which: str, **inputs: Any) -> dict[str, Any]:
        """The outputs of one task's model, its loss weighted; all of it here, where several processes see it learn."""
        model, own = self.models[self.places[which]], self.losses[which]
        labels = inputs.pop("labels", None) if own else None
        outputs = dict(model(**inputs))
        if own and labels is not None:
            floats = {name: one.float() if _half(one) else one for name, one in outputs.items()}
            with torch.autocast(self.encoder.device.type, enabled=False):  # as where a loss is computed outside a model
                found: Any = own(floats, labels)
            outputs["loss"] = sum(found.values()) if isinstance(found, Mapping) else found
        if "loss" in outputs:
            outputs["loss"] = self._weighted(which, outputs["loss"])
        return outputs

    @property
    def log_variances(self) -> torch.Tensor | None:
        """The log-variance of each task, in order; None where weights are said by hand."""
        if self.scaled is None:
            return None
        # The value is PACE times the parameter, the gradient what it would be without: clipping is as for any other.
        return self.scaled + (PACE - 1) * self.scaled.detach()

    def counts(self) -> dict[str, float]:
        """What each task's loss is multiplied by at present."""
        found = self.log_variances
        if found is None:
            return {name: float(self.weights.get(name, 1.0)) for name in self.places}  # type: ignore[union-attr]
        return dict(zip(self.places, (0.5 * torch.exp(-found.detach())).tolist(), strict=True))

    def _weighted(self, which: str, loss: torch.Tensor) -> torch.Tensor:
        found = self.log_variances
        if found is None:
            return loss * self.weights.get(which, 1.0)  # type: ignore[union-attr]
        own = found[self.places[which]]
        return 0.5 * torch.exp(-own) * loss + 0.5 * own

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Each tensor once, under the first of its names, so that a checkpoint holds the encoder once."""
        names = {name for name, _ in self.named_parameters()} | {name for name, _ in self.named_buffers()}
        return {name: value for name, value in super().state_dict(*args, **kwargs).items() if name in names}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Put back what `state_dict` gave."""
        lost = sorted({*self.state_dict()} ^ {*state_dict})
        if lost:
            raise RuntimeError(f"the state is not of this model: {', '.join(lost[:3])} is in one of the two only")
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def _half(value: Any) -> bool:
    return torch.is_tensor(value) and value.dtype in (torch.bfloat16, torch.float16)
