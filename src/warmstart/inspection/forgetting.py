"""Forgetting: how much of what an encoder knew before a training it still knows, measured on general text.

Two measures, neither of which needs labels: whether masked tokens are still predicted by the reader of the reference
encoder, and how similar the states of each layer are to what they were (linear CKA). A high learning rate destroys both
("How to Fine-Tune BERT for Text Classification?", Sun et al. 2019, §5.3.3; "Catastrophic interference in connectionist
networks", McCloskey and Cohen 1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from warmstart.inspection.cka import LinearCKA
from warmstart.inspection.masked_texts import MaskedTexts
from warmstart.inspection.token_reader import TokenReader, masked_states
from warmstart.models.hidden_states import encoder_of, hidden_states
from warmstart.models.precision import Precision, autocast

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class RemainingKnowledge:
    """What an encoder still knows."""

    loss: float | None
    """Mean loss of the masked tokens; None where the tokenizer has no mask token."""
    accuracy: float | None
    """Share of the masked tokens that are predicted right."""
    cka: list[float]
    """Linear CKA of each layer with the reference encoder, embeddings first; 1 where nothing has changed."""


def measure_forgetting(
    model: nn.Module,
    texts: MaskedTexts,
    reference: PreTrainedModel,
    reader: TokenReader | None = None,
    precision: Precision = "fp32",
) -> RemainingKnowledge:
    """Measure what an encoder still knows, under whatever head it has; nothing of the model is changed.

    Args:
        texts: General text that no reader was fitted on.
        reference: The encoder before training, without a head.
        reader: A reader of the reference encoder; None to leave masked tokens out.
    """
    encoder = encoder_of(model)
    reference.to(encoder.device)
    cka, loss, right, count = LinearCKA(), 0.0, 0, texts.num_masked if reader else 0
    with torch.no_grad(), _eval_mode(model), _eval_mode(reference):
        for batch in texts.batches:
            inputs = {name: tensor.to(encoder.device) for name, tensor in batch.inputs.items()}
            real = inputs["attention_mask"].bool()
            with autocast(precision, encoder.device):
                layers = [hidden_states(each, inputs, all_layers=True) for each in (reference, encoder)]
            cka.add(*([states[real].float() for states in each] for each in layers))
            if reader is not None:
                targets = batch.targets.to(encoder.device)
                logits = reader.read(masked_states(encoder, batch, precision))
                loss += float(F.cross_entropy(logits, targets, reduction="sum"))
                right += int((logits.argmax(dim=-1) == targets).sum())
    return RemainingKnowledge(loss / count if count else None, right / count if count else None, cka.values())


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Dropout off, and every module afterwards in the mode it was in."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
