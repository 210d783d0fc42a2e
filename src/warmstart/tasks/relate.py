"""relate: which relation holds between two marked entities of a text, and in which direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import torch

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError, RecipeError, nearest
from warmstart.options import Options
from warmstart.tasks.base import Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.entity_markers import TYPES, marked
from warmstart.tasks.shared.error_tables import table
from warmstart.tasks.shared.labels import CHOSEN, LabelMap
from warmstart.tasks.shared.marked_text import TOKENS, Part, tokenised
from warmstart.tasks.shared.text_inputs import pad, pad_labels
from warmstart.text.windows import Frame, Range, Window, around, take

LEAST = 8
"""Tokens of a text that a window must show: each entity, marked; twice as many where their types are shown."""


class RelateOptions(Options):
    """Options of `task: {name: relate, …}`."""

    show: Literal["markers", "signs", "mask"] = "markers"
    """How the encoder sees which the entities are: between `markers`, new tokens `[E1] … [/E1]` and `[E2] … [/E2]`
    (Baldini Soares et al. 2019); between plain `signs`, `$ … $` and `# … #` (Wu & He 2019), which need no new token; or
    as a `mask`, a new token `[E1]` or `[E2]` in place of the entity, so that its name cannot be learned by heart."""
    marker: Literal["plain", "typed"] = "plain"
    """Whether what an entity is stands before it too, in words between `*` or `^`: `typed` reads the columns
    `first_type` and `second_type`, as person and city (Zhou & Chen 2022, "An Improved Baseline for Sentence-level
    Relation Extraction", §3.2), in lower case and with a space for `_`."""
    read: Literal["starts", "spans", "cls"] = "starts"
    """What the head reads: the two `starts`, the tokens at which the entities begin (Baldini Soares et al. 2019); the
    first token and the mean of each entity (`spans`, Wu & He 2019); or what a stock head reads, in BERT the first token
    (`cls`): such a model opens in plain `transformers`."""
    other: str | None = "Other"
    """The label of rows without a relation, which is left out of macro and micro F1."""


class Relate(Task[RelateOptions]):
    """Which relation."""

    name = "relate"
    options_class = RelateOptions
    auto_class = "AutoModelForSequenceClassification"
    headline = "macro_f1"
    keeps = ("head",)
    likeliest = True

    def __init__(self, options: RelateOptions, labels: LabelMap) -> None:
        super().__init__(options, pair=False)
        self.labels = labels
        self.new_tokens = TOKENS[options.show]
        self.tokens = {"starts": "marked", "spans": "cls+marked", "cls": "auto"}[options.read]

    @classmethod
    def mixing(cls, options: RelateOptions) -> Mixing | None:
        return "softmax"

    @classmethod
    def schema(cls, options: RelateOptions) -> Schema:
        types = [Column(name, "label", f"what the {name.partition('_')[0]} entity is, as person") for name in TYPES]
        return Schema(
            (
                Column("text", "text", "the text, with <e1>…</e1> and <e2>…</e2> in it"),
                Column("first", "ranges", "where the first entity is, in a text without marks", required=False),
                Column("second", "ranges", "where the second entity is, in a text without marks", required=False),
                *(types if options.marker == "typed" else ()),
                Column("label", "label", "the relation, as Cause-Effect(e1,e2)", answer=True),
            ),
            _check_relation,
        )

    @classmethod
    def learn(cls, options: RelateOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        labels = LabelMap.of(answers)
        if saved is not None:
            labels = LabelMap.of_config(saved.id2label).same_as(labels)
        if "other" in options.model_fields_set and options.other is not None and options.other not in labels.ids:
            raise RecipeError(
                f"task.other: {options.other!r} is not a label of the data; {nearest(options.other, labels.names)}"
            )
        return cls(options, labels)

    @classmethod
    def of(cls, options: RelateOptions, pair: bool, config: Any) -> Self:
        return cls(options, LabelMap.of_config(config.id2label))

    def config(self) -> dict[str, Any]:
        return {**self.labels.config(), "problem_type": "single_label_classification"}

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        row = {"text": given} if isinstance(given, str) else given
        if not isinstance(row, Mapping) or not isinstance(row.get("text"), str):
            raise DataError(f"text {number}: found {given!r}; expected a text with marks, or a mapping with 'text'")
        if wrong := _check_relation(row):
            raise DataError(f"text {number}: {wrong[1]}", wrong[0])
        found = marked(row)
        places = ([{"start": start, "end": end}] for start, end in found.entities)
        plain = {"text": found.text, **dict(zip(("first", "second"), places, strict=True))}
        if self.options.marker == "plain":
            return plain
        types = {name: row.get(name) for name in TYPES}
        if not all(isinstance(one, str) and one.strip() for one in types.values()):
            raise DataError(
                f"text {number}: found {given!r}; this model reads what the entities are, so expected a mapping with "
                "'text', 'first_type' and 'second_type'"
            )
        return {**plain, **types}

    @property
    def example(self) -> Any:
        types = {} if self.options.marker == "plain" else {"first_type": "person", "second_type": "place"}
        return {"text": "<e1>Alice</e1> left the book in <e2>Paris</e2>.", **types}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        frame = Frame.of(tokenizer, pair=False)
        room = window.max_tokens - frame.size
        least = LEAST * (1 if self.options.marker == "plain" else 2)
        if room < least:
            raise RecipeError(
                f"window.max_tokens: found {window.max_tokens}; two marked entities want {frame.size + least}"
            )
        names = [name for name in ("text", "first", "second", *TYPES) if name in rows]
        found = [
            marked(dict(zip(names, row, strict=True))) for row in zip(*(rows[name] for name in names), strict=True)
        ]
        features = [self._feature(parts, frame, room) for parts in tokenised(found, self.options.show, tokenizer)]
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = self.labels.ids[answer]
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch: dict[str, Any] = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([feature["labels"] for feature in features])
        if "marks" in features[0]:
            batch["marks"] = pad_labels([feature["marks"] for feature in features], tokenizer, 0)
        return batch

    def loss(self, smoothing: float = 0.0) -> Callable[..., Any] | None:
        if not smoothing:
            return None

        def own(outputs: Any, labels: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.cross_entropy(outputs["logits"].float(), labels, label_smoothing=smoothing)

        return own

    def decode(self, logits: Any) -> list[dict[str, Any]]:
        return [self.labels.answer(row) for row in torch.as_tensor(logits).double().softmax(dim=-1).tolist()]

    @property
    def gives(self) -> dict[str, str]:
        return dict(CHOSEN)

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return metrics.relations(answers, [given["label"] for given in predictions], self.options.other)

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """How often the relation is right and its direction wrong."""
        counts: dict[str, Counter[str]] = {}
        for answer, given in zip(columns["label"], predictions, strict=True):
            same = metrics.relation_of(answer) == metrics.relation_of(given["label"])
            how = "right" if answer == given["label"] else "turned" if same else "other"
            counts.setdefault(metrics.relation_of(answer), Counter())[how] += 1
        rows: list[list[Any]] = [
            [name, one.total(), *(one[how] for how in ("right", "turned", "other"))] for name, one in counts.items()
        ]
        rows.sort(key=lambda row: (-row[3], row[0]))
        names = ["relation", "rows", "right", "wrong direction", "other relation"]
        return [table("Direction", "the right relation in the wrong direction, most first", names, rows)]

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], str]) -> None:
        self.labels.check(([answer] for answer in answers), where)

    def _feature(self, parts: Sequence[Part], frame: Frame, room: int) -> Feature:
        """What the encoder gets of a text: all of it, or what is around its entities."""
        ids: list[int] = []
        marks: list[int] = []
        stretches: dict[int, Range] = {}
        for part in parts:
            if part.entity:
                start, _ = stretches.get(part.entity, (len(ids), 0))
                stretches[part.entity] = (start, len(ids) + len(part.ids))
            ids += part.ids
            marks += self._marks(part, parts)
        shown = around(len(ids), room, *stretches.values())
        kept = take(ids, shown)
        feature: Feature = {
            **frame.put_around(kept),
            "tokens": sum(len(part.ids) for part in parts if part.role in {"text", "entity"}),
            "cut": len(ids) - len(kept),
        }
        if self.options.read != "cls":
            feature["marks"] = [*(0 for _ in frame.before), *take(marks, shown), *(0 for _ in frame.after)]
        return feature

    def _marks(self, part: Part, parts: Sequence[Part]) -> list[int]:
        """Which tokens of a part the head reads, by the number of their entity."""
        spans = self.options.read == "spans" and any(
            one.ids for one in parts if (one.entity, one.role) == (part.entity, "entity")
        )
        if spans:
            return [part.entity if part.role == "entity" else 0] * len(part.ids)
        return [part.entity if part.role == "open" and not place else 0 for place in range(len(part.ids))]


def _check_relation(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's marks."""
    try:
        found = marked(row)
    except DataError as error:
        return error.kind, str(error)
    for token in TOKENS["markers"]:
        if any(token in text for text in (found.text, *(found.types or ()))):
            return "mark-reserved", f"the row holds {token}, which is kept for the encoder. Write it otherwise."
    return None


TASK = Relate
