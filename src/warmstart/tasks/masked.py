"""masked: raw text, by guessing what is masked in it (or what comes next), to make an encoder fit your kind of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch.nn import functional as F

from warmstart.data.schema import Column, Schema
from warmstart.models.language_model import check_causal, pair_head
from warmstart.options import Options
from warmstart.tasks.base import Feature, Task
from warmstart.tasks.shared.documents import documents, pairs, segmenter, windows
from warmstart.tasks.shared.masking import IGNORED, Vocabulary, mask
from warmstart.tasks.shared.text_inputs import pad, pad_labels, token_ids
from warmstart.text.windows import Frame, Window, slices

Rate = Annotated[float, Field(gt=0, lt=1)]
EXAM = 1_000_003
"""Stands for the seed where a model is measured: the masks are the same for every model."""
TOP = 5
"""Tokens given for a mask."""


class MaskedOptions(Options):
    """Options of `task: {name: masked, …}`."""

    objective: Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] = "mlm"
    """What is learned: masked tokens (`mlm`, Devlin et al. 2019); beside them whether the second of two stretches of
    sentences is the next one (`mlm+nsp`) or the two are in order (`mlm+sop`, Lan et al. 2020); or, with an encoder that
    reads from left to right, every next token (`clm`)."""
    mask: Rate | Annotated[list[Rate], Field(min_length=2, max_length=2)] = 0.15
    """The share of tokens masked, drawn anew in each epoch; of two, as `[0.1, 0.3]`, one between them is drawn for each
    sequence and epoch."""
    mask_to: Rate | None = None
    """The share in the last epoch, to which `mask` goes in equal steps. None: the same in all."""
    unit: Literal["piece", "word", "span"] = "piece"
    """What is masked as a whole: a `piece` of the tokenizer, a `word`, or a `span` of up to 10 words (Joshi et al.
    2020). In a script without spaces a word is a piece with those that begin with `##` after it."""
    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] = "en"
    """The language by which sentences are found, as `ja`; for `mlm+nsp` and `mlm+sop`."""

    @model_validator(mode="after")
    def _one_rate_goes_to_another(self) -> Self:
        if self.mask_to is not None and isinstance(self.mask, list):
            raise ValueError(f"mask_to: found {self.mask_to}, and mask is a range; say one number for mask")
        return self

    def rate(self, random: np.random.Generator, done: float) -> float:
        """The share to mask when so much of the training is done, from 0 to 1."""
        if isinstance(self.mask, list):
            low, high = self.mask
            return float(random.uniform(low, high))
        return self.mask + ((self.mask_to or self.mask) - self.mask) * done


class Masked(Task[MaskedOptions]):
    """Tokens that were masked, or the next ones."""

    name = "masked"
    options_class = MaskedOptions
    headline = "accuracy"
    own_windows = True
    own_overlap = 0.0
    at_once = 8
    doubles = False

    def __init__(self, options: MaskedOptions, pair: bool, tied: bool, with_pair_head: bool) -> None:
        super().__init__(options, pair)
        self.auto_class = self.auto_class_for(options)
        self.tied = tied
        self.with_pair_head = with_pair_head
        self.tokenizer: Any = None
        if self.order:
            segmenter()

    @classmethod
    def auto_class_for(cls, options: MaskedOptions) -> str:
        return "AutoModelForCausalLM" if options.objective == "clm" else "AutoModelForMaskedLM"

    @classmethod
    def schema(cls, options: MaskedOptions) -> Schema:
        return Schema((Column("text", "text", "a document; no sequence holds two"),))

    @classmethod
    def learn(cls, options: MaskedOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        # A decoder that comes with the model stays as it is; a new one shares the embeddings' matrix.
        tied = saved is None or bool(saved.tie_word_embeddings)
        return cls(options, False, tied, bool(getattr(saved, "pair_head", False)))

    @classmethod
    def of(cls, options: MaskedOptions, pair: bool, config: Any) -> Self:
        return cls(options, False, bool(config.tie_word_embeddings), bool(getattr(config, "pair_head", False)))

    @property
    def order(self) -> Literal["nsp", "sop"] | None:
        """What is learned of the order of sentences."""
        name = self.options.objective.partition("+")[2]
        return "nsp" if name == "nsp" else "sop" if name == "sop" else None

    @property
    def part(self) -> str:
        """The part of the loss that comes from tokens."""
        return self.options.objective.partition("+")[0]

    def config(self) -> dict[str, Any]:
        return {"tie_word_embeddings": self.tied}

    def ready(self, model: Any, folder: Path | None) -> Any:
        if self.options.objective == "clm":
            check_causal(model)
        if self.order:
            pair_head(model, folder if self.with_pair_head else None)
        return model

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        words = self.options.unit != "piece"
        found = documents(rows["text"], tokenizer, words, self.options.language if self.order else None)
        frames = Frame.of(tokenizer, False), Frame.of(tokenizer, self.order is not None)
        special = frozenset(tokenizer.all_special_ids)
        features: list[Feature] = []
        for number, one in enumerate(found):
            own: Iterator[Feature] = windows(one, frames[0], window, special)
            if self.order and one.ids:
                own = pairs(found, number, frames, window, self.order, special)
            elif self.order:
                own = ({**feature, "follows": IGNORED} for feature in own)
            for part, feature in enumerate(own):
                features.append({**feature, "tokens": 0 if part else len(one.ids), "of": number, "part": part})
        return features

    def vary(
        self, features: Sequence[Feature], tokenizer: Any, seed: int, epoch: int, epochs: int
    ) -> Sequence[Feature]:
        """Features with their masks of the epoch, drawn by the seed, the epoch, the row and the part of it."""
        if self.options.objective == "clm":
            return [{**one, "labels": _next(one["input_ids"])} for one in features]
        known = Vocabulary.of(tokenizer)
        drawn = []
        for one in features:
            random = np.random.default_rng([seed % (1 << 63), epoch, one["row"], one["part"]])
            rate = self.options.rate(random, epoch / max(epochs - 1, 1))
            ids, labels = mask(one["input_ids"], one["units"], rate, self.options.unit == "span", known, random)
            drawn.append({**one, "input_ids": ids, "labels": labels})
        return drawn

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch: dict[str, Any] = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = {"tokens": pad_labels([one["labels"] for one in features], tokenizer, IGNORED)}
            if self.order:
                batch["labels"]["follows"] = torch.tensor([one["follows"] for one in features])
        return batch

    def counts(self, batch: Mapping[str, Any]) -> dict[str, int]:
        found = {self.part: int((batch["labels"]["tokens"] != IGNORED).sum())}
        if self.order:
            found[self.order] = int((batch["labels"]["follows"] != IGNORED).sum())
        return found

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        super().loss(smoothing)

        def own(outputs: Any, labels: Mapping[str, Any]) -> dict[str, Any]:
            found = {self.part: _mean(_tokens(outputs), labels["tokens"])}
            if self.order:
                found[self.order] = _mean(_order(outputs), labels["follows"])
            return found

        return own

    @property
    def reads(self) -> tuple[str, ...]:
        return ("text", "number")

    def exam(self, row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
        """The row with its number, by which its masks are drawn."""
        return {"text": row["text"], "number": number}

    def ask(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        """Sequences masked as in training, where the model is measured; else texts with masks of the user's own."""
        self.tokenizer = tokenizer
        left = tokenizer.padding_side == "left"
        if "number" in rows or self.options.objective == "clm":
            numbers = rows.get("number", range(len(rows["text"])))
            features = [{**one, "row": numbers[one["of"]]} for one in self.encode(rows, tokenizer, window)]
            varied = self.vary(features, tokenizer, EXAM, 0, 1)
            return [{"wanted": one.pop("labels"), **one, "left": left} for one in varied]
        frame = Frame.of(tokenizer, False)
        found: list[Feature] = []
        for number, ids in enumerate(token_ids(tokenizer, rows["text"])):
            for start, end in slices(len(ids), window.max_tokens - frame.size):
                around = frame.put_around(ids[start:end])
                more = {"tokens": 0 if start else len(ids), "cut": 0, "of": number, "left": left}
                found.append({**around, **more})
        return found

    def read(self, outputs: Mapping[str, Any], features: Sequence[Feature]) -> list[Any]:
        """Of each sequence how well its masks were guessed; without an answer to them, the best guesses."""
        scores = _tokens(outputs)
        found: list[Any] = []
        for number, feature in enumerate(features):
            length = len(feature["input_ids"])
            own = scores[number, -length:] if feature["left"] else scores[number, :length]
            if "wanted" not in feature:
                found.append(self._fills(own, feature["input_ids"]))
                continue
            wanted = torch.tensor(feature["wanted"])
            asked = wanted != IGNORED
            chances = own[asked].log_softmax(1)
            right = int((chances.argmax(1) == wanted[asked]).sum())
            loss = -float(chances.gather(1, wanted[asked, None]).double().sum())
            one = {"loss": loss, "tokens": int(asked.sum()), "right": right}
            if self.order:
                follows = feature["follows"]
                one |= {"pairs": int(follows != IGNORED), "pairs_wrong": int(follows == 1)}
                one |= {"pairs_right": int(follows == int(_order(outputs)[number].argmax()))}
            found.append(one)
        return found

    def merge(self, row: Mapping[str, Any], features: Sequence[Feature], parts: Sequence[Any]) -> dict[str, Any]:
        """The sums of a measured row; the guesses for each mask of a text; the mean log-probability of its tokens."""
        if "wanted" not in features[0]:
            return {"fills": [fill for part in parts for fill in part]}
        sums = {name: sum(part[name] for part in parts) for name in parts[0]}
        if "number" in row:
            return sums
        return {"log_probability": -sums["loss"] / max(sums["tokens"], 1), "tokens": sums["tokens"]}

    @property
    def measured(self) -> tuple[str, ...]:
        return ()

    @property
    def gives(self) -> dict[str, str]:
        return {"fills": "text", "log_probability": "number", "tokens": "whole"}

    def measure(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Loss, perplexity and accuracy over all tokens asked; of pairs, the share that was told right.

        Beside it stands the share of the more frequent kind of pair, which one gets without looking.
        """
        sums = {name: sum(one[name] for one in predictions) for name in predictions[0]}
        loss = _share(sums["loss"], sums["tokens"])
        found = {
            "accuracy": _share(sums["right"], sums["tokens"]),
            "loss": loss,
            "perplexity": math.exp(min(loss, 700)),
        }
        if not self.order:
            return found
        pairs, wrong = sums["pairs"], sums["pairs_wrong"]
        of_pairs = {
            "accuracy": _share(sums["pairs_right"], pairs),
            "chance": _share(max(wrong, pairs - wrong), pairs),
            "pairs": pairs,
        }
        return {**found, **{f"{self.order}_{name}": value for name, value in of_pairs.items()}}

    def scores(
        self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]
    ) -> Sequence[float] | None:
        return [one["right"] / one["tokens"] if one["tokens"] else 1.0 for one in predictions]

    def _fills(self, scores: torch.Tensor, ids: Sequence[int]) -> list[list[dict[str, Any]]]:
        """The best tokens for each mask of a sequence."""
        at = [place for place, token in enumerate(ids) if token == self.tokenizer.mask_token_id]
        best = scores[at].softmax(1).topk(min(TOP, scores.shape[1]), dim=1)
        return [
            [
                {"token": self.tokenizer.decode([token]).strip(), "score": score}
                for token, score in zip(*both, strict=True)
            ]
            for both in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]


def _next(ids: Sequence[int]) -> list[int]:
    """What comes after each token."""
    return [*ids[1:], IGNORED][: len(ids)]


def _tokens(outputs: Mapping[str, Any]) -> Any:
    """The scores of the vocabulary at each token; a model with a stock head for pairs has another name for them."""
    return outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]


def _order(outputs: Mapping[str, Any]) -> Any:
    """The two scores of each pair: as it should be, or not."""
    name = next(name for name in ("pair_logits", "seq_relationship_logits", "sop_logits") if name in outputs)
    return outputs[name]


def _mean(scores: Any, labels: Any) -> Any:
    """The mean cross-entropy where there is a label; 0 where there is none."""
    asked = labels != IGNORED
    total = F.cross_entropy(scores[asked].float(), labels[asked], reduction="sum")
    return total / asked.sum().clamp(min=1)


def _share(sum_of: float, count: float) -> float:
    return sum_of / count if count else math.nan


TASK = Masked
