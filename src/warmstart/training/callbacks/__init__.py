"""Callbacks for any `transformers.Trainer`."""

from warmstart.training.callbacks.early_stopping import EarlyStopping, EpochEvaluation
from warmstart.training.callbacks.gradual_unfreezing import GradualUnfreezing
from warmstart.training.callbacks.nt_asgd import NonMonotonicAveraging as NonMonotonicAveraging
from warmstart.training.callbacks.step_monitor import StepMonitor
from warmstart.training.callbacks.weight_averaging import WeightAveraging

__all__ = [
    "EarlyStopping",
    "EpochEvaluation",
    "GradualUnfreezing",
    "NonMonotonicAveraging",
    "StepMonitor",
    "WeightAveraging",
]
