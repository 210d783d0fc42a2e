"""choose: which of several endings fits a text: how a story continues, or which answer to a question is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, Self, cast

import torch

from warmstart.data.schema import Column, Row, Schema, Value
from warmstart.errors import DataError
from warmstart.options import Options
from warmstart.tasks.base import (
    EXAMPLE,
    Answer,
    Averaging,
    Batch,
    Columns,
    ErrorTable,
    Input,
    LossFunction,
    NestedFeature,
    Outputs,
    Task,
)
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import share, table
from warmstart.tasks.shared.failures import why_no_better_than_constant
from warmstart.tasks.shared.text_inputs import TEXT, nested, pad, token_ids
from warmstart.text.windows import Frame, Window, count_covered, take_ranges, views

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

ABSENT = -1e4
"""The score of an ending that is not there: its probability is 0 in any precision, and differences stay finite."""


class ChooseOptions(Options):
    """Options of `task: {name: choose, …}`: none yet."""


class ChooseFeature(NestedFeature):
    """A text with each of its endings, and the number of the right one."""

    labels: NotRequired[int]


class Choose(Task[ChooseOptions, ChooseFeature]):
    """Which ending: the encoder reads the text with each, the head scores each, and the scores compete.

    As for SWAG in Devlin et al. 2019, "BERT", §4.4; rows may differ in how many endings they have.
    """

    name = "choose"
    options_class = ChooseOptions
    pipeline_tag = "multiple-choice"
    auto_class = "AutoModelForMultipleChoice"
    headline = "accuracy"
    window_methods = ("head", "tail", "head+tail")
    single_choice = True
    answer_fields = ("label", "ending")

    @classmethod
    def schema(cls, options: ChooseOptions) -> Schema:
        return Schema(
            (
                TEXT,
                Column("endings", "texts", "the endings to choose from: a list, or several columns"),
                Column(
                    "label", "choice", "the right ending: its index, counted from 0, or the ending itself", answer=True
                ),
            ),
            _check_choice,
        )

    @classmethod
    def from_answers(
        cls, options: ChooseOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        return cls(options, pair=True)

    @classmethod
    def from_config(cls, options: ChooseOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options, pair=True)

    def config_kwargs(self) -> dict[str, Any]:
        return {"num_labels": 1, "id2label": {0: "score"}, "label2id": {"score": 0}, "problem_type": None}

    def parse_input(self, text: Input, number: int) -> Row:
        both = text if isinstance(text, tuple | list) else ()
        row = text if isinstance(text, Mapping) else dict(zip(("text", "endings"), both, strict=False))
        start, endings = row.get("text"), row.get("endings")
        endings = list(endings) if isinstance(endings, list | tuple) else []
        if len(endings) < 2 or not all(isinstance(part, str) and part.strip() for part in (start, *endings)):
            raise DataError(
                f"text {number}: found {text!r}; this model reads a text and two or more endings, "
                'as ("text", ["one ending", "another"])'
            )
        return {"text": start, "endings": endings}

    def parse_cli(self, words: Sequence[str]) -> list[Input]:
        """One text, and its endings after it."""
        return [(words[0], list(words[1:]))]

    @property
    def example(self) -> Input:
        return {"text": EXAMPLE, "endings": ["She went back for it.", "The sea is blue."]}

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        return ("a text", ["one ending", "another"])

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[ChooseFeature]:
        frame = Frame.of(tokenizer, pair=True)
        texts = token_ids(tokenizer, rows["text"])
        flat = iter(token_ids(tokenizer, [ending for endings in rows["endings"] for ending in endings]))
        features = [
            _feature(text, [next(flat) for _ in endings], frame, window)
            for text, endings in zip(texts, rows["endings"], strict=True)
        ]
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = int(answer)
        return features

    def collate(self, features: Sequence[ChooseFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        """A batch of (rows, endings, tokens); of (1, all endings, tokens) where rows differ in how many they have."""
        padded = pad(features, tokenizer, separate=True)
        padded.pop("slices", None)
        counts = torch.tensor([len(feature["input_ids"]) for feature in features])
        rows = len(counts) if len(set(counts.tolist())) == 1 else 1
        batch: Batch = {name: tensor.reshape(rows, -1, *tensor.shape[1:]) for name, tensor in padded.items()}
        if "labels" in features[0]:
            labels = torch.tensor([feature["labels"] for feature in features])
            batch["labels"] = torch.stack([labels, counts], dim=1)
        return batch

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        def cross_entropy(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
            answers, counts = labels.unbind(dim=1)
            log_probabilities = self.r_drop_logits(outputs, labels).log_softmax(dim=-1)
            right = log_probabilities.gather(1, answers[:, None])[:, 0]
            there = torch.arange(log_probabilities.shape[1], device=counts.device) < counts[:, None]
            every = log_probabilities.masked_fill(~there, 0.0).sum(dim=-1) / counts
            return -((1 - label_smoothing) * right + label_smoothing * every).mean()

        return cross_entropy

    def r_drop_logits(self, outputs: Outputs, labels: torch.Tensor | None) -> torch.Tensor:
        """Scores of shape (rows, most endings of a row); those of endings that are not there do not count."""
        assert labels is not None  # the loss is the task's own, so the trainer passes the labels
        return _by_row(outputs["logits"].float(), labels[:, 1])

    def decode(self, outputs: Outputs, features: Sequence[ChooseFeature]) -> list[list[float]]:
        counts = [len(feature["input_ids"]) for feature in features]
        scores = torch.split(outputs["logits"].double().flatten(), counts)
        return [row.softmax(dim=-1).tolist() for row in scores]

    def merge(
        self, row: Mapping[str, Value], features: Sequence[ChooseFeature], parts: Sequence[list[float]]
    ) -> Answer:
        [probabilities] = parts
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        return {
            "label": best,
            "ending": row["endings"][best],
            "probability": probabilities[best],
            "probabilities": probabilities,
        }

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"label": "whole", "ending": "text", "probability": "number", "probabilities": "text"}

    @classmethod
    def ensemble_averaging(cls, options: ChooseOptions) -> Averaging | None:
        return "mean"  # endings compete across what is computed together, so their scores are averaged

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        return metrics.choices(columns["label"], [answer["label"] for answer in predictions])

    @classmethod
    def why_failed(
        cls,
        options: ChooseOptions,
        headline: str,
        value: float,
        truth: Sequence[Any] | None,
        predictions: Sequence[Answer],
    ) -> str:
        """A run that always chooses the same position has failed."""
        return why_no_better_than_constant(value, truth or (), [answer["label"] for answer in predictions])

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """Whether a position in the list is preferred, whatever the ending there."""
        both = list(zip(columns["label"], (answer["label"] for answer in predictions), strict=True))
        rows = []
        for position in sorted({position for pair in both for position in pair}):
            predicted = [answer for truth, answer in both if truth == position]
            chosen = sum(answer == position for _, answer in both)
            rows.append([position, len(predicted), chosen, share(predicted.count(position), len(predicted))])
        note = "how often the right ending is at a position, counted from 0, and how often that position is chosen"
        return [table("Position", note, ["position", "right here", "chosen", "recall"], rows)]


def _feature(text: Sequence[int], endings: Sequence[Sequence[int]], frame: Frame, window: Window) -> ChooseFeature:
    """The text with each of its endings; what an ending leaves no room for is cut off the text."""
    shown = [views(window, frame, len(text), len(ending))[0] for ending in endings]
    rows = [
        frame.put_around(take_ranges(text, first), take_ranges(ending, second))
        for ending, (first, second) in zip(endings, shown, strict=True)
    ]
    total = len(text) + sum(map(len, endings))
    seen = count_covered(part for first, _ in shown for part in first)
    seen += sum(count_covered(second) for _, second in shown)
    return cast(ChooseFeature, nested(rows, total, total - seen))


def _by_row(logits: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The scores of each row's endings, padded with ones too low to count."""
    rows = torch.split(logits.flatten(), counts.tolist())
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=ABSENT)


def _check_choice(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's endings, and with its answer."""
    count, label = len(row["endings"]), row.get("label")
    if count < 2:
        return "choice-few", f"'endings' holds {count}. Expected two or more to choose from."
    if label is not None and label >= count:
        return "choice-past", f"'label' is {label}, and there are {count} endings. Expected 0 to {count - 1}."
    return None


TASK = Choose
