"""What a task that gives labels to texts is: TF-IDF baselines and the search for wrong labels work with any."""

from __future__ import annotations

from abc import ABC

from warmstart.tasks.base import FeatureT, OptionsT, Task
from warmstart.tasks.shared.labels import LabelMap


class TextClassification(Task[OptionsT, FeatureT], ABC):
    """Labels for a `text`, or for a `text` and a `pair`, in the column `label`."""

    labels: LabelMap
    multi_label: bool
    """Whether a row may have any number of labels."""
