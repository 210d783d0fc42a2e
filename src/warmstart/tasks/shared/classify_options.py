"""The options of the task classify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from warmstart.tasks.shared.label_thresholds import ThresholdMetric
from warmstart.tasks.shared.pair_encoder import PairOptions

SINGLE_LABEL_METRICS = ("accuracy", "macro_f1", "mcc", "f1")
MULTI_LABEL_METRICS = ("micro_f1", "macro_f1", "exact_match")

LabelName = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A label, which YAML may hold as a whole number."""


class ClassifyOptions(PairOptions):
    """Options of `task: {name: classify, …}`."""

    multi_label: bool = False
    """Whether a row may have any number of labels, including none, instead of exactly one."""
    class_weight: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None = None
    """The weight of each label in the loss: `balanced` (rarer labels weigh more), or a mapping from label to weight."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """With soft labels, the temperature at which they are learned: above 1, the less probable labels of a row count for
    more. For single-label rows."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    """With `multi_label: true`, the probability from which on a label is predicted."""
    threshold_metric: ThresholdMetric | None = None
    """With `multi_label: true`, what each label's threshold is chosen for, on the dev rows after training: `f1` (the
    highest), `precision` (`threshold_target`, with the most recall) or `recall` (`threshold_target`, with the most
    precision). A label that no dev row has keeps `threshold`."""
    threshold_target: Annotated[float, Field(gt=0, le=1)] | None = None
    """The precision or recall to reach, if that is the `threshold_metric`."""
    thresholds: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """Thresholds of single labels. A label that is not in it has `threshold`, or one chosen by `threshold_metric`. The
    model folder keeps what was chosen here."""
    positive_label: LabelName | None = None
    """Of two labels, the one whose F1, precision and recall are reported, as `f1`, `precision` and `recall`: the F1 of
    MRPC and QQP. There is no default, since nothing in the data says which label is the positive one; without it, these
    metrics are left out."""
    metric: Literal["accuracy", "macro_f1", "mcc", "f1", "micro_f1", "exact_match"] | None = None
    """The headline metric, which early stopping, sweeps and comparisons use: `accuracy`, `macro_f1`, `mcc`, or the `f1`
    of `positive_label`; with `multi_label: true`, `micro_f1`, `macro_f1` or `exact_match`. Default: `accuracy`, or
    `micro_f1` with `multi_label: true`."""

    synonyms: ClassVar[Mapping[str, str]] = {
        **PairOptions.synonyms,
        "multilabel": "multi_label",
        "is_multilabel": "multi_label",
        "class_weights": "class_weight",
        "pos_weight": "class_weight",
        "weights": "class_weight",
        "pos_label": "positive_label",
        "positive_class": "positive_label",
        "eval_metric": "metric",
        "metric_for_best_model": "metric",
        "label_thresholds": "thresholds",
        "optimal_threshold": "threshold_metric",
        "target_precision": "threshold_target",
        "target_recall": "threshold_target",
    }

    @model_validator(mode="after")
    def _thresholds_go_together(self) -> Self:
        if not self.multi_label and (self.threshold_metric or self.thresholds):
            name = "threshold_metric" if self.threshold_metric else "thresholds"
            raise ValueError(
                f"{name}: found it with multi_label: false, which predicts the likeliest label; leave it out, and see "
                "`warmstart diagnose --target-precision` for when to give no answer"
            )
        needs_target = self.threshold_metric in {"precision", "recall"}
        if needs_target and self.threshold_target is None:
            raise ValueError(
                f"threshold_metric: found {self.threshold_metric}, but not which; set threshold_target: 0.9"
            )
        if not needs_target and self.threshold_target is not None:
            raise ValueError(
                f"threshold_target: found {self.threshold_target}, but not of what; set threshold_metric: precision or "
                "recall"
            )
        return self

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        if self.multi_label and self.temperature != 1:
            raise ValueError(
                f"temperature: found {self.temperature} with multi_label: true, which learns each label's probability "
                "by itself; leave one of them out"
            )
        if self.multi_label and self.positive_label is not None:
            raise ValueError(
                f"positive_label: found {self.positive_label!r} with multi_label: true, which reports the F1 of every "
                "label; leave one of them out"
            )
        known = MULTI_LABEL_METRICS if self.multi_label else SINGLE_LABEL_METRICS
        if self.metric not in {None, *known}:
            expected = " or ".join((", ".join(known[:-1]), known[-1]))
            raise ValueError(
                f"metric: found {self.metric} with multi_label: {str(self.multi_label).lower()}; expected {expected}"
            )
        if self.metric == "f1" and self.positive_label is None:
            raise ValueError("metric: found f1, but not of which label; set positive_label, or metric: macro_f1")
        return self
