"""relate: the relation between two marked entities of a text, and its direction (relation extraction)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NotRequired, Self, cast

import torch
from pydantic import Field
from torch.nn import functional as F

from warmstart.data.schema import Column, Row, Schema
from warmstart.errors import DataError, Location, RecipeError, nearest
from warmstart.models.pooling import POSITIONS
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
from warmstart.tasks.shared import metrics, soft_labels
from warmstart.tasks.shared.entity_markers import TYPES, marked
from warmstart.tasks.shared.error_tables import table
from warmstart.tasks.shared.failures import why_no_better_than_constant
from warmstart.tasks.shared.label_columns import label_columns
from warmstart.tasks.shared.labels import LABEL_ANSWER, LabelMap
from warmstart.tasks.shared.marked_text import TOKENS, Part, appended, tokenized
from warmstart.tasks.shared.text_inputs import flat, pad, pad_labels
from warmstart.text.windows import Frame, Range, Window, ranges_around, take_ranges

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

POOLINGS = {"start": "marked", "mean": "cls+marked", "cls": "auto", "bilstm": POSITIONS}
"""The pooling of our own head, by what it reads."""
NOT_READ = -1
"""The mark of tokens that are no part of the text."""
MIN_TOKENS = 8
"""Tokens of a text that a window must show: each entity, marked; twice as many where their types are shown."""


class RelateOptions(Options):
    """Options of `task: {name: relate, …}`."""

    entity_marking: Literal["markers", "punctuation", "mask"] = "markers"
    """How the entities are marked for the encoder: by `markers`, new tokens `[E1] … [/E1]` and `[E2] … [/E2]` (Baldini
    Soares et al. 2019); by `punctuation`, `$ … $` and `# … #` (Wu & He 2019), which needs no new tokens; or by a
    `mask`, a new token `[E1]` or `[E2]` in place of the entity, so that its name cannot be memorized."""
    typed_markers: bool = False
    """Whether to write the type of an entity before it, in words between `*` or `^` (Zhou & Chen 2022, "An Improved
    Baseline for Sentence-level Relation Extraction", §3.2). The types, such as person and city, are read from the
    columns `first_type` and `second_type`, and written in lower case, with a space for `_`."""
    append_entities: bool = False
    """Whether both entities are written once more after the text, as in `text [SEP] first [SEP] second` (Shi & Lin
    2019), so that the encoder knows the names that a `mask` hides in the text."""
    entity_pooling: Literal["start", "mean", "cls", "bilstm"] = "start"
    """What the head reads: the token at which each entity starts (`start`, Baldini Soares et al. 2019); the first token
    of the text and the `mean` of each entity (Wu & He 2019); what the stock head reads, in BERT the first token
    (`cls`), which gives a model that opens in plain `transformers`; or the final states of a `bilstm` over all tokens
    of the text, each with embeddings of its distance to both entities (Shi & Lin 2019)."""
    no_relation_label: str | None = "Other"
    """The label of rows without a relation, which is excluded from macro and micro F1."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """With soft labels, the temperature at which they are learned: above 1, the less probable relations of a row count
    for more."""


class RelateFeature(FlatFeature):
    """A text with its entities marked, and the id of their relation."""

    marks: NotRequired[list[int]]
    """Which tokens the head reads, by the number of their entity; 0 for the others."""
    labels: NotRequired[int]
    soft: NotRequired[list[float]]
    """The probability of each relation, where rows have soft labels."""


class Relate(Task[RelateOptions, RelateFeature]):
    """Which relation."""

    name = "relate"
    options_class = RelateOptions
    pipeline_tag = "text-classification"
    auto_class = "AutoModelForSequenceClassification"
    headline = "macro_f1"
    window_methods = ("head",)
    single_choice = True
    reads_words = True
    answer_fields = ("label",)
    taught_columns: ClassVar[Mapping[str, str]] = {soft_labels.PROBABILITIES: soft_labels.PROBABILITIES}

    def __init__(self, options: RelateOptions, labels: LabelMap, soft: bool = False) -> None:
        super().__init__(options, pair=False)
        self.soft = soft
        self.labels = labels
        self.new_tokens = TOKENS[options.entity_marking]
        self.pooling = POOLINGS[options.entity_pooling]

    @classmethod
    def schema(cls, options: RelateOptions) -> Schema:
        types = [
            Column(name, "label", f"what the {name.partition('_')[0]} entity is, such as person") for name in TYPES
        ]
        return Schema(
            (
                Column("text", "text", "the text, with <e1>…</e1> and <e2>…</e2> in it"),
                Column("first", "ranges", "the position of the first entity, in a text without marks", required=False),
                Column(
                    "second", "ranges", "the position of the second entity, in a text without marks", required=False
                ),
                *(types if options.typed_markers else ()),
                *label_columns("label", "the relation, such as Cause-Effect(e1,e2)"),
            ),
            _check_relation,
        )

    @classmethod
    def from_answers(
        cls, options: RelateOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        soft, known = False, set[str]()
        for answer in answers:
            soft = soft or soft_labels.is_soft(answer)
            known.update(soft_labels.weighted_labels(answer))
        labels = LabelMap.from_labels(known)
        if config is not None:
            labels = LabelMap.from_config(config.id2label).reused_for(labels)
        name = options.no_relation_label
        if "no_relation_label" in options.model_fields_set and name is not None and name not in labels.ids:
            raise RecipeError(
                f"task.no_relation_label: {name!r} is not a label of the data; {nearest(name, labels.names)}"
            )
        return cls(options, labels, soft)

    @classmethod
    def from_config(cls, options: RelateOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options, LabelMap.from_config(config.id2label))

    def config_kwargs(self) -> dict[str, Any]:
        return {**self.labels.config_kwargs(), "problem_type": "single_label_classification"}

    def parse_input(self, text: Input, number: int) -> Row:
        row = {"text": text} if isinstance(text, str) else text
        if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
            raise DataError(f"text {number}: found {text!r}; expected a text with marks, or a mapping with 'text'")
        if fault := _check_relation(row):
            raise DataError(f"text {number}: {fault[1]}", fault[0])
        plain = marked(row)
        ranges = ([{"start": start, "end": end}] for start, end in plain.entities)
        columns: Row = {"text": plain.text, **dict(zip(("first", "second"), ranges, strict=True))}
        if not self.options.typed_markers:
            return columns
        types = {name: row.get(name) for name in TYPES}
        if not all(isinstance(kind, str) and kind.strip() for kind in types.values()):
            raise DataError(
                f"text {number}: found {text!r}; this model reads what the entities are, so expected a mapping with "
                "'text', 'first_type' and 'second_type'"
            )
        return {**columns, **types}

    @property
    def example(self) -> Input:
        types = {"first_type": "person", "second_type": "place"} if self.options.typed_markers else {}
        return {"text": "<e1>Alice</e1> left the book in <e2>Paris</e2>.", **types}

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        return "<e1>one entity</e1> and <e2>another</e2>"

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[RelateFeature]:
        append = self.options.append_entities
        frame = Frame.of(tokenizer, pair=append)
        room = window.max_tokens - frame.size
        # Each of the appended entities takes a quarter of the room at most, beside what is between them.
        least = MIN_TOKENS * (2 if self.options.typed_markers else 1) * (2 if append else 1) + len(frame.between)
        if room < least:
            raise RecipeError(
                f"window.max_tokens: found {window.max_tokens}; two marked entities need {frame.size + least}"
            )
        names = [name for name in ("text", "first", "second", *TYPES) if name in rows]
        texts = [
            marked(dict(zip(names, row, strict=True))) for row in zip(*(rows[name] for name in names), strict=True)
        ]
        split = tokenized(texts, self.options.entity_marking, tokenizer)
        names_of = appended(texts, frame.between, room // 4, tokenizer) if append else [[] for _ in texts]
        features = [self._feature(parts, frame, room, more) for parts, more in zip(split, names_of, strict=True)]
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = self.labels.ids[answer]
        for feature, answer in zip(features, rows.get(soft_labels.PROBABILITIES, ()), strict=False):
            feature["soft"] = soft_labels.target(answer, self.labels.ids)
        return features

    def collate(self, features: Sequence[RelateFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            soft = "soft" in features[0]
            batch["labels"] = torch.tensor([feature["soft"] if soft else feature["labels"] for feature in features])
        if "marks" in features[0]:
            batch["marks"] = pad_labels([feature["marks"] for feature in features], tokenizer, 0)
        return batch

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        if not label_smoothing and not self.soft:
            return None

        def smoothed(outputs: Outputs, labels: torch.Tensor) -> torch.Tensor:
            scores = outputs["logits"].float()
            if self.soft:
                return soft_labels.soft_cross_entropy(
                    scores, labels, self.options.temperature, label_smoothing=label_smoothing
                )
            return F.cross_entropy(scores, labels, label_smoothing=label_smoothing)

        return smoothed

    def decode(self, outputs: Outputs, features: Sequence[RelateFeature]) -> list[Answer]:
        return [self.labels.answer(row) for row in outputs["logits"].double().softmax(dim=-1).tolist()]

    @property
    def answer_schema(self) -> dict[str, str]:
        return dict(LABEL_ANSWER)

    @classmethod
    def ensemble_averaging(cls, options: RelateOptions) -> Averaging | None:
        return "softmax"

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        predicted = [answer["label"] for answer in predictions]
        return metrics.relations(columns["label"], predicted, self.options.no_relation_label)

    @classmethod
    def why_failed(
        cls,
        options: RelateOptions,
        headline: str,
        value: float,
        truth: Sequence[Any] | None,
        predictions: Sequence[Answer],
    ) -> str:
        """A run that gives one relation to every row has failed."""
        return why_no_better_than_constant(value, truth or (), [answer["label"] for answer in predictions])

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """How often the relation is right and its direction wrong."""
        counts: dict[str, Counter[str]] = {}
        for truth, answer in zip(columns["label"], predictions, strict=True):
            same = metrics.relation_of(truth) == metrics.relation_of(answer["label"])
            kind = "right" if truth == answer["label"] else "turned" if same else "other"
            counts.setdefault(metrics.relation_of(truth), Counter())[kind] += 1
        rows: list[list[Any]] = [
            [name, count.total(), *(count[kind] for kind in ("right", "turned", "other"))]
            for name, count in counts.items()
        ]
        rows.sort(key=lambda row: (-row[3], row[0]))
        names = ["relation", "rows", "right", "wrong direction", "other relation"]
        return [table("Direction", "the right relation in the wrong direction, most first", names, rows)]

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], Location]) -> None:
        self.labels.check(map(soft_labels.weighted_labels, answers), where)

    def _feature(self, parts: Sequence[Part], frame: Frame, room: int, more: Sequence[int]) -> RelateFeature:
        """What the encoder gets of a text: all of it, or what is around its entities; and what is appended to it."""
        ids: list[int] = []
        marks: list[int] = []
        stretches: dict[int, Range] = {}
        for part in parts:
            if part.entity:
                start, _ = stretches.get(part.entity, (len(ids), 0))
                stretches[part.entity] = (start, len(ids) + len(part.ids))
            ids += part.ids
            marks += self._marks(part, parts)
        shown = ranges_around(len(ids), room - len(more), *stretches.values())
        seen = take_ranges(ids, shown)
        total = sum(len(part.ids) for part in parts if part.role in {"text", "entity"})
        feature = cast(RelateFeature, flat(frame.put_around(seen, more), total, len(ids) - len(seen)))
        if self.options.entity_pooling != "cls":
            before, between, after = ([0] * len(tokens) for tokens in (frame.before, frame.between, frame.after))
            rest = [NOT_READ] * (len(more) + len(frame.after)) if more else after
            feature["marks"] = [*before, *take_ranges(marks, shown), *between, *rest]
        return feature

    def _marks(self, part: Part, parts: Sequence[Part]) -> list[int]:
        """Which tokens of a part the head reads, by the number of their entity."""
        has_tokens = any(other.ids for other in parts if (other.entity, other.role) == (part.entity, "entity"))
        if self.options.entity_pooling in {"mean", "bilstm"} and has_tokens:
            return [part.entity if part.role == "entity" else 0] * len(part.ids)
        return [part.entity if part.role == "open" and not position else 0 for position in range(len(part.ids))]


def _check_relation(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's marks."""
    try:
        plain = marked(row)
    except DataError as error:
        return error.kind, str(error)
    for token in TOKENS["markers"]:
        if any(token in text for text in (plain.text, *(plain.types or ()))):
            return "mark-reserved", f"the row holds {token}, which is kept for the encoder. Write it otherwise."
    return None


TASK = Relate
