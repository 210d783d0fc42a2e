"""classify: one label, or with `multi_label: true` any number of labels, for a text or a pair of texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, Self, cast

import torch
from torch.nn import functional as F

from warmstart.data.schema import Row, Schema
from warmstart.errors import Location, ModelError, RecipeError, nearest
from warmstart.tasks.base import Answer, Averaging, Batch, Columns, ErrorTable, LossFunction, Outputs, TextFeature
from warmstart.tasks.shared import metrics, soft_labels
from warmstart.tasks.shared.classify_options import ClassifyOptions
from warmstart.tasks.shared.error_tables import share, table
from warmstart.tasks.shared.explained_outputs import log_odds
from warmstart.tasks.shared.failures import why_no_better_than_constant
from warmstart.tasks.shared.label_columns import label_columns
from warmstart.tasks.shared.label_thresholds import choose_threshold
from warmstart.tasks.shared.labels import LABEL_ANSWER, LabelMap
from warmstart.tasks.shared.pair_encoder import reads_separately
from warmstart.tasks.shared.prompts import PROMPT
from warmstart.tasks.shared.text_classification import TextClassification
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad
from warmstart.tasks.shared.token_origins import FeatureOrigins, text_origins
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

    from warmstart.models.linear_probe import ProbeKind
    from warmstart.models.prompts import PromptUse

TINY = 1e-6
"""Rows of a label that no row has, as soft labels can have it: its weight matters to nothing."""


class ClassifyFeature(TextFeature):
    """A text with the id of its label, or the ids of several."""

    labels: NotRequired[int | list[int]]
    soft: NotRequired[list[float]]
    """The probability of each label, where rows have soft labels."""


class Classify(TextClassification[ClassifyOptions, ClassifyFeature]):
    """Which label, or which labels."""

    name = "classify"
    options_class = ClassifyOptions
    pipeline_tag = "text-classification"
    auto_class = "AutoModelForSequenceClassification"
    answer_fields = ("label", "labels")
    row_score_name = "mean F1 of a row's labels"
    taught_columns: ClassVar[Mapping[str, str]] = {soft_labels.PROBABILITIES: soft_labels.PROBABILITIES}

    def __init__(
        self,
        options: ClassifyOptions,
        pair: bool,
        labels: LabelMap,
        class_weight: Sequence[float] | None,
        soft: bool = False,
    ) -> None:
        super().__init__(options, pair)
        self.separate_texts = reads_separately(options, pair)
        self.labels = labels
        self.class_weight = class_weight
        self.multi_label = options.multi_label
        self.soft = soft
        self.single_choice = not self.multi_label
        self.has_row_labels = not self.multi_label and not soft
        self.thresholds = [options.thresholds.get(name, options.threshold) for name in labels.names]
        self.headline = options.metric or ("micro_f1" if self.multi_label else "accuracy")

    @classmethod
    def schema(cls, options: ClassifyOptions) -> Schema:
        kind: Literal["label", "labels"] = "labels" if options.multi_label else "label"
        return Schema((TEXT, PAIR, *label_columns(kind, "the label")))

    @classmethod
    def from_answers(
        cls, options: ClassifyOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        counts: defaultdict[str, float] = defaultdict(float)
        rows, soft = 0, False
        for answer in answers:
            rows += 1
            soft = soft or soft_labels.is_soft(answer)
            for name, probability in soft_labels.weighted_labels(answer).items():
                counts[name] += probability
        labels = LabelMap.from_labels(counts, least=1 if options.multi_label else 2)
        if config is not None:
            labels = LabelMap.from_config(config.id2label).reused_for(labels)
        if wrong := _wrong_positive_label(options, labels) or _unknown_threshold(options, labels):
            raise RecipeError(wrong)
        return cls(options, pair, labels, _class_weight(options, labels, counts, rows), soft)

    @classmethod
    def from_config(cls, options: ClassifyOptions, pair: bool, config: PreTrainedConfig) -> Self:
        labels = LabelMap.from_config(config.id2label)
        if wrong := _wrong_positive_label(options, labels) or _unknown_threshold(options, labels):
            raise ModelError(wrong)
        # Weights matter to training alone, so a reopened task has none.
        return cls(options, pair, labels, None)

    def config_kwargs(self) -> dict[str, Any]:
        kind = "multi_label_classification" if self.multi_label else "single_label_classification"
        return {**self.labels.config_kwargs(), "problem_type": kind}

    @classmethod
    def prompt_uses(cls, options: ClassifyOptions) -> Mapping[str, PromptUse]:
        return {PROMPT: "classification"}

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[ClassifyFeature]:
        features = cast(list[ClassifyFeature], encode_texts(rows, tokenizer, window, self.pair, self.separate_texts))
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = self._target(answer)
        for feature, answer in zip(features, rows.get(soft_labels.PROBABILITIES, ()), strict=False):
            feature["soft"] = soft_labels.target(answer, self.labels.ids)
        return features

    def collate(self, features: Sequence[ClassifyFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            targets = [feature["labels"] for feature in features]
            if "soft" in features[0]:
                batch["labels"] = torch.tensor([feature["soft"] for feature in features])
                return batch
            batch["labels"] = self._matrix(targets).float() if self.multi_label else torch.tensor(targets)
        return batch

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        if self.class_weight is None and not label_smoothing and not self.soft:
            return None
        weights = torch.tensor(self.class_weight or [1.0] * len(self.labels))

        def weighted(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
            scores = outputs["logits"].float()
            weight = weights.to(scores.device)
            if self.multi_label:
                target = labels * (1 - label_smoothing) + label_smoothing / 2
                return F.binary_cross_entropy_with_logits(scores, target, pos_weight=weight)
            if labels.is_floating_point():
                own = None if self.class_weight is None else weight
                return soft_labels.soft_cross_entropy(scores, labels, self.options.temperature, own, label_smoothing)
            return F.cross_entropy(scores, labels, weight=weight, label_smoothing=label_smoothing)

        return weighted

    def decode(self, outputs: Outputs, features: Sequence[ClassifyFeature]) -> list[Answer]:
        scores = outputs["logits"].double()
        probabilities = (scores.sigmoid() if self.multi_label else scores.softmax(dim=-1)).tolist()
        return [self._answer(row) for row in probabilities]

    def token_origins(self, row: Row, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[FeatureOrigins]:
        return text_origins(row, tokenizer, window, self.pair, self.separate_texts)

    def explained_output(self, outputs: Outputs, features: Sequence[ClassifyFeature], answer: Answer) -> torch.Tensor:
        """The log odds of the label; of several labels, those of the most probable one."""
        if not self.multi_label:
            return log_odds(outputs["logits"][0], [self.labels.ids[answer["label"]]])
        probabilities = answer["probabilities"]
        return outputs["logits"][0, self.labels.ids[max(probabilities, key=probabilities.__getitem__)]]

    @property
    def probe_kind(self) -> ProbeKind:
        return "multi-label-logistic" if self.multi_label else "logistic"

    @property
    def label_names(self) -> Sequence[str]:
        names = [label.replace("_", " ") for label in self.labels.names]
        are_words = all(any(map(str.isalpha, name)) for name in names)
        return names if are_words and not self.pair and not self.multi_label else ()

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"labels": "text", "probabilities": "text"} if self.multi_label else dict(LABEL_ANSWER)

    @classmethod
    def ensemble_averaging(cls, options: ClassifyOptions) -> Averaging | None:
        return "sigmoid" if options.multi_label else "softmax"

    @property
    def metric_columns(self) -> tuple[str, ...]:
        return ("label", soft_labels.PROBABILITIES)

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        """Metrics against the hard answers; of rows with soft labels also how far the probabilities are from those."""
        gold = [self._target(answer) for answer in columns["label"]]
        if self.multi_label:
            predicted = [self._target(prediction["labels"]) for prediction in predictions]
            values = metrics.many_labels(self._matrix(gold).tolist(), self._matrix(predicted).tolist())
        else:
            positive = self.labels.ids.get(self.options.positive_label or "")
            predicted = [self._target(prediction["label"]) for prediction in predictions]
            values = metrics.one_label(gold, predicted, positive)
        if soft := columns.get(soft_labels.PROBABILITIES):
            truth = [soft_labels.target(answer, self.labels.ids) for answer in soft]
            given = [[answer[soft_labels.PROBABILITIES][name] for name in self.labels.names] for answer in predictions]
            values |= metrics.distributions(truth, given, single=not self.multi_label)
        return {self.headline: values[self.headline], **values}

    @classmethod
    def row_scores(cls, options: ClassifyOptions, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """1 or 0 for one label, the F1 of the row's labels for several."""
        if not options.multi_label:
            return super().row_scores(options, columns, predictions)
        both = zip(columns["label"], predictions, strict=True)
        return [_f1(set(truth), set(prediction["labels"])) for truth, prediction in both]

    @classmethod
    def why_failed(
        cls,
        options: ClassifyOptions,
        headline: str,
        value: float,
        truth: Sequence[Any] | None,
        predictions: Sequence[Answer],
    ) -> str:
        """A run that gives one answer to every row has failed."""
        if not options.multi_label:

            def constant(truth: Sequence[Any], answer: Hashable) -> float:
                return metrics.one_label(truth, [answer] * len(truth), options.positive_label)[headline]

            return why_no_better_than_constant(
                value, truth or (), [answer["label"] for answer in predictions], constant
            )
        gold = [tuple(sorted(labels)) for labels in truth or ()]
        predicted = [tuple(sorted(answer["labels"])) for answer in predictions]
        return why_no_better_than_constant(value, gold, predicted, partial(_constant_multi_label, headline))

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """With `multi_label: true`, how each label fares by itself."""
        if not self.multi_label:
            return []
        both = [(set(gold), set(given["labels"])) for gold, given in zip(columns["label"], predictions, strict=True)]
        rows = []
        for name in self.labels.names:
            right = sum(name in gold & given for gold, given in both)
            missed = sum(name in gold - given for gold, given in both)
            wrong = sum(name in given - gold for gold, given in both)
            rows.append([name, right, missed, wrong, share(2 * right, 2 * right + missed + wrong)])
        rows.sort(key=lambda row: (row[4] is None, row[4]))
        return [table("Labels", "worst first", ["label", "right", "missed", "wrongly predicted", "F1"], rows)]

    @property
    def tunes_on_dev(self) -> bool:
        return self.options.threshold_metric is not None

    @property
    def needs_dev(self) -> str:
        return "task.threshold_metric" if self.tunes_on_dev else ""

    def tune(self, columns: Columns, predictions: Sequence[Answer]) -> Self:
        """The thresholds that are not set, by `threshold_metric`."""
        options = self.options
        chosen = dict(options.thresholds)
        if options.threshold_metric is None:
            return self
        for name in self.labels.names:
            if name not in chosen:
                chosen[name] = choose_threshold(
                    [prediction["probabilities"][name] for prediction in predictions],
                    [name in labels for labels in columns["label"]],
                    options.threshold_metric,
                    options.threshold_target,
                    options.threshold,
                )
        tuned = options.model_copy(update={"thresholds": chosen})
        return type(self)(tuned, self.pair, self.labels, self.class_weight, self.soft)

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], Location]) -> None:
        self.labels.check(map(soft_labels.weighted_labels, answers), where)

    def _target(self, answer: Any) -> Any:
        """The id of a label, or the ids of several."""
        return [self.labels.ids[name] for name in answer] if self.multi_label else self.labels.ids[answer]

    def _matrix(self, targets: Sequence[Any]) -> torch.Tensor:
        """Ids of several labels a row as a matrix of 0 and 1."""
        matrix = torch.zeros(len(targets), len(self.labels), dtype=torch.long)
        for row, ids in enumerate(targets):
            matrix[row, list(ids)] = 1
        return matrix

    def _answer(self, probabilities: list[float]) -> Answer:
        if not self.multi_label:
            return self.labels.answer(probabilities)
        rows = list(zip(self.labels.names, probabilities, self.thresholds, strict=True))
        return {
            "labels": [name for name, probability, threshold in rows if probability >= threshold],
            "probabilities": {name: probability for name, probability, _ in rows},
        }


def _class_weight(
    options: ClassifyOptions, labels: LabelMap, counts: Mapping[str, float], rows: int
) -> list[float] | None:
    """The weight of each label in the loss, in the map's order."""
    if options.class_weight is None:
        return None
    if options.class_weight == "balanced":
        if options.multi_label:
            return [(rows - counts[name]) / max(counts[name], TINY) for name in labels.names]
        return [rows / (len(labels) * max(counts[name], TINY)) for name in labels.names]
    for name in options.class_weight:
        if name not in labels.ids:
            raise RecipeError(f"task.class_weight: {name!r} is not a label of the data; {nearest(name, labels.names)}")
    return [options.class_weight.get(name, 1.0) for name in labels.names]


def _wrong_positive_label(options: ClassifyOptions, labels: LabelMap) -> str:
    """What is wrong with `positive_label`; empty where nothing is."""
    name = options.positive_label
    if name is None:
        return ""
    if name not in labels.ids:
        return f"task.positive_label: {name!r} is not a label of the data; {nearest(name, labels.names)}"
    if len(labels) != 2:
        return (
            f"task.positive_label: found {name!r} with {len(labels)} labels, expected two; leave it out, macro_f1 is "
            "the mean over all"
        )
    return ""


def _unknown_threshold(options: ClassifyOptions, labels: LabelMap) -> str:
    """What is wrong with `thresholds`; empty where nothing is."""
    for name in options.thresholds:
        if name not in labels.ids:
            return f"task.thresholds: {name!r} is not a label of the data; {nearest(name, labels.names)}"
    return ""


def _constant_multi_label(metric: str, truth: Sequence[Any], answer: Hashable) -> float:
    """The metric of giving the same labels to all rows."""
    names = sorted({name for labels in truth for name in labels})
    gold = [[int(name in labels) for name in names] for labels in truth]
    always = [int(name in answer) for name in names]  # type: ignore[operator]
    return metrics.many_labels(gold, [always] * len(gold))[metric]


def _f1(truth: set[str], predicted: set[str]) -> float:
    return 2 * len(truth & predicted) / (len(truth) + len(predicted)) if truth or predicted else 1.0


TASK = Classify
