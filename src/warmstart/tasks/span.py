"""span: the stretch of a context that answers a question (extractive question answering), or that there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field

from warmstart.data.schema import Column, Schema
from warmstart.errors import DataError
from warmstart.options import Options
from warmstart.tasks.base import EXAMPLE, Feature, Mixing, Shown, Task
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import grouped, quantiles, table
from warmstart.tasks.shared.spans import Reading, best_spans, merge, misplaced, nearest_start, shown, stands
from warmstart.tasks.shared.text_inputs import pad
from warmstart.text.alignment import Pieces, Place, pieces, span_to_pieces
from warmstart.text.windows import Frame, Window, covered, take, views


class SpanOptions(Options):
    """Options of `task: {name: span, …}`."""

    answer_tokens: Annotated[int, Field(ge=1)] = 30
    """The most tokens of an answer that is given."""
    best: Annotated[int, Field(ge=1, le=20)] = 1
    """How many candidates are given beside the answer, best first."""
    no_answer: Literal["auto", "allowed", "never"] = "auto"
    """Whether the answer may be that there is none. auto: `allowed` if a training row has none, else `never`."""
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The `no_answer_score` above which no answer is given. None: what is best on dev rows, or 0 without any."""
    f1: Literal["words", "characters"] = "words"
    """What the F1 of an answer counts: `words`, or `characters` for languages written without spaces."""
    units: Literal["word", "character"] = "word"
    """What the tokenizer cuts into pieces: each `word`, as it does by itself, or each `character` alone, so that an
    answer may begin and end anywhere in scripts without spaces."""
    misplaced: Literal["refuse", "nearest"] = "refuse"
    """An answer that does not stand in the context where it says: `refuse` it, or take the `nearest` place where its
    text stands."""


class Span(Task[SpanOptions]):
    """Where the answer stands: the head scores every token as its first and as its last (Devlin et al. 2019, §4.2).

    A context too long is seen in overlapping slices, the question before each. A slice without the answer, and a
    question without one, point at the first token.
    """

    name = "span"
    options_class = SpanOptions
    auto_class = "AutoModelForQuestionAnswering"
    headline = "f1"
    tunes = True
    own_windows = True

    def __init__(self, options: SpanOptions) -> None:
        super().__init__(options, pair=True)
        self.by: Literal["text", "character"] = "text" if options.units == "word" else "character"

    @classmethod
    def mixing(cls, options: SpanOptions) -> Mixing | None:
        return "mean"  # scores are compared across windows, which chances within one are not

    @classmethod
    def schema(cls, options: SpanOptions) -> Schema:
        columns = (
            Column("question", "text", "what is asked"),
            Column("context", "text", "the text that holds the answer"),
            Column("answers", "answers", "the answers, each with its text and start", answer=True),
            Column("id", "label", "what names the question", required=False),
        )
        return Schema(columns, check_places if options.misplaced == "refuse" else check_texts, together=("context",))

    @classmethod
    def learn(cls, options: SpanOptions, answers: Iterable[Any], pair: bool, saved: Any = None) -> Self:
        if options.no_answer == "auto":
            some = any(not answer for answer in answers)
            options = options.model_copy(update={"no_answer": "allowed" if some else "never"})
        return cls(options)

    @classmethod
    def of(cls, options: SpanOptions, pair: bool, config: Any) -> Self:
        return cls(options)

    def config(self) -> dict[str, Any]:
        names = {"id2label": {0: "start", 1: "end"}, "label2id": {"start": 0, "end": 1}}
        return {"num_labels": 2, **names, "problem_type": None}

    def encode(self, rows: Mapping[str, Sequence[Any]], tokenizer: Any, window: Window) -> list[Feature]:
        # Many questions are asked of one context: its tokens are found once.
        contexts = list(dict.fromkeys(rows["context"]))
        known = dict(zip(contexts, pieces(tokenizer, contexts, self.by), strict=True))
        asked = pieces(tokenizer, rows["question"], self.by)
        frame = Frame.of(tokenizer, pair=True)
        features: list[Feature] = []
        for number, (question, context) in enumerate(zip(asked, rows["context"], strict=True)):
            found = _windows(question.ids, known[context], frame, tokenizer, window)
            answers = rows["answers"][number] if "answers" in rows else None
            if answers is not None:
                targets = _targets(answers, context, known[context])
                longest = max(len(feature["input_ids"]) for feature in found)
                for feature in found:
                    _aim(feature, targets)
                    # The last window is shorter and seldom holds the answer: a batch of such would teach "none" alone.
                    feature["length"] = longest
            features += [{**feature, "of": number} for feature in found]
        return features

    def collate(self, features: Sequence[Feature], tokenizer: Any) -> dict[str, Any]:
        batch = pad(features, tokenizer)
        if "start_positions" in features[0]:
            width = batch["attention_mask"].shape[1]
            left = tokenizer.padding_side == "left"
            shifts = [width - len(feature["input_ids"]) if left else 0 for feature in features]
            for name in ("start_positions", "end_positions"):
                places = [feature[name] + shift for feature, shift in zip(features, shifts, strict=True)]
                batch[name] = torch.tensor(places)
        return batch

    def row(self, given: Any, number: int) -> Mapping[str, Any]:
        names = ("question", "context")
        row = given
        if not isinstance(given, Mapping):
            row = dict(zip(names, given, strict=True)) if isinstance(given, tuple | list) and len(given) == 2 else {}
        if not all(isinstance(row.get(name), str) for name in names):
            form = 'a question and its context, as {"question": "…", "context": "…"} or ("…", "…")'
            raise DataError(f"text {number}: found {str(given)[:80]!r}; this model reads {form}")
        for name in names:
            if not row[name].strip():
                raise DataError(f"text {number}: the {name} is empty; expected text, as in a file")
        return {name: row[name] for name in names}

    @property
    def example(self) -> Any:
        return {"question": "Where is the book?", "context": EXAMPLE}

    def competing(self, outputs: Any, labels: Any) -> Any:
        return torch.stack([outputs["start_logits"], outputs["end_logits"]], dim=1)

    def read(self, outputs: Mapping[str, Any], features: Sequence[Feature]) -> list[Reading]:
        found = []
        for starts, ends, feature in zip(outputs["start_logits"], outputs["end_logits"], features, strict=True):
            size = len(feature["input_ids"])
            own = slice(len(starts) - size, None) if feature["padded_left"] else slice(0, size)
            starts, ends = starts[own], ends[own]
            first, low, high = feature["shows"]
            inside = slice(first, first + high - low)
            spans = best_spans(starts[inside], ends[inside], feature["places"][low:high], self.options.answer_tokens)
            found.append(Reading(spans, float(starts[feature["none"]] + ends[feature["none"]])))
        return found

    def merge(self, row: Mapping[str, Any], features: Sequence[Feature], parts: Sequence[Reading]) -> dict[str, Any]:
        found = merge(parts)
        allowed = self.options.no_answer == "allowed"
        scores = torch.tensor([*(score for score, _ in found.spans), *([found.none] if allowed else [])]).double()
        chances = scores.softmax(dim=0).tolist()
        given = [
            {"answer": row["context"][start:end], "start": start, "end": end, "score": chance}
            for (_, (start, end)), chance in zip(found.spans, chances, strict=False)
        ]
        doubt = found.none - found.spans[0][0] if found.spans else None
        if doubt is None or (allowed and doubt > (self.options.threshold or 0.0)):
            best: dict[str, Any] = {"answer": "", "start": None, "end": None, "score": chances[-1] if allowed else 0.0}
        else:
            best = given[0]
        return {**best, "no_answer_score": doubt, "best": given[: self.options.best]}

    def scores(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[float]:
        return [self._f1(gold, one["answer"]) for gold, one in zip(columns["answers"], predictions, strict=True)]

    @property
    def gives(self) -> dict[str, str]:
        place = {"answer": "text", "start": "whole", "end": "whole", "score": "number"}
        return {**place, "no_answer_score": "number", "best": "text"}

    def metrics(self, answers: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        gold = [[answer["text"] for answer in row] for row in answers]
        return metrics.answers(gold, [given["answer"] for given in predictions], self.options.f1 == "characters")

    def diagnose(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> list[Shown]:
        """F1 by the length of the answer and the question's first word, and questions without an answer."""
        gold, scores = columns["answers"], self.scores(columns, predictions)
        there = [index for index, answers in enumerate(gold) if answers]
        lengths = [len(gold[index][0]["text"]) for index in there]
        found = [(f"{low:g} to {high:g}", [there[one] for one in some]) for low, high, some in quantiles(lengths, 4)]
        tables = [grouped("Answer length", "characters of the first right answer", "characters", found, scores)]
        if "question" in columns:
            words: dict[str, list[int]] = {}
            for index, question in enumerate(columns["question"]):
                words.setdefault(question.split()[0].lower(), []).append(index)
            most = sorted(words.items(), key=lambda item: -len(item[1]))[:10]
            tables.append(grouped("First word", "of the question; the ten most frequent", "word", most, scores))
        if len(there) < len(gold):
            said = [bool(given["answer"]) for given in predictions]
            pairs = [(bool(answers), one) for answers, one in zip(gold, said, strict=True)]
            rows = [[name, *(pairs.count((has, one)) for one in (True, False))] for name, has in _SIDES]
            tables.append(table("No answer", "questions, by what is right", ["right is", "given", "none given"], rows))
        return tables

    def tune(self, columns: Mapping[str, Sequence[Any]], predictions: Sequence[Mapping[str, Any]]) -> Self:
        """The threshold of the best F1 on dev rows, if it is not said and some of them have no answer."""
        rows = [(gold, one) for gold, one in zip(columns["answers"], predictions, strict=True) if one["best"]]
        has = [bool(gold) for gold, _ in rows]
        if self.options.no_answer != "allowed" or self.options.threshold is not None or all(has):
            return self
        scores = [self._f1(gold, given["best"][0]["answer"]) for gold, given in rows]
        threshold = metrics.no_answer_threshold(scores, [given["no_answer_score"] for _, given in rows], has)
        return type(self)(self.options.model_copy(update={"threshold": threshold}))

    def _f1(self, gold: Sequence[Mapping[str, Any]], given: str) -> float:
        return metrics.found_answer([answer["text"] for answer in gold], given, self.options.f1 == "characters")[1]


def check_texts(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's answers, wherever they are said to stand."""
    for answer in row.get("answers") or ():
        if not answer["text"].strip():
            return "answer-blank", f"{_named(row)}an answer has no text. Expected some, or no answer at all, `[]`."
        if nearest_start(row["context"], answer) is None:
            what = f"{_named(row)}{misplaced(row['context'], answer)}"
            return "answer-place", f"{what}. Correct the answer, or remove it."
    return None


def check_places(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's answers: each must stand in the context where it says."""
    if wrong := check_texts(row):
        return wrong
    for answer in row.get("answers") or ():
        if not stands(row["context"], answer):
            what = f"{_named(row)}{misplaced(row['context'], answer)}"
            return "answer-place", f"{what}. Correct its start, or take the nearest with --set task.misplaced=nearest"
    return None


def _named(row: Mapping[str, Any]) -> str:
    return f"question {shown(row['id'])}: " if row.get("id") else ""


def _windows(question: Sequence[int], context: Pieces, frame: Frame, tokenizer: Any, window: Window) -> list[Feature]:
    """A feature for each slice of the context.

    Each has the places of all tokens, and `shows`: where in the input the slice begins, and which tokens it is of.
    """
    shown = views(window, frame, len(question), len(context.ids))
    total = len(question) + len(context.ids)
    seen = sum(covered(one for view in shown for one in view[text]) for text in (0, 1))
    features: list[Feature] = []
    for asked, part in shown:
        low, high = part[0] if part else (0, 0)
        before = take(question, asked)
        feature: Feature = dict(frame.put_around(before, context.ids[low:high]))
        feature["shows"] = (len(frame.before) + len(before) + len(frame.between), low, high)
        feature["none"] = _none(feature["input_ids"], tokenizer.cls_token_id)
        feature["places"] = context.places
        feature["padded_left"] = tokenizer.padding_side == "left"
        feature["tokens"], feature["cut"] = (0, 0) if features else (total, total - seen)
        features.append(feature)
    return features


def _none(ids: Sequence[int], special: int | None) -> int:
    """The place that stands for no answer: the tokenizer's CLS token, wherever it puts that, else the first of all."""
    return ids.index(special) if special in ids else 0


def _targets(answers: Sequence[Mapping[str, Any]], context: str, found: Pieces) -> list[Place]:
    """The tokens of each answer, from the first to before the last."""
    targets = []
    for answer in answers:
        start = nearest_start(context, answer) or 0
        tokens = span_to_pieces(found.places, start, start + len(answer["text"]))
        if tokens is None:
            what = f"the answer {shown(answer['text'])} at {start} of {shown(context)}"
            raise DataError(f"{what} has no token: this model's tokenizer drops its characters. Remove the row.")
        targets.append(tokens)
    return targets


def _aim(feature: Feature, targets: Sequence[Place]) -> None:
    """Put in what is to be learned: the place of the first answer that the window shows whole, or of none."""
    offset, low, high = feature.pop("shows")
    none = feature.pop("none")
    del feature["places"], feature["padded_left"]
    inside = (
        (offset + first - low, offset + stop - 1 - low) for first, stop in targets if low <= first and stop <= high
    )
    feature["start_positions"], feature["end_positions"] = next(inside, (none, none))


_SIDES = (("an answer", True), ("no answer", False))

TASK = Span
