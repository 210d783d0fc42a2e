"""The model that a run ends with: as it was fine-tuned, as it was before with its linear probe, or the mean of the two.

The mean of the weights before and after is from Wortsman et al. 2022, "Robust fine-tuning of zero-shot models"; its
head is solved anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from warmstart.data.table import Table
from warmstart.evaluation.evaluate import predict_rows
from warmstart.evaluation.records.final_model import CandidateRecord, FinalModelRecord
from warmstart.evaluation.records.linear_probe import ProbeRecord
from warmstart.inference.predictor import Predictor
from warmstart.pipeline.linear_probe import ProbeStart
from warmstart.runtime.progress import Progress

if TYPE_CHECKING:
    from warmstart.models.heads.pooled import PooledModel

FINE_TUNED, LINEAR_PROBE, WEIGHT_AVERAGE = "fine-tuned", "linear-probe", "weight-average"
Weights: TypeAlias = dict[str, torch.Tensor]
Scores: TypeAlias = NDArray[np.float64]


def copy_weights(model: PooledModel) -> Weights:
    """The weights of a model as they are now."""
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


@dataclass(frozen=True)
class FinalModel:
    """The models that a training can end with.

    Args:
        before: The weights before training, with the probe's solution in the head.
        after: The weights after training.
        start: Solves the head.
    """

    model: PooledModel
    before: Weights
    after: Weights
    start: ProbeStart
    probe: ProbeRecord

    def use(self, name: str, progress: Progress) -> None:
        """Make the model one of the three."""
        if name != WEIGHT_AVERAGE:
            self.model.load_state_dict(self.before if name == LINEAR_PROBE else self.after)
            return
        mean = {
            key: (tensor + self.before[key]) / 2 if tensor.is_floating_point() else tensor
            for key, tensor in self.after.items()
        }
        self.model.load_state_dict(mean)
        self.start.refit(self.probe, progress)


def choose_final(predictor: Predictor, dev: Table, final: FinalModel | None, progress: Progress) -> FinalModelRecord:
    """Make the model the one that answers the dev rows best, and say by how much.

    It is the fine-tuned one unless another is better by more than the standard error of the difference: on few rows
    the best of three is often so by luck.

    Args:
        predictor: Answers with the model as it is at the time.
        final: What else there is than the model as it was trained.
    """
    task = predictor.task
    values: dict[str, float] = {}
    scores: dict[str, Scores] = {}
    for name in (FINE_TUNED, WEIGHT_AVERAGE, LINEAR_PROBE) if final else (FINE_TUNED,):
        if final:
            final.use(name, progress)
        columns, answers = predict_rows(predictor, dev, progress)
        values[name] = float(task.compute_metrics(columns, answers)[task.headline])
        scores[name] = np.asarray(task.row_scores(task.options, columns, answers), dtype=np.float64)
    better = [
        name for name in values if values[name] > values[FINE_TUNED] and _is_above(scores[name], scores[FINE_TUNED])
    ]
    chosen = max(better, key=values.__getitem__, default=FINE_TUNED)
    if final:
        final.use(chosen, progress)
    candidates = [CandidateRecord(name, value) for name, value in values.items()]
    return FinalModelRecord(chosen, task.headline, "dev", len(dev), candidates)


def _is_above(scores: Scores, others: Scores) -> bool:
    """Whether the scores of the same rows are higher by more than the standard error of the mean difference."""
    difference = scores - others
    return bool(difference.mean() > difference.std(ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else False
