"""tag: entities in a text, such as people, cities and products (token classification)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, Self, cast

import torch
from torch.nn import functional as F

from warmstart.data.schema import Column, Row, Schema, Value
from warmstart.errors import DataError, Location, RecipeError
from warmstart.models.heads.crf import CRF, load_crf, save_crf
from warmstart.options import Options
from warmstart.tasks.base import (
    Answer,
    Averaging,
    Batch,
    Columns,
    ErrorTable,
    FlatFeature,
    Input,
    LossFunction,
    Outputs,
    Task,
)
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.entities import check_entities, matched, row_f1, segments
from warmstart.tasks.shared.error_tables import table
from warmstart.tasks.shared.explained_outputs import entity_output
from warmstart.tasks.shared.labels import LabelMap
from warmstart.tasks.shared.protocols import ReadsWindows
from warmstart.tasks.shared.tagging import TagWindow, tag_windows, target_tags, tokens_of_units, word_tags
from warmstart.tasks.shared.tagging_units import characters_of, joined, words_of
from warmstart.tasks.shared.text_inputs import no_panic, pad, pad_labels
from warmstart.tasks.shared.token_origins import FeatureOrigins, window_origins
from warmstart.text import tag_schemes as schemes
from warmstart.text.alignment import CharSpan, TokenizedText, join_words, tokenize_with_offsets
from warmstart.text.windows import Frame, Window

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

IGNORED = -100
"""The label of a token that is not scored."""


class TagOptions(Options):
    """Options of `task: {name: tag, …}`."""

    scheme: Literal["BIO", "IOBES"] = "BIO"
    """The tagging scheme that the model learns: `BIO` (first word, other words), or `IOBES`, which also marks last and
    single words. The file may use any scheme: its tags are converted to spans and labels first."""
    subtoken_pooling: Literal["first", "last", "mean"] = "first"
    """Which of a word's tokens determine its tag: the `first`, the `last`, or the `mean` of the scores of all."""
    crf: bool = False
    """Whether to score the tags of a text together, with a linear-chain CRF (Lafferty et al. 2001), so that only valid
    sequences of tags are predicted. Its weights are stored next to the model's; plain `transformers` ignores them and
    gives the scores of each word."""
    tokenize_by: Literal["word", "character"] = "word"
    """What is tagged: each `word` as given in the data; in raw text, runs of letters and digits are words, and any
    other sign and every character of a script without spaces is one by itself. Or each `character`, which is then
    tokenized alone, so that every entity can be predicted exactly."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "label_all_tokens": "subtoken_pooling",
        "aggregation_strategy": "subtoken_pooling",
        "tagging_scheme": "scheme",
        "use_crf": "crf",
    }


class TagFeature(FlatFeature):
    """A window of a text, with the labels of its tokens or with what their scores are read by."""

    labels: NotRequired[list[int]]
    misaligned: NotRequired[int]
    """How many entities of the row begin or end inside a unit; 0 in all of its features but the first."""
    units: NotRequired[list[CharSpan]]
    """The characters of each unit of the text."""
    unit_tokens: NotRequired[list[list[int]]]
    """Of each unit that is read in this window, the tokens that give its tag."""
    padded_left: NotRequired[bool]


class Tag(ReadsWindows, Task[TagOptions, TagFeature]):
    """Spans of a text, each with a label."""

    name = "tag"
    options_class = TagOptions
    pipeline_tag = "token-classification"
    auto_class = "AutoModelForTokenClassification"
    headline = "f1"
    confusion_unit = "entities"
    answer_fields = ("entities",)
    row_score_name = "mean F1 of a row"
    stores_row_scores = True
    reads_words = True
    taught_columns: ClassVar[Mapping[str, str]] = {"entities": "entities"}
    encoding_findings = {
        "misaligned": (
            "entity-inside",
            "{count:,} entities begin or end inside a word, one here first; they are extended to whole words",
        )
    }

    def __init__(self, options: TagOptions, pair: bool, labels: LabelMap) -> None:
        super().__init__(options, pair)
        if options.crf and options.subtoken_pooling == "mean":
            raise RecipeError("task.crf: reads one token a word; set task.subtoken_pooling: first or last")
        self.labels = labels
        types = (schemes.split_tag(name)[1] for name in labels.names if name != "O")
        self.entity_types = LabelMap(tuple(dict.fromkeys(types)))
        self.crf: CRF | None = None

    @classmethod
    def schema(cls, options: TagOptions) -> Schema:
        return Schema(
            (
                Column("text", "text", "the text"),
                Column(
                    "words",
                    "ranges",
                    "the position of each word, if the text is already split into words",
                    required=False,
                ),
                Column("entities", "entities", "the entities: start, end and label of each", answer=True),
            ),
            check_entities,
        )

    @classmethod
    def from_answers(
        cls, options: TagOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        metrics.need_seqeval()
        types = {entity["label"] for answer in answers for entity in answer}
        if not types:
            raise DataError(
                "no training row has an entity, so there is nothing to learn; expected some. Are the tags in another "
                "column (--column entities=NUMBER)?",
                "label-one",
            )
        labels = LabelMap(tuple(schemes.all_tags(options.scheme, sorted(types))))
        if config is not None:
            labels = LabelMap.from_config(config.id2label).reused_for(labels)
        return cls(options, pair, labels)

    @classmethod
    def from_config(cls, options: TagOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options, pair, LabelMap.from_config(config.id2label))

    def config_kwargs(self) -> dict[str, Any]:
        return self.labels.config_kwargs()

    @property
    def ignored_label(self) -> int:
        return IGNORED

    @property
    def scores_tokens_apart(self) -> bool:
        return not self.options.crf

    # The CRF.

    def extend_model(self, model: PreTrainedModel, folder: Path | None) -> PreTrainedModel:
        self.load_tensors(folder)
        if self.crf is not None:
            model.crf = self.crf.to(model.device)
            model.register_forward_hook(_with_crf)
        return model

    def plain_model(self, model: PreTrainedModel) -> PreTrainedModel:
        return model  # the CRF is saved with it, and left out by who opens it without

    def load_tensors(self, folder: Path | None) -> None:
        if self.options.crf:
            self.crf = self._new_crf()
            if folder is not None:
                load_crf(self.crf, folder)

    def save_tensors(self, folder: Path) -> None:
        if self.crf is not None:
            save_crf(self.crf, folder)

    def _new_crf(self) -> CRF:
        """A CRF that knows which tags of the scheme may follow one another."""
        names, fault = self.labels.names, schemes.transition_fault
        scheme = self.options.scheme
        steps = torch.tensor([[not fault(scheme, before, after) for after in names] for before in names])
        starts = torch.tensor([not fault(scheme, "O", name) for name in names])
        return CRF(steps, starts, torch.tensor([not fault(scheme, name, None) for name in names]))

    # Rows to features.

    def parse_input(self, text: Input, number: int) -> Row:
        """A text, or a list of its words; a mapping may have `words`, too."""
        row: Row = {}
        if isinstance(text, str):
            row = {"text": text}
        elif isinstance(text, Mapping):
            row = {name: text[name] for name in ("text", "words") if name in text}
        elif isinstance(text, Sequence) and text and all(isinstance(word, str) and word.strip() for word in text):
            whole, spans = join_words(text)
            row = {"text": whole, "words": [{"start": start, "end": end} for start, end in spans]}
        if not isinstance(row.get("text"), str):
            raise DataError(f"text {number}: found {text!r}; this model reads a text, or a list of words")
        if not row["text"].strip():
            raise DataError(f"text {number} is empty; expected text, as in a file")
        if fault := check_entities(row):
            raise DataError(f"text {number}: {fault[1]}", fault[0])
        return {"words": None, **row}

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[TagFeature]:
        with no_panic():
            frame = Frame.of(tokenizer, False)
            by: Literal["character", "text"] = "character" if self.options.tokenize_by == "character" else "text"
            texts = tokenize_with_offsets(tokenizer, rows["text"], by)
        features: list[TagFeature] = []
        padded_left = tokenizer.padding_side == "left"
        for sample, (text, tokens) in enumerate(zip(rows["text"], texts, strict=True)):
            words = rows["words"][sample] if "words" in rows else None
            units, scored = tokens_of_units(self._units(text, words, tokens), tokens, self.options.subtoken_pooling)
            views = tag_windows(tokens, scored, frame, window)
            if "entities" not in rows:
                for view in views:
                    feature = cast(TagFeature, {**view.feature, "unit_tokens": view.tokens, "units": units})
                    features.append({**feature, "padded_left": padded_left, "sample": sample})
                continue
            tags, misaligned = target_tags(units, rows["entities"][sample], self.options.scheme)
            for view in views:
                first = not features or features[-1]["sample"] != sample
                feature = cast(TagFeature, {**view.feature, "labels": self._token_labels(view, tags)})
                features.append({**feature, "sample": sample, "misaligned": misaligned * first})
        return features

    def collate(self, features: Sequence[TagFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = pad_labels([feature["labels"] for feature in features], tokenizer, IGNORED)
        return batch

    def _units(self, text: str, words: Sequence[Any] | None, tokens: TokenizedText) -> list[CharSpan]:
        """The units of a text, those without a token included."""
        if words is not None and self.options.tokenize_by == "word":
            return [(word["start"], word["end"]) for word in words]
        split = characters_of if self.options.tokenize_by == "character" else words_of
        return joined(split(text), tokens.offsets)

    def _token_labels(self, view: TagWindow, tags: Sequence[str]) -> list[int]:
        """The label of each token of a window; those that give no unit's tag are not scored."""
        labels = [IGNORED] * len(view.feature["input_ids"])
        for unit, tokens in zip(view.units, view.tokens, strict=True):
            for token in tokens:
                labels[token] = self.labels.ids[tags[unit]]
        return labels

    # Training.

    def loss_counts(self, batch: Batch) -> dict[str, int]:
        return {"": int((batch["labels"] != IGNORED).sum())}

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        if self.options.crf and label_smoothing:
            raise RecipeError(
                f"training.label_smoothing: found {label_smoothing}, but task.crf scores whole rows of tags; drop one"
            )

        def mean_over_units(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
            scores, scored = outputs["logits"], labels != IGNORED
            if self.crf is not None:
                # The scored tokens first, in order, as the CRF wants its words.
                order = (~scored).int().argsort(dim=1, stable=True)[:, : max(int(scored.sum(1).max()), 1)]
                chosen = scores.gather(1, order.unsqueeze(2).expand(-1, -1, scores.shape[2]))
                total = -self.crf.log_likelihood(chosen, labels.gather(1, order), scored.gather(1, order)).sum()
            else:
                flat = scores.float().flatten(0, 1)
                total = F.cross_entropy(
                    flat, labels.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing
                )
            return total / scored.sum().clamp(min=1)  # a batch may hold no word that has a token

        return mean_over_units

    # Predicting.

    def decode(self, outputs: Outputs, features: Sequence[TagFeature]) -> list[torch.Tensor]:
        """The scores of each feature's own units, the mean over the tokens that count."""
        decoded = []
        for scores, feature in zip(outputs["logits"], features, strict=True):
            shift = len(scores) - len(feature["input_ids"]) if feature["padded_left"] else 0
            unit_tokens = feature["unit_tokens"]
            tokens = torch.tensor([token + shift for some in unit_tokens for token in some], dtype=torch.long)
            counts = torch.tensor([len(some) for some in unit_tokens], dtype=torch.long)
            unit = torch.repeat_interleave(torch.arange(len(counts)), counts)
            sums = torch.zeros(len(counts), scores.shape[1]).index_add_(0, unit, scores[tokens])
            decoded.append(sums / counts.unsqueeze(1))
        return decoded

    @torch.no_grad()
    def merge(self, row: Mapping[str, Value], features: Sequence[TagFeature], parts: Sequence[torch.Tensor]) -> Answer:
        units, scores = features[0]["units"], torch.cat(list(parts))
        entities = []
        if len(units):
            if self.crf is not None:
                best, probabilities = self.crf.decode(scores), self.crf.marginals(scores)
            else:
                probabilities = scores.softmax(1)
                best = probabilities.argmax(1).tolist()
            each = probabilities.gather(1, torch.tensor(best).unsqueeze(1)).squeeze(1)
            tags = [self.labels.names[tag] for tag in best]
            for first, stop, label in schemes.tags_to_spans(tags, self.options.scheme):
                start, end = units[first][0], units[stop - 1][1]
                entity = {"start": start, "end": end, "label": label, "text": row["text"][start:end]}
                entities.append({**entity, "score": float(each[first:stop].double().mean())})
        if row.get("words") is None:
            return {"entities": entities}
        return {"entities": entities, "tags": word_tags(row["words"], entities, self.options.scheme)}

    def token_origins(self, row: Row, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[FeatureOrigins]:
        by: Literal["character", "text"] = "character" if self.options.tokenize_by == "character" else "text"
        return window_origins(row["text"], tokenizer, window, by)

    def explained_output(self, outputs: Outputs, features: Sequence[TagFeature], answer: Answer) -> torch.Tensor:
        """The log odds of the type of the surest entity, without what a CRF adds."""
        if not answer["entities"]:
            raise DataError("no entity was predicted, so there is nothing to explain")
        entity = max(answer["entities"], key=lambda one: one["score"])
        names = enumerate(self.labels.names)
        tags = [number for number, name in names if name != "O" and schemes.split_tag(name)[1] == entity["label"]]
        return entity_output(outputs["logits"], features, entity, tags)

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"entities": "text", "tags": "text"}

    @classmethod
    def ensemble_averaging(cls, options: TagOptions) -> Averaging | None:
        return None if options.crf else "softmax"

    def confidence(self, answer: Answer) -> float | None:
        """That of the surest entity."""
        return max((float(entity["score"]) for entity in answer["entities"]), default=None)

    # Evaluation.

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        """By seqeval in its strict mode; each row is split where any entity, true or predicted, begins or ends."""
        both = zip(columns["entities"], predictions, strict=True)
        rows = [segments(truth, answer["entities"]) for truth, answer in both]
        return metrics.entities([truth for truth, _ in rows], [predicted for _, predicted in rows])

    @classmethod
    def row_scores(cls, options: TagOptions, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """F1 of each row; 1 where there is nothing to find and nothing was predicted."""
        both = zip(columns["entities"], predictions, strict=True)
        return [row_f1(truth, answer["entities"]) for truth, answer in both]

    def confusion_pairs(self, answers: Sequence[Any], predictions: Sequence[Answer]) -> list[tuple[str, str]]:
        """Types of entities that share a character; `O` where one side has nothing there."""
        both = zip(answers, predictions, strict=True)
        return [(true, given) for truth, answer in both for true, given, _ in matched(truth, answer["entities"])]

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """What is wrong with the entities of each type."""
        kinds = ("right", "boundary", "type", "type and boundary", "missed", "spurious")
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.entity_types.names}
        for truth, answer in zip(columns["entities"], predictions, strict=True):
            for true, given, kind in matched(truth, answer["entities"]):
                counts.setdefault(given if true == "O" else true, Counter())[kind] += 1
        rows = [[name, *(count[kind] for kind in kinds)] for name, count in counts.items()]
        note = "by the type in the data; of spurious ones, by the predicted type"
        return [table("Kinds of error", note, ["label", *kinds], rows)]

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], Location]) -> None:
        self.entity_types.check(([entity["label"] for entity in answer] for answer in answers), where)


def _with_crf(model: PreTrainedModel, inputs: object, outputs: Mapping[str, Any]) -> dict[str, Any] | None:
    """In training, the outputs with the CRF's weights: several processes take what is not in their graph for unused."""
    return {**outputs, "crf": [weight.clone() for weight in model.crf.parameters()]} if model.training else None


TASK = Tag
