"""ordinal: one of several levels that have an order, such as stars."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NotRequired, Self

import torch
from sklearn.metrics import cohen_kappa_score
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from warmstart.data.schema import Column, Schema
from warmstart.errors import Location, RecipeError
from warmstart.options import Options
from warmstart.tasks.base import Answer, Batch, Columns, LossFunction, Outputs, Task, TextFeature
from warmstart.tasks.shared.labels import LABEL_ANSWER, LabelMap
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad
from warmstart.text.windows import Window


class OrdinalOptions(Options):
    """Options of `task: {name: ordinal, …}`."""

    levels: list[str] = []
    """The levels from the lowest to the highest. Default: those of the training rows, numbers by size."""
    sharpness: float = 2.0
    """How fast the target falls off on both sides of the true level: by the exponential of this, with each level."""


class OrdinalFeature(TextFeature):
    """A text with the number of its level."""

    labels: NotRequired[int]


class Ordinal(Task[OrdinalOptions, OrdinalFeature]):
    """Which level, where off by one is better than off by two ("Soft Labels for Ordinal Regression", Díaz 2019)."""

    name = "ordinal"
    options_class = OrdinalOptions
    pipeline_tag = "text-classification"
    auto_class = "AutoModelForSequenceClassification"
    headline = "kappa"
    answer_fields = ("label",)
    single_choice = True

    def __init__(self, options: OrdinalOptions, pair: bool, levels: LabelMap) -> None:
        super().__init__(options, pair)
        self.labels = levels

    @classmethod
    def schema(cls, options: OrdinalOptions) -> Schema:
        """The columns to read: `--text`, `--pair` and `--label` name them in the file."""
        return Schema((TEXT, PAIR, Column("label", "label", "the level", answer=True)))

    @classmethod
    def from_answers(
        cls, options: OrdinalOptions, answers: Iterable[str], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        """A new task for the training rows, or for a model whose head is reused."""
        found = LabelMap.from_labels(answers)
        if unknown := set(found.names) - set(options.levels or found.names):
            raise RecipeError(f"task.levels: the data has {sorted(unknown)} as well; name all levels")
        levels = LabelMap(tuple(options.levels)) if options.levels else found
        return cls(options, pair, LabelMap.from_config(config.id2label).reused_for(levels) if config else levels)

    @classmethod
    def from_config(cls, options: OrdinalOptions, pair: bool, config: PreTrainedConfig) -> Self:
        """The task of a saved model."""
        return cls(options, pair, LabelMap.from_config(config.id2label))

    def config_kwargs(self) -> dict[str, Any]:
        """What is saved in the model's `config.json`."""
        return {**self.labels.config_kwargs(), "problem_type": "single_label_classification"}

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[OrdinalFeature]:
        """Rows, with labels when training, become token ids."""
        features: list[Any] = encode_texts(rows, tokenizer, window, self.pair)
        for feature, label in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = self.labels.ids[label]
        return features

    def collate(self, features: Sequence[OrdinalFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        """Features become one padded batch."""
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([feature["labels"] for feature in features])
        return batch

    def loss(self, label_smoothing: float = 0.0) -> LossFunction:
        """Cross-entropy with a target that falls off on both sides of the true level; None would be the head's own."""
        if label_smoothing:
            raise RecipeError("training.label_smoothing: the target of ordinal is smooth already; leave it out")
        levels = torch.arange(len(self.labels))
        targets = (-self.options.sharpness * (levels[:, None] - levels).abs()).float().softmax(dim=1)

        def soft_cross_entropy(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
            logits = outputs["logits"].float()
            return torch.nn.functional.cross_entropy(logits, targets.to(logits.device)[labels])

        return soft_cross_entropy

    def decode(self, outputs: Outputs, features: Sequence[OrdinalFeature]) -> list[Answer]:
        """The model's outputs become answers."""
        return [self.labels.answer(row) for row in outputs["logits"].double().softmax(dim=-1).tolist()]

    @property
    def answer_schema(self) -> dict[str, str]:
        """The fields of an answer: `label`, `probability` and `probabilities`."""
        return dict(LABEL_ANSWER)

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        """Cohen's kappa with quadratic weights, accuracy, and the mean distance in levels."""
        true = [self.labels.ids[label] for label in columns["label"]]
        predicted = [self.labels.ids[answer["label"]] for answer in predictions]
        distances = [abs(a - b) for a, b in zip(true, predicted, strict=True)]
        kappa = cohen_kappa_score(true, predicted, weights="quadratic", labels=range(len(self.labels)))
        return {
            "kappa": float(kappa),
            "accuracy": distances.count(0) / len(distances),
            "mean_distance": sum(distances) / len(distances),
        }

    def check_answers(self, answers: Iterable[str], where: Callable[[int], Location]) -> None:
        """Refuse a level in the dev or test rows that the training rows do not have."""
        self.labels.check(([answer] for answer in answers), where)
