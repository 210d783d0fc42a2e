"""The supervised contrastive loss: texts of one label are drawn together, those of different labels pushed apart.

"Supervised Contrastive Learning", Khosla et al. 2020, eq. 2 (L_out). Each text is compared with the others of its
batch, by the vectors that the classifier reads; the classifier itself takes no part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn
from torch.nn import functional as F

from warmstart.errors import RecipeError
from warmstart.models.heads.pooled import PooledForSequenceClassification
from warmstart.models.layer_map import LayerMap
from warmstart.tasks.base import LossFunction, Outputs
from warmstart.training.settings import SUPERVISED_CONTRASTIVE, Settings
from warmstart.training.trainable_task import ComparesRows, TrainableTask

VECTORS = "vectors"
"""The name of the texts' vectors among a model's outputs."""


def contrastive_loss(vectors: torch.Tensor, labels: torch.Tensor, temperature: float = 0.1) -> torch.Tensor:
    """The loss of a batch, the mean over its rows that have another row of their label in it; 0 where none has.

    Args:
        vectors: One a row; their lengths do not matter.
        labels: The id of each row's label.
        temperature: What the cosines are divided by: the lower, the more the most similar rows matter.
    """
    unit = F.normalize(vectors.float(), dim=1)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    # Not minus infinity: a row that is alone in its batch would have a gradient of NaN.
    similarities = (unit @ unit.T / temperature).masked_fill(itself, torch.finfo(unit.dtype).min)
    log_probabilities = similarities.log_softmax(dim=1)
    positives = (labels[:, None] == labels) & ~itself
    counts = positives.sum(dim=1)
    means = torch.where(positives, log_probabilities, 0).sum(dim=1) / counts.clamp(min=1)
    return -means.sum() / (counts > 0).sum().clamp(min=1)


def count_anchors(labels: torch.Tensor) -> int:
    """How many rows of a batch have another row of their label in it."""
    counts = labels.bincount()
    return int(counts[counts > 1].sum())


def contrastive_loss_function(temperature: float) -> LossFunction:
    """The loss as a training takes it, of outputs that hold the texts' vectors."""

    def loss(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
        return contrastive_loss(outputs[VECTORS], labels, temperature)

    return loss


@contextmanager
def reading_vectors(model: nn.Module) -> Iterator[list[torch.Tensor]]:
    """Collects the vectors of texts that pass through a model with a linear head, as they are before its dropout.

    A forward pass of the whole model, and not of a part, is what mixed precision and several processes need.
    """
    vectors: list[torch.Tensor] = []
    dropout = cast(PooledForSequenceClassification, model).dropout
    hook = dropout.register_forward_pre_hook(lambda _, inputs: vectors.append(inputs[0]))
    try:
        yield vectors
    finally:
        hook.remove()


def freeze_classifier(model: nn.Module) -> None:
    """Leave the classifier as it is: it gets no gradient, and weight decay alone must not move it."""
    cast(PooledForSequenceClassification, model).classifier.requires_grad_(False)


def check_contrastive(model: nn.Module, task: TrainableTask, settings: Settings) -> None:
    """Refuse a task, a head or layers that the loss cannot train."""
    refusal = f"training.loss: found {SUPERVISED_CONTRASTIVE}, but"
    if not (isinstance(task, ComparesRows) and task.has_row_labels):
        raise RecipeError(f"{refusal} {task.name} does not give each row one label here; set training.loss: task")
    if task.loss(settings.label_smoothing) is not None:
        raise RecipeError(f"{refusal} it has no class weights or label smoothing; leave task.class_weight out")
    linear = isinstance(model, PooledForSequenceClassification) and model.config.head_type == "linear"
    if not linear or model.feature_type != VECTORS:
        raise RecipeError(
            f"{refusal} it needs one vector a text below a linear head, with nothing in between to be learned; "
            "set head.type: linear, and leave head.pooling: attention and head.layers: scalar-mix out"
        )
    if settings.unfreeze != "all":
        raise RecipeError(
            f"layers.unfreeze: {settings.unfreeze} starts with the head, which training.loss: {SUPERVISED_CONTRASTIVE} "
            "does not train; set all"
        )
    below = LayerMap.of(model).groups[settings.freeze : -1]
    if not any(group.num_trainable for group in below):
        raise RecipeError(f"{refusal} layers.freeze leaves no layer below the head to train; freeze fewer layers")
