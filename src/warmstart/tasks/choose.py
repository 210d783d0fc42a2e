"""choose: which of several endings goes with a text: how a story goes on, or the answer to a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import torch

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError
from warmstart.options import Options
from warmstart.tasks.base import EXAMPLE, Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import share, table
from warmstart.tasks.shared.text_inputs import TEXT, pad, token_ids
from warmstart.text.windows import Frame, Window, covered, take, views

NONE = -1e4
"""The score of an ending that is not there; its probability is 0 in any format, and no infinity spoils a difference."""


class ChooseOptions(Options):
    """Options of `task: {name: choose, …}`: none yet."""


class Choose(Task[ChooseOptions]):
    """Which ending: the encoder reads the text with each, the head gives each a score, and the scores compete.

    As for SWAG in Devlin et al. 2019, "BERT", §4.4; rows may differ in how many endings they have.
    """

    name = "choose"
    options_class = ChooseOptions
    auto_class = "AutoModelForMultipleChoice"
    headline = "accuracy"
    keeps = ("head", "tail", "head+tail")
    likeliest = True

    @classmethod
    def mixing(cls, options: ChooseOptions) -> Mixing | None:
        return "mean"  # endings compete across what is computed together, so their scores are averaged

    @classmethod
    def schema(cls, options: ChooseOptions) -> Schema:
        return Schema(
            (
                TEXT,
                Column("endings", "texts", "what to choose from: a list, or several columns"),
                Column("label", "choice", "which ending is right: its number from 0, or itself", answer=True),
            ),
            _check_choice,
        )

    @classmethod
    def learn(cls, options: ChooseOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        return cls(options, pair=True)

    @classmethod
    def of(cls, options: ChooseOptions, pair: bool, config: Any) -> Self:
        return cls(options, pair=True)

    def config(self) -> dict[str, Any]:
        return {"num_labels": 1, "id2label": {0: "score"}, "label2id": {"score": 0}, "problem_type": None}

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        both = given if isinstance(given, tuple | list) else ()
        row = given if isinstance(given, Mapping) else dict(zip(("text", "endings"), both, strict=False))
        text, endings = row.get("text"), row.get("endings")
        endings = list(endings) if isinstance(endings, list | tuple) else []
        if len(endings) < 2 or not all(isinstance(one, str) and one.strip() for one in (text, *endings)):
            raise DataError(
                f"text {number}: found {given!r}; this model reads a text and two or more endings, "
                'as ("text", ["one ending", "another"])'
            )
        return {"text": text, "endings": endings}

    @property
    def example(self) -> Any:
        return {"text": EXAMPLE, "endings": ["She went back for it.", "The sea is blue."]}

    def asked(self, texts: Sequence[str]) -> list[Any]:
        """One text, and its endings after it."""
        return [(texts[0], list(texts[1:]))]

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        frame = Frame.of(tokenizer, pair=True)
        texts = token_ids(tokenizer, rows["text"])
        flat = iter(token_ids(tokenizer, [one for endings in rows["endings"] for one in endings]))
        features = [
            _feature(text, [next(flat) for _ in endings], frame, window)
            for text, endings in zip(texts, rows["endings"], strict=True)
        ]
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = int(answer)
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        """A batch of (rows, endings, tokens); of (1, all endings, tokens) where rows differ in how many they have."""
        batch = pad(features, tokenizer, apart=True)
        batch.pop("slices", None)
        counts = torch.tensor([len(feature["input_ids"]) for feature in features])
        rows = len(counts) if len(set(counts.tolist())) == 1 else 1
        batch = {name: tensor.reshape(rows, -1, *tensor.shape[1:]) for name, tensor in batch.items()}
        if "labels" in features[0]:
            labels = torch.tensor([feature["labels"] for feature in features])
            batch["labels"] = torch.stack([labels, counts], dim=1)
        return batch

    def competing(self, outputs: Any, labels: torch.Tensor) -> torch.Tensor:
        """Scores of shape (rows, most endings of a row); those of endings that are not there do not count."""
        return _by_row(outputs["logits"].float(), labels[:, 1])

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        def own(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
            answers, counts = labels.unbind(dim=1)
            chances = self.competing(outputs, labels).log_softmax(dim=-1)
            right = chances.gather(1, answers[:, None])[:, 0]
            there = torch.arange(chances.shape[1], device=counts.device) < counts[:, None]
            every = chances.masked_fill(~there, 0.0).sum(dim=-1) / counts
            return -((1 - smoothing) * right + smoothing * every).mean()

        return own

    def read(self, outputs: Mapping[str, Any], features: Sequence[Feature]) -> list[Any]:
        counts = [len(feature["input_ids"]) for feature in features]
        scores = outputs["logits"].double().flatten().split(counts)
        return [one.softmax(dim=-1).tolist() for one in scores]

    def merge(self, row: Mapping[str, Any], features: Sequence[Feature], parts: Sequence[Any]) -> dict[str, Any]:
        [chances] = parts
        best = max(range(len(chances)), key=chances.__getitem__)
        return {
            "label": best,
            "ending": row["endings"][best],
            "probability": chances[best],
            "probabilities": chances,
        }

    @property
    def gives(self) -> dict[str, str]:
        return {"label": "whole", "ending": "text", "probability": "number", "probabilities": "text"}

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return metrics.choices(answers, [given["label"] for given in predictions])

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """Whether a place in the list is liked for itself."""
        both = list(zip(columns["label"], (given["label"] for given in predictions), strict=True))
        rows = []
        for place in sorted({place for pair in both for place in pair}):
            true = [given for answer, given in both if answer == place]
            chosen = sum(given == place for _, given in both)
            rows.append([place, len(true), chosen, share(true.count(place), len(true))])
        note = "how often the right ending stands at a place, counted from 0, and how often that place is chosen"
        return [table("Position", note, ["place", "right here", "chosen", "found when right"], rows)]


def _feature(text: Sequence[int], endings: Sequence[Sequence[int]], frame: Frame, window: Window) -> Feature:
    """The text with each of its endings; what no ending leaves room for is cut of the text."""
    shown = [views(window, frame, len(text), len(ending))[0] for ending in endings]
    rows = [
        frame.put_around(take(text, first), take(ending, second))
        for ending, (first, second) in zip(endings, shown, strict=True)
    ]
    total = len(text) + sum(map(len, endings))
    seen = covered(one for first, _ in shown for one in first) + sum(covered(second) for _, second in shown)
    return {**{name: [row[name] for row in rows] for name in rows[0]}, "tokens": total, "cut": total - seen}


def _by_row(logits: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The scores of each row's endings, padded with ones too low to count."""
    rows = torch.split(logits.flatten(), counts.tolist())
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True, padding_value=NONE)


def _check_choice(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's endings, and with its answer."""
    count, label = len(row["endings"]), row.get("label")
    if count < 2:
        return "choice-few", f"'endings' holds {count}. Expected two or more to choose from."
    if label is not None and label >= count:
        return "choice-past", f"'label' is {label}, and there are {count} endings. Expected 0 to {count - 1}."
    return None


TASK = Choose
