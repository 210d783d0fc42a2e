"""classify: one label of several, or any number of them, for a text or a pair of texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field

from warmstart.data.schema import Column, Schema
from warmstart.errors import RecipeError, nearest
from warmstart.options import Options
from warmstart.tasks.base import Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import share, table
from warmstart.tasks.shared.labels import CHOSEN, LabelMap
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad
from warmstart.text.windows import Window


class ClassifyOptions(Options):
    """Options of `task: {name: classify, …}`."""

    labels: Literal["one", "many"] = "one"
    """Whether a row has exactly `one` label or `many` (any number of them, none included)."""
    weights: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0)]] | None = None
    """How much each label counts in the loss: `balanced` by its rarity, or a mapping from label to weight."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.5
    """With `labels: many`, the probability from which a label is given."""


class Classify(Task[ClassifyOptions]):
    """Which label, or which labels."""

    name = "classify"
    options_class = ClassifyOptions
    auto_class = "AutoModelForSequenceClassification"

    def __init__(self, options: ClassifyOptions, pair: bool, labels: LabelMap, weights: Sequence[float] | None) -> None:
        super().__init__(options, pair)
        self.labels = labels
        self.weights = weights
        self.many = options.labels == "many"
        self.likeliest = not self.many
        self.headline = "micro_f1" if self.many else "accuracy"

    @classmethod
    def mixing(cls, options: ClassifyOptions) -> Mixing | None:
        return "sigmoid" if options.labels == "many" else "softmax"

    @classmethod
    def schema(cls, options: ClassifyOptions) -> Schema:
        kind: Literal["label", "labels"] = "labels" if options.labels == "many" else "label"
        return Schema((TEXT, PAIR, Column("label", kind, "what is learned", answer=True)))

    @classmethod
    def learn(cls, options: ClassifyOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        counts: Counter[str] = Counter()
        rows = 0
        for answer in answers:
            rows += 1
            counts.update(answer if options.labels == "many" else [answer])
        labels = LabelMap.of(counts, least=1 if options.labels == "many" else 2)
        if saved is not None:
            labels = LabelMap.of_config(saved.id2label).same_as(labels)
        return cls(options, pair, labels, _weights(options, labels, counts, rows))

    @classmethod
    def of(cls, options: ClassifyOptions, pair: bool, config: Any) -> Self:
        # Weights matter to training alone, so a reopened task has none.
        return cls(options, pair, LabelMap.of_config(config.id2label), None)

    def config(self) -> dict[str, Any]:
        kind = "multi_label_classification" if self.many else "single_label_classification"
        return {**self.labels.config(), "problem_type": kind}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        features = encode_texts(rows, tokenizer, window, self.pair)
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = self._target(answer)
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch = pad(features, tokenizer)
        if "labels" in features[0]:
            targets = [feature["labels"] for feature in features]
            batch["labels"] = self._ones(targets).float() if self.many else torch.tensor(targets)
        return batch

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        if self.weights is None and not smoothing:
            return None
        weights = torch.tensor(self.weights or [1.0] * len(self.labels))

        def own(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
            scores = outputs["logits"].float()
            weight = weights.to(scores.device)
            if self.many:
                target = labels * (1 - smoothing) + smoothing / 2
                return torch.nn.functional.binary_cross_entropy_with_logits(scores, target, pos_weight=weight)
            return torch.nn.functional.cross_entropy(scores, labels, weight=weight, label_smoothing=smoothing)

        return own

    def decode(self, logits: Any) -> list[dict[str, Any]]:
        scores = torch.as_tensor(logits).double()
        chances = (scores.sigmoid() if self.many else scores.softmax(dim=-1)).tolist()
        return [self._answer(row) for row in chances]

    @property
    def gives(self) -> dict[str, str]:
        return {"labels": "text", "probabilities": "text"} if self.many else dict(CHOSEN)

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        gold = [self._target(answer) for answer in answers]
        if self.many:
            given = [self._target(prediction["labels"]) for prediction in predictions]
            return metrics.many_labels(self._ones(gold).tolist(), self._ones(given).tolist())
        return metrics.one_label(gold, [self._target(given["label"]) for given in predictions])

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """With `labels: many`, how each label fares by itself."""
        if not self.many:
            return []
        both = [(set(gold), set(given["labels"])) for gold, given in zip(columns["label"], predictions, strict=True)]
        rows = []
        for name in self.labels.names:
            right = sum(name in gold & given for gold, given in both)
            missed = sum(name in gold - given for gold, given in both)
            wrong = sum(name in given - gold for gold, given in both)
            rows.append([name, right, missed, wrong, share(2 * right, 2 * right + missed + wrong)])
        rows.sort(key=lambda row: (row[4] is None, row[4]))
        return [table("Labels", "worst first", ["label", "right", "missed", "wrongly given", "F1"], rows)]

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        self.labels.check((answer if self.many else [answer] for answer in answers), where)

    def _target(self, answer: Any) -> Any:
        """The id of a label, or the ids of several."""
        return [self.labels.ids[name] for name in answer] if self.many else self.labels.ids[answer]

    def _ones(self, targets: Sequence[Sequence[int]]) -> torch.Tensor:
        """Ids of several labels a row as a matrix of 0 and 1."""
        matrix = torch.zeros(len(targets), len(self.labels), dtype=torch.long)
        for row, ids in enumerate(targets):
            matrix[row, list(ids)] = 1
        return matrix

    def _answer(self, chances: list[float]) -> dict[str, Any]:
        if not self.many:
            return self.labels.answer(chances)
        by_label = dict(zip(self.labels.names, chances, strict=True))
        return {
            "labels": [name for name, chance in by_label.items() if chance >= self.options.threshold],
            "probabilities": by_label,
        }


def _weights(options: ClassifyOptions, labels: LabelMap, counts: Mapping[str, int], rows: int) -> list[float] | None:
    """The weight of each label in the loss, in the map's order."""
    if options.weights is None:
        return None
    if options.weights == "balanced":
        if options.labels == "many":
            return [(rows - counts[name]) / counts[name] for name in labels.names]
        return [rows / (len(labels) * counts[name]) for name in labels.names]
    for name in options.weights:
        if name not in labels.ids:
            raise RecipeError(f"task.weights: {name!r} is not a label of the data; {nearest(name, labels.names)}")
    return [options.weights.get(name, 1.0) for name in labels.names]


TASK = Classify
