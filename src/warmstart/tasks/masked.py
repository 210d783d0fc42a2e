"""masked: language modeling on raw text, by predicting masked tokens (or next ones), to adapt an encoder to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NotRequired, Self, cast

import numpy as np
import torch
from torch.nn import functional as F

from warmstart.data.schema import Column, Row, Schema, Value
from warmstart.models.language_model import add_pair_head, check_carried_state, prepare_causal, reads_backward
from warmstart.models.sentence_transformers_folder import keep_pooling
from warmstart.models.vocabulary_loss import VOCABULARY_LOSS
from warmstart.tasks.base import Answer, Batch, Columns, Input, LossFunction, Outputs, Task
from warmstart.tasks.shared.documents import DocumentFeature, documents, pairs, segmenter, windows
from warmstart.tasks.shared.masked_options import MaskedOptions
from warmstart.tasks.shared.masking import IGNORED, MaskingVocabulary, mask
from warmstart.tasks.shared.protocols import ReadsWindows
from warmstart.tasks.shared.text_inputs import flat, pad, pad_labels, token_ids
from warmstart.text.windows import Frame, Window, slices

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

EVAL_SEED = 1_000_003
"""The seed of the masks when a model is evaluated: they are the same for every model."""
TOP = 5
"""Tokens predicted for a mask."""


class MaskedFeature(DocumentFeature):
    """A sequence of a document, with its masks drawn or not."""

    row: NotRequired[int]
    """The row of the document, by which its masks are drawn."""
    part: NotRequired[int]
    """Which sequence of the document it is."""
    labels: NotRequired[list[int]]
    """The token that was masked, or `IGNORED`; to learn from."""
    targets: NotRequired[list[int]]
    """The same, to be evaluated."""
    padded_left: NotRequired[bool]
    words: NotRequired[int]
    """How many words the document has, to be evaluated."""
    unpaired: NotRequired[bool]
    """Of a document's first sequence, whether none of them is a pair of sentences, where pairs are learned from."""


class Masked(ReadsWindows, Task[MaskedOptions, MaskedFeature]):
    """Tokens that were masked, or the next ones."""

    name = "masked"
    options_class = MaskedOptions
    pipeline_tag = "fill-mask"
    auto_class = "AutoModelForMaskedLM"
    headline = "accuracy"
    window_overlap = 0.0
    max_batch = 8
    supports_r_drop = False
    row_score_name = "mean accuracy in a row"
    stores_row_scores = True
    encoding_findings = {
        "unpaired": (
            "single-sentence",
            "{count:,} of {rows:,} rows have a single sentence, this one first, and {others:,} have two or more: only "
            "those teach anything about pairs of sentences; put whole documents into a row, or set objective: mlm",
        )
    }

    def __init__(self, options: MaskedOptions, pair: bool, tied: bool, with_pair_head: bool) -> None:
        super().__init__(options, pair)
        self.tied = tied
        self.with_pair_head = with_pair_head
        self.tokenizer: PreTrainedTokenizerBase | None = None
        self.reads_backward = False
        if self.order:
            segmenter()

    @classmethod
    def schema(cls, options: MaskedOptions) -> Schema:
        return Schema((Column("text", "text", "a document; no sequence contains parts of two"),))

    @classmethod
    def from_answers(
        cls, options: MaskedOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        # A decoder that comes with the model stays as it is; a new one shares the embeddings' matrix.
        tied = config is None or bool(config.tie_word_embeddings)
        return cls(options, False, tied, bool(getattr(config, "pair_head", False)))

    @classmethod
    def from_config(cls, options: MaskedOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options, False, bool(config.tie_word_embeddings), bool(getattr(config, "pair_head", False)))

    @classmethod
    def auto_class_for(cls, options: MaskedOptions) -> str:
        return "AutoModelForCausalLM" if options.objective == "clm" else cls.auto_class

    @property
    def order(self) -> Literal["nsp", "sop"] | None:
        """What is learned of the order of sentences."""
        name = self.options.objective.partition("+")[2]
        return "nsp" if name == "nsp" else "sop" if name == "sop" else None

    @property
    def bptt(self) -> int | None:
        return self.options.bptt

    @property
    def token_loss(self) -> str:
        """The name of the part of the loss that comes from tokens."""
        return self.options.objective.partition("+")[0]

    def config_kwargs(self) -> dict[str, Any]:
        return {"tie_word_embeddings": self.tied}

    def extend_model(self, model: PreTrainedModel, folder: Path | None) -> PreTrainedModel:
        if self.options.objective == "clm":
            prepare_causal(model)
            self.reads_backward = reads_backward(model)
        if self.bptt:
            check_carried_state(model)
        if self.order:
            add_pair_head(model, folder if self.with_pair_head else None)
        return model

    def plain_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return model  # the head of pairs is part of it

    def write_library_files(self, model: PreTrainedModel, window: Window, folder: Path) -> None:
        """What comes next reads the encoder as its authors did."""
        keep_pooling(model, folder)

    @staticmethod
    def library_usage(folder: Path) -> None:
        return None  # it is no encoder of sentences before it is trained on

    # Rows to features.

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        return "a text with a [MASK]"

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[MaskedFeature]:
        if self.bptt:
            return _whole_documents(rows["text"], tokenizer)
        by_word = self.options.masking != "token"
        texts = documents(rows["text"], tokenizer, by_word, self.options.language if self.order else None)
        frames = Frame.of(tokenizer, False), Frame.of(tokenizer, self.order is not None)
        special = frozenset(tokenizer.all_special_ids)
        features: list[MaskedFeature] = []
        for sample, document in enumerate(texts):
            own: Iterator[DocumentFeature] = windows(document, frames[0], window, special)
            if self.order and document.ids:
                own = pairs(texts, sample, frames, window, self.order, special)
            elif self.order:
                own = ({**feature, "next_sentence_label": IGNORED} for feature in own)
            sequences = [cast(MaskedFeature, {**sequence, "sample": sample, "tokens": 0}) for sequence in own]
            for part, feature in enumerate(sequences):
                feature["part"] = part
            sequences[0]["tokens"] = len(document.ids)
            if self.order:
                sequences[0]["unpaired"] = all(one["next_sentence_label"] == IGNORED for one in sequences)
            features += sequences
        return features

    def features_for_epoch(
        self,
        features: Sequence[MaskedFeature],
        tokenizer: PreTrainedTokenizerBase,
        seed: int,
        epoch: int,
        epochs: int,
    ) -> Sequence[MaskedFeature]:
        """Features with their masks of the epoch, drawn by the seed, the epoch, the row and the part of it."""
        if self.options.objective == "clm":
            back = self.reads_backward
            # A piece of a stream has its labels: the last of them is beyond the piece.
            return [{"labels": _next_tokens(feature["input_ids"], back), **feature} for feature in features]
        vocabulary = MaskingVocabulary.of(tokenizer)
        spans = self.options.masking == "span"
        masked: list[MaskedFeature] = []
        for feature in features:
            random = np.random.default_rng([seed % (1 << 63), epoch, feature["row"], feature["part"]])
            probability = self.options.probability(random, epoch / max(epochs - 1, 1))
            ids, labels = mask(feature["input_ids"], feature["units"], probability, spans, vocabulary, random)
            masked.append({**feature, "input_ids": ids, "labels": labels})
        return masked

    def collate(self, features: Sequence[MaskedFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            labels = {"tokens": pad_labels([feature["labels"] for feature in features], tokenizer, IGNORED)}
            if self.order:
                labels["follows"] = torch.tensor([feature["next_sentence_label"] for feature in features])
            batch["labels"] = labels
        elif self.bptt:
            batch["targets"] = pad_labels([feature["targets"] for feature in features], tokenizer, IGNORED)
        return batch

    # Training.

    def loss_counts(self, batch: Batch) -> dict[str, int]:
        counts = {self.token_loss: int((batch["labels"]["tokens"] != IGNORED).sum())}
        if self.order:
            counts[self.order] = int((batch["labels"]["follows"] != IGNORED).sum())
        return counts

    def loss_targets(self, labels: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return labels["tokens"]

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        super().loss(label_smoothing)

        def parts(outputs: Outputs, labels: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            in_head = outputs.get(VOCABULARY_LOSS)
            losses = {self.token_loss: _mean(_token_logits(outputs), labels["tokens"]) if in_head is None else in_head}
            if self.order:
                losses[self.order] = _mean(_pair_logits(outputs), labels["follows"])
            if outputs.get("regularization") is not None:
                losses["regularization"] = outputs["regularization"]
            return losses

        return parts

    # Predicting.

    @property
    def input_columns(self) -> tuple[str, ...]:
        return ("text", "number")

    def eval_row(self, row: Row, number: int) -> Row:
        """The row with its number, by which its masks are drawn."""
        return {"text": row["text"], "number": number}

    def encode_query(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[MaskedFeature]:
        """Sequences masked as in training, where the model is evaluated; else texts with masks of the user's own."""
        self.tokenizer = tokenizer
        left = tokenizer.padding_side == "left"
        features: list[MaskedFeature] = []
        queries: list[MaskedFeature] = []
        if "number" in rows or self.options.objective == "clm":
            numbers = rows.get("number", range(len(rows["text"])))
            for feature in self.encode(rows, tokenizer, window):
                features.append({**feature, "row": numbers[feature["sample"]]})
            for feature in self.features_for_epoch(features, tokenizer, EVAL_SEED, 0, 1):
                feature["targets"] = feature.pop("labels")
                feature["padded_left"] = left
                queries.append(feature)
            return queries
        frame = Frame.of(tokenizer, False)
        for sample, ids in enumerate(token_ids(tokenizer, rows["text"])):
            for start, end in slices(len(ids), window.max_tokens - frame.size):
                sequence = flat(frame.put_around(ids[start:end]), 0 if start else len(ids), 0)
                queries.append(cast(MaskedFeature, {**sequence, "sample": sample, "padded_left": left}))
        return queries

    def decode(self, outputs: Outputs, features: Sequence[MaskedFeature]) -> list[Any]:
        """Of each sequence how well its masks were predicted; where nobody knows them, the best predictions."""
        if "target_losses" in outputs:
            return [_scores(outputs, number, feature) for number, feature in enumerate(features)]
        logits = _token_logits(outputs)
        decoded: list[Any] = []
        for number, feature in enumerate(features):
            length = len(feature["input_ids"])
            own = logits[number, -length:] if feature["padded_left"] else logits[number, :length]
            if "targets" not in feature:
                decoded.append(self._fills(own, feature["input_ids"]))
                continue
            targets = torch.tensor(feature["targets"])
            masked_positions = targets != IGNORED
            log_probabilities = own[masked_positions].log_softmax(1)
            right = int((log_probabilities.argmax(1) == targets[masked_positions]).sum())
            loss = -float(log_probabilities.gather(1, targets[masked_positions, None]).double().sum())
            sums = {"loss": loss, "tokens": int(masked_positions.sum()), "right": right}
            if self.order:
                label = feature["next_sentence_label"]
                sums |= {"pairs": int(label != IGNORED), "pairs_wrong": int(label == 1)}
                sums |= {"pairs_right": int(label == int(_pair_logits(outputs)[number].argmax()))}
            decoded.append(sums)
        return decoded

    def merge(self, row: Mapping[str, Value], features: Sequence[MaskedFeature], parts: Sequence[Any]) -> Answer:
        """The sums of an evaluated row; predictions for each mask of a text; the mean log-probability of its tokens."""
        if "targets" not in features[0]:
            return {"fills": [fill for part in parts for fill in part]}
        sums = {name: sum(part[name] for part in parts) for name in parts[0]}
        if "number" in row:
            return sums
        return {"log_probability": -sums["loss"] / max(sums["tokens"], 1), "tokens": sums["tokens"]}

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"fills": "text", "log_probability": "number", "tokens": "whole"}

    def _fills(self, logits: torch.Tensor, ids: Sequence[int]) -> list[list[dict[str, Any]]]:
        """The best tokens for each mask of a sequence."""
        assert self.tokenizer is not None  # `encode_query` made the sequence
        tokenizer = self.tokenizer
        masks = [position for position, token in enumerate(ids) if token == tokenizer.mask_token_id]
        best = logits[masks].softmax(1).topk(min(TOP, logits.shape[1]), dim=1)
        return [
            [{"token": tokenizer.decode([token]).strip(), "score": score} for token, score in zip(*both, strict=True)]
            for both in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    # Evaluation.

    @property
    def metric_columns(self) -> tuple[str, ...]:
        return ()

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        """Loss, perplexity and accuracy over all masked tokens; of pairs, the share that was recognized.

        Next to it is the share of the more frequent kind of pair, which one gets without looking.
        """
        sums = {name: sum(answer[name] for answer in predictions) for name in predictions[0]}
        loss = _share(sums["loss"], sums["tokens"])
        metrics = {
            "accuracy": _share(sums["right"], sums["tokens"]),
            "loss": loss,
            "perplexity": math.exp(min(loss, 700)),
        }
        if "words" in sums:
            metrics["word_perplexity"] = math.exp(min(_share(sums["loss"], sums["words"]), 700))
        if not self.order:
            return metrics
        pairs, wrong = sums["pairs"], sums["pairs_wrong"]
        of_pairs = {
            "accuracy": _share(sums["pairs_right"], pairs),
            "chance": _share(max(wrong, pairs - wrong), pairs),
            "pairs": pairs,
        }
        return {**metrics, **{f"{self.order}_{name}": value for name, value in of_pairs.items()}}

    @classmethod
    def row_scores(cls, options: MaskedOptions, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """The share of a row's masked tokens that was predicted; 1 where none was masked."""
        return [answer["right"] / answer["tokens"] if answer["tokens"] else 1.0 for answer in predictions]


def _whole_documents(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[MaskedFeature]:
    """One feature a document, whole; words are what spaces separate."""
    frame = Frame.of(tokenizer, False)
    features: list[MaskedFeature] = []
    for sample, (text, ids) in enumerate(zip(texts, token_ids(tokenizer, texts), strict=True)):
        whole = {**flat(frame.put_around(ids), len(ids), 0), "sample": sample, "words": len(text.split())}
        features.append(cast(MaskedFeature, whole))
    return features


def _scores(outputs: Outputs, number: int, feature: MaskedFeature) -> dict[str, float]:
    """How well the tokens of a document were predicted, by a model that scores targets itself."""
    targets = torch.tensor(feature["targets"])
    places = slice(-len(targets), None) if feature["padded_left"] else slice(len(targets))
    known = targets != IGNORED
    right = int((outputs["target_ranks"][number, places][known] == 0).sum())
    loss = float(outputs["target_losses"][number, places].double().sum())
    return {"loss": loss, "tokens": int(known.sum()), "right": right, "words": feature["words"]}


def _next_tokens(ids: Sequence[int], backward: bool = False) -> list[int]:
    """What is read after each token."""
    return [IGNORED, *ids[:-1]] if backward else [*ids[1:], IGNORED]


def _token_logits(outputs: Outputs) -> torch.Tensor:
    """The logits of the vocabulary at each token; a model with a stock head for pairs has another name for them."""
    return outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]


def _pair_logits(outputs: Outputs) -> torch.Tensor:
    """The two logits of each pair: as it should be, or not."""
    name = next(name for name in ("pair_logits", "seq_relationship_logits", "sop_logits") if name in outputs)
    return outputs[name]


def _mean(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy where there is a label; 0 where there is none.

    Args:
        logits: Those of every label, or of those alone that are not ignored.
    """
    labelled = labels != IGNORED
    if logits.dim() > labels.dim():
        logits = logits[labelled]
    total = F.cross_entropy(logits.float(), labels[labelled], reduction="sum")
    return total / labelled.sum().clamp(min=1)


def _share(total: float, count: float) -> float:
    return total / count if count else math.nan


TASK = Masked
