"""Which heads a loss depends on, by one backward pass a row instead of one series of predictions a head.

The importance of a head is the mean size of the gradient of the loss with respect to a gate on the head's output
("Are Sixteen Heads Really Better than One?", Michel et al. 2019, §4.1), divided by the norm over its block, as there.
It is a first guess: `ablation` measures what is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from warmstart.data.schema import Row
from warmstart.errors import ModelError
from warmstart.inference.predictor import Predictor
from warmstart.inspection.ablation import torch_model
from warmstart.models.switches import HeadGates
from warmstart.runtime.progress import Progress, silent


def gradient_importance(predictor: Predictor, rows: Sequence[Row], progress: Progress = silent) -> list[list[float]]:
    """The importance of each head, by block.

    Args:
        rows: With the columns that the task learns from.
    """
    task, model = predictor.task, torch_model(predictor)
    if task.schema(task.options).answer is None or not task.rows_independent:
        raise ModelError(f"{task.name}: a row has no loss of its own, so heads have no gradient importance")
    own_loss = task.loss()
    gates = HeadGates(model).gates.requires_grad_()
    total = torch.zeros_like(gates)
    with HeadGates(model, gates), torch.enable_grad(), progress.bar("gradients", len(rows)) as bar:
        for row in rows:
            columns = {name: [value] for name, value in row.items()}
            batch = predictor.collate(task.encode(columns, predictor.tokenizer, predictor.window))
            batch = {name: tensor.to(next(model.parameters()).device) for name, tensor in batch.items()}
            labels = batch.pop("labels") if own_loss else None
            outputs = model(**batch)
            loss = own_loss(outputs, labels) if own_loss else outputs["loss"]
            parts = list(loss.values()) if isinstance(loss, Mapping) else [loss]
            (gradient,) = torch.autograd.grad(torch.stack(parts).sum(), gates)
            total += gradient.abs()
            bar.advance()
    mean = total / len(rows)
    return (mean / mean.norm(dim=1, keepdim=True).clamp(min=1e-30)).tolist()  # type: ignore[no-any-return]
