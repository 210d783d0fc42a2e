"""score: a number for a text or a pair of texts (regression)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import torch

from warmstart.data.schema import Column, Schema
from warmstart.errors import ModelError
from warmstart.options import Options
from warmstart.tasks.base import Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import quantiles, table
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad
from warmstart.text.windows import Window


class ScoreOptions(Options):
    """Options of `task: {name: score, …}`: none yet."""


class Score(Task[ScoreOptions]):
    """What number; learned as it stands, by squared error."""

    name = "score"
    options_class = ScoreOptions
    auto_class = "AutoModelForSequenceClassification"
    headline = "pearson"

    @classmethod
    def mixing(cls, options: ScoreOptions) -> Mixing | None:
        return "mean"

    @classmethod
    def schema(cls, options: ScoreOptions) -> Schema:
        return Schema((TEXT, PAIR, Column("label", "number", "what is learned", answer=True)))

    @classmethod
    def learn(cls, options: ScoreOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        if saved is not None and saved.num_labels != 1:
            raise ModelError(
                f"the model has a head for {saved.num_labels} labels, and a score wants one number; say `head: new`"
            )
        return cls(options, pair)

    @classmethod
    def of(cls, options: ScoreOptions, pair: bool, config: Any) -> Self:
        return cls(options, pair)

    def config(self) -> dict[str, Any]:
        names = {"id2label": {0: "score"}, "label2id": {"score": 0}}
        return {"num_labels": 1, **names, "problem_type": "regression"}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        features = encode_texts(rows, tokenizer, window, self.pair)
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = float(answer)
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([feature["labels"] for feature in features], dtype=torch.float)
        return batch

    def decode(self, logits: Any) -> list[dict[str, Any]]:
        return [{"score": score} for score in torch.as_tensor(logits).double().reshape(-1).tolist()]

    @property
    def gives(self) -> dict[str, str]:
        return {"score": "number"}

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return metrics.numbers(list(answers), [given["score"] for given in predictions])

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """How far off the numbers are, by the range of the true one."""
        both = [(float(true), one["score"]) for true, one in zip(columns["label"], predictions, strict=True)]
        rows: list[list[Any]] = []
        for low, high, chosen in quantiles([true for true, _ in both], 5):
            errors = [both[index][1] - both[index][0] for index in chosen]
            sizes = [abs(error) for error in errors]
            means = [sum(errors) / len(errors), sum(sizes) / len(sizes), max(sizes)]
            rows.append([f"{low:g} to {high:g}", len(chosen), *means])
        note = "given number minus true number, by the range of the true one"
        return [table("Residuals", note, ["range", "rows", "mean error", "mean size", "largest"], rows)]


TASK = Score
