"""Forgetting: how much of what an encoder knew before a training it still knows, seen on general text.

Two marks, neither of which needs labels: whether masked tokens are still found by the reader of the starting encoder,
and how alike the states of each layer are to what they were (linear CKA). A high rate destroys both ("How to Fine-Tune
BERT for Text Classification?", Sun et al. 2019, §5.3.3; "Catastrophic interference in connectionist networks",
McCloskey and Cohen 1989).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from warmstart.inspection.agreement import Agreement
from warmstart.inspection.masked_texts import Exam
from warmstart.inspection.token_reader import Reader, states_of_masked
from warmstart.models.hidden_states import encoder_in, hidden_states
from warmstart.models.precision import Precision, computing


@dataclass(frozen=True)
class Forgetting:
    """What an encoder still knows."""

    loss: float | None
    """Mean loss of the masked tokens; None where the tokenizer has no mask token."""
    accuracy: float | None
    """Share of the masked tokens that are found."""
    agreement: list[float]
    """Linear CKA of each layer with the starting encoder, embeddings first; 1 where nothing has changed."""


def measure(
    model: Any, exam: Exam, start: Any, reader: Reader | None = None, precision: Precision = "fp32"
) -> Forgetting:
    """Ask an encoder, under whatever head it has, what it still knows; nothing of the model is changed.

    Args:
        exam: General text that no reader was fitted on.
        start: The starting encoder, without a head.
        reader: A reader of the starting encoder; None to leave masked tokens out.
    """
    encoder = encoder_in(model)
    start.to(encoder.device)
    agreement, loss, right, asked = Agreement(), 0.0, 0, exam.asked if reader else 0
    with torch.no_grad(), _still(model), _still(start):
        for batch in exam.batches:
            inputs = {name: tensor.to(encoder.device) for name, tensor in batch.inputs.items()}
            real = inputs["attention_mask"].bool()
            with computing(precision, encoder.device):
                first, second = (hidden_states(one, inputs, every=True) for one in (start, encoder))
            agreement.add(*([states[real].float() for states in one] for one in (first, second)))
            if reader is not None:
                answers = batch.answers.to(encoder.device)
                states = states_of_masked(encoder, batch, precision)
                scores = reader.read(states)
                loss += float(F.cross_entropy(scores, answers, reduction="sum"))
                right += int((scores.argmax(dim=-1) == answers).sum())
    return Forgetting(loss / asked if asked else None, right / asked if asked else None, agreement.values())


@contextmanager
def _still(model: nn.Module) -> Iterator[None]:
    """Dropout off, and every module afterwards as it was."""
    learning = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in learning:
            module.training = True
