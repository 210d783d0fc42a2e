"""The loss over a vocabulary from few of its logits: at chosen tokens alone, and where it can be, a few at a time.

Most of what a step of a small model costs is the logits of a large vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from transformers import PreTrainedModel

VOCABULARY_LOSS = "vocabulary_loss"
"""Its name among the outputs of a model."""
LOGITS_AT_ONCE = 8_000_000
"""32 MB: more no longer fit into a processor's cache, and large blocks of memory are cleared before each use. With
4,480 tokens and a vocabulary of 30,000, the loss and its gradient take 0.44 of the CPU time of all logits at once."""


def has_plain_head(model: PreTrainedModel) -> bool:
    """Whether the logits of a model are what its head gives, unchanged, so that the loss can be computed there."""
    head = model.get_output_embeddings()
    if not hasattr(F, "linear_cross_entropy") or type(head) is not nn.Linear or type(head.weight) is not nn.Parameter:
        return False  # an older PyTorch, another kind of head, or sharded weights
    given: list[torch.Tensor] = []
    handle = head.register_forward_hook(lambda _, inputs, output: given.append(output))
    was_training = model.training
    ids = torch.arange(1, 9, device=model.device).unsqueeze(0)
    try:
        with torch.no_grad():
            outputs = model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    finally:
        handle.remove()
        model.train(was_training)
    return len(given) == 1 and any(output is given[0] for output in outputs.values())


def few_logits(
    model: PreTrainedModel, targets: torch.Tensor, wanted: torch.Tensor, in_head: bool
) -> AbstractContextManager[list[torch.Tensor]]:
    """Within the block, a pass of the model scores the vocabulary only as far as the loss needs it.

    Gives a list that has the mean cross-entropy after the pass, if it was computed in the head; else none, and the
    logits have the shape (tokens, vocabulary).

    Args:
        targets: The token to predict at each place of the batch.
        wanted: At which places one is to be predicted, as a mask.
        in_head: Whether the loss is computed in the head; see `has_plain_head`.
    """
    return loss_in_head(model, targets, wanted) if in_head else logits_only_at(model, wanted)


@contextlib.contextmanager
def logits_only_at(model: PreTrainedModel, wanted: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Have the head score the vocabulary at these tokens alone; of masked ones, those are one in six."""
    handle = model.get_output_embeddings().register_forward_pre_hook(lambda _, inputs: (inputs[0][wanted],))
    try:
        yield []
    finally:
        handle.remove()


@contextlib.contextmanager
def loss_in_head(model: PreTrainedModel, targets: torch.Tensor, wanted: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Have the head compute the mean cross-entropy from a few logits at a time, in place of the model's logits."""
    head = model.get_output_embeddings()
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=max(1, LOGITS_AT_ONCE // head.out_features))
    losses: list[torch.Tensor] = []

    def score(states: torch.Tensor) -> torch.Tensor:
        total = F.linear_cross_entropy(
            states[wanted], head.weight, targets[wanted], linear_bias=head.bias, reduction="sum", options=options
        )
        losses.append(total / wanted.sum().clamp(min=1))
        return losses[-1]

    head.forward = score
    try:
        yield losses
    finally:
        del head.forward
