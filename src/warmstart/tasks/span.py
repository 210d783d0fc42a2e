"""span: the answer to a question in a context (extractive question answering), or that the context has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NotRequired, Self, cast

import torch
from pydantic import Field

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
    FlatFeature,
    Input,
    Outputs,
    Task,
)
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import f1_by_group, quantiles, table
from warmstart.tasks.shared.explained_outputs import span_output
from warmstart.tasks.shared.protocols import ReadsWindows
from warmstart.tasks.shared.spans import (
    SpanCandidates,
    best_spans,
    describe_misplaced,
    is_at_start,
    merge_candidates,
    nearest_start,
    shortened,
)
from warmstart.tasks.shared.text_inputs import flat, pad
from warmstart.tasks.shared.token_origins import FeatureOrigins, question_origins
from warmstart.text.alignment import CharSpan, TokenizedText, char_span_to_tokens, tokenize_with_offsets
from warmstart.text.windows import Frame, Window, count_covered, take_ranges, views

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase


class SpanOptions(Options):
    """Options of `task: {name: span, …}`."""

    max_answer_tokens: Annotated[int, Field(ge=1)] = 30
    """The maximum number of tokens in an answer."""
    n_best: Annotated[int, Field(ge=1, le=20)] = 1
    """How many candidates are returned with the answer, best first."""
    no_answer: Literal["auto", "allowed", "never"] = "auto"
    """Whether the model may predict that there is no answer. auto: `allowed` if some training row has no answer,
    otherwise `never`."""
    no_answer_threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The `no_answer_score` above which no answer is predicted. Default: tuned on the dev rows, or 0 without dev
    rows."""
    f1_unit: Literal["word", "character"] = "word"
    """The unit in which F1 is counted: `word`, or `character` for languages written without spaces."""
    tokenize_by: Literal["word", "character"] = "word"
    """What is tokenized as a unit: the text as usual (`word`), or each `character` alone, so that an answer may begin
    and end anywhere in a script without spaces."""
    misplaced_answers: Literal["refuse", "nearest"] = "refuse"
    """What to do with an answer that is not at its `start` in the context: `refuse` it, or use the `nearest` occurrence
    of its text."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "max_answer_length": "max_answer_tokens",
        "max_answer_len": "max_answer_tokens",
        "n_best_size": "n_best",
        "top_k": "n_best",
        "null_score_diff_threshold": "no_answer_threshold",
        "version_2_with_negative": "no_answer: allowed",
        "handle_impossible_answer": "no_answer: allowed",
    }


class SpanFeature(FlatFeature):
    """A window of a context with its question, with the target or with what an answer is read by."""

    start_positions: NotRequired[int]
    end_positions: NotRequired[int]
    context_start: NotRequired[int]
    """The position in the input at which the context begins."""
    context_range: NotRequired[tuple[int, int]]
    """Which tokens of the context the window shows."""
    no_answer_position: NotRequired[int]
    """The position that stands for no answer."""
    offsets: NotRequired[list[CharSpan]]
    """The characters of each token of the context."""
    padded_left: NotRequired[bool]


class Span(ReadsWindows, Task[SpanOptions, SpanFeature]):
    """Where the answer is: the head scores every token as its first and as its last (Devlin et al. 2019, §4.2).

    A context too long is read in overlapping windows, the question before each. A window without the answer, and a
    question without one, point at the first token.
    """

    name = "span"
    options_class = SpanOptions
    pipeline_tag = "question-answering"
    auto_class = "AutoModelForQuestionAnswering"
    headline = "f1"
    answer_fields = ("answer",)
    stores_row_scores = True

    def __init__(self, options: SpanOptions) -> None:
        super().__init__(options, pair=True)
        self.by: Literal["text", "character"] = "text" if options.tokenize_by == "word" else "character"

    @classmethod
    def schema(cls, options: SpanOptions) -> Schema:
        columns = (
            Column("question", "text", "the question"),
            Column("context", "text", "the text that may contain the answer"),
            Column("answers", "answers", "the answers, each with its text and start", answer=True),
            Column("id", "label", "the id of the question", required=False),
        )
        check = check_places if options.misplaced_answers == "refuse" else check_texts
        return Schema(columns, check, together=("context",))

    @classmethod
    def from_answers(
        cls, options: SpanOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        if options.no_answer == "auto":
            some = any(not answer for answer in answers)
            options = options.model_copy(update={"no_answer": "allowed" if some else "never"})
        return cls(options)

    @classmethod
    def from_config(cls, options: SpanOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options)

    def config_kwargs(self) -> dict[str, Any]:
        names = {"id2label": {0: "start", 1: "end"}, "label2id": {"start": 0, "end": 1}}
        return {"num_labels": 2, **names, "problem_type": None}

    # Rows to features.

    def parse_input(self, text: Input, number: int) -> Row:
        names = ("question", "context")
        row = text
        if not isinstance(text, Mapping):
            row = dict(zip(names, text, strict=True)) if isinstance(text, tuple | list) and len(text) == 2 else {}
        if not all(isinstance(row.get(name), str) for name in names):
            form = 'a question and its context, as {"question": "…", "context": "…"} or ("…", "…")'
            raise DataError(f"text {number}: found {str(text)[:80]!r}; this model reads {form}")
        for name in names:
            if not row[name].strip():
                raise DataError(f"text {number}: the {name} is empty; expected text, as in a file")
        return {name: row[name] for name in names}

    @property
    def example(self) -> Input:
        return {"question": "Where is the book?", "context": EXAMPLE}

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        return ("a question", "its context")

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[SpanFeature]:
        # Many questions are asked of one context: it is tokenized once.
        contexts = list(dict.fromkeys(rows["context"]))
        tokenized = dict(zip(contexts, tokenize_with_offsets(tokenizer, contexts, self.by), strict=True))
        questions = tokenize_with_offsets(tokenizer, rows["question"], self.by)
        frame = Frame.of(tokenizer, pair=True)
        features: list[SpanFeature] = []
        for sample, (question, context) in enumerate(zip(questions, rows["context"], strict=True)):
            windows = _windows(question.ids, tokenized[context], frame, tokenizer, window)
            answers = rows["answers"][sample] if "answers" in rows else None
            if answers is not None:
                targets = _targets(answers, context, tokenized[context])
                # The last window is shorter and seldom holds the answer: a batch of such would teach "none" alone.
                longest = max(len(feature["input_ids"]) for feature in windows)
                windows = [_with_target(feature, targets, longest) for feature in windows]
            for feature in windows:
                feature["sample"] = sample
            features += windows
        return features

    def collate(self, features: Sequence[SpanFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "start_positions" in features[0]:
            width = batch["attention_mask"].shape[1]
            left = tokenizer.padding_side == "left"
            shifts = [width - len(feature["input_ids"]) if left else 0 for feature in features]
            both = list(zip(features, shifts, strict=True))
            batch["start_positions"] = torch.tensor([feature["start_positions"] + shift for feature, shift in both])
            batch["end_positions"] = torch.tensor([feature["end_positions"] + shift for feature, shift in both])
        return batch

    # Training and predicting.

    def r_drop_logits(self, outputs: Outputs, labels: torch.Tensor | None) -> torch.Tensor:
        return torch.stack([outputs["start_logits"], outputs["end_logits"]], dim=1)

    def decode(self, outputs: Outputs, features: Sequence[SpanFeature]) -> list[SpanCandidates]:
        candidates = []
        for starts, ends, feature in zip(outputs["start_logits"], outputs["end_logits"], features, strict=True):
            size = len(feature["input_ids"])
            own = slice(len(starts) - size, None) if feature["padded_left"] else slice(0, size)
            starts, ends = starts[own], ends[own]
            first, (low, high) = feature["context_start"], feature["context_range"]
            inside = slice(first, first + high - low)
            offsets = feature["offsets"][low:high]
            spans = best_spans(starts[inside], ends[inside], offsets, self.options.max_answer_tokens)
            none = feature["no_answer_position"]
            candidates.append(SpanCandidates(spans, float(starts[none] + ends[none])))
        return candidates

    def merge(
        self, row: Mapping[str, Value], features: Sequence[SpanFeature], parts: Sequence[SpanCandidates]
    ) -> Answer:
        merged = merge_candidates(parts)
        allowed = self.options.no_answer == "allowed"
        scores = torch.tensor([*(score for score, _ in merged.spans), *([merged.no_answer] if allowed else [])])
        probabilities = scores.double().softmax(dim=0).tolist()
        ranked = [
            {"answer": row["context"][start:end], "start": start, "end": end, "score": probability}
            for (_, (start, end)), probability in zip(merged.spans, probabilities, strict=False)
        ]
        no_answer_score = merged.no_answer - merged.spans[0][0] if merged.spans else None
        threshold = self.options.no_answer_threshold or 0.0
        if no_answer_score is None or (allowed and no_answer_score > threshold):
            score = probabilities[-1] if allowed else 0.0
            best: Answer = {"answer": "", "start": None, "end": None, "score": score}
        else:
            best = ranked[0]
        return {**best, "no_answer_score": no_answer_score, "best": ranked[: self.options.n_best]}

    def token_origins(self, row: Row, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[FeatureOrigins]:
        return question_origins(row, tokenizer, window, self.by)

    def explained_output(self, outputs: Outputs, features: Sequence[SpanFeature], answer: Answer) -> torch.Tensor:
        return span_output(outputs["start_logits"], outputs["end_logits"], features, answer)

    @property
    def answer_schema(self) -> dict[str, str]:
        span = {"answer": "text", "start": "whole", "end": "whole", "score": "number"}
        return {**span, "no_answer_score": "number", "best": "text"}

    @classmethod
    def ensemble_averaging(cls, options: SpanOptions) -> Averaging | None:
        return "mean"  # scores are compared across windows, which probabilities within one are not

    def confidence(self, answer: Answer) -> float | None:
        return float(answer["score"])

    # Evaluation.

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        gold = [[answer["text"] for answer in row] for row in columns["answers"]]
        by_character = self.options.f1_unit == "character"
        return metrics.answers(gold, [prediction["answer"] for prediction in predictions], by_character)

    @classmethod
    def row_scores(cls, options: SpanOptions, columns: Columns, predictions: Sequence[Answer]) -> list[float]:
        """F1 of each answer."""
        both = zip(columns["answers"], predictions, strict=True)
        return [_f1(options, gold, prediction["answer"]) for gold, prediction in both]

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """F1 by the length of the answer and the question's first word, and questions without an answer."""
        gold, scores = columns["answers"], self.row_scores(self.options, columns, predictions)
        answered = [index for index, answers in enumerate(gold) if answers]
        lengths = [len(gold[index][0]["text"]) for index in answered]
        groups = [
            (f"{low:g} to {high:g}", [answered[index] for index in some]) for low, high, some in quantiles(lengths, 4)
        ]
        tables = [f1_by_group("Answer length", "characters of the first right answer", "characters", groups, scores)]
        if "question" in columns:
            words: dict[str, list[int]] = {}
            for index, question in enumerate(columns["question"]):
                words.setdefault(question.split()[0].lower(), []).append(index)
            most = sorted(words.items(), key=lambda item: -len(item[1]))[:10]
            tables.append(f1_by_group("First word", "of the question; the ten most frequent", "word", most, scores))
        if len(answered) < len(gold):
            pairs = [(bool(true), bool(given["answer"])) for true, given in zip(gold, predictions, strict=True)]
            sides = (("an answer", True), ("no answer", False))
            rows = [[name, *(pairs.count((has, gives)) for gives in (True, False))] for name, has in sides]
            columns_shown = ["right is", "predicted", "none predicted"]
            tables.append(table("No answer", "questions, by what is right", columns_shown, rows))
        return tables

    @property
    def tunes_on_dev(self) -> bool:
        return self.options.no_answer == "allowed" and self.options.no_answer_threshold is None

    @property
    def needs_dev(self) -> str:
        return ""

    def tune(self, columns: Columns, predictions: Sequence[Answer]) -> Self:
        """The threshold of the best F1 on dev rows, if it is not set and some of them have no answer."""
        rows = [(gold, answer) for gold, answer in zip(columns["answers"], predictions, strict=True) if answer["best"]]
        has = [bool(gold) for gold, _ in rows]
        if not self.tunes_on_dev or all(has):
            return self
        scores = [_f1(self.options, gold, answer["best"][0]["answer"]) for gold, answer in rows]
        threshold = metrics.no_answer_threshold(scores, [answer["no_answer_score"] for _, answer in rows], has)
        return type(self)(self.options.model_copy(update={"no_answer_threshold": threshold}))


def check_texts(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's answers, whatever their `start` is."""
    for answer in row.get("answers") or ():
        if not answer["text"].strip():
            return "answer-blank", f"{_named(row)}an answer has no text. Expected some, or no answer at all, `[]`."
        if nearest_start(row["context"], answer) is None:
            what = f"{_named(row)}{describe_misplaced(row['context'], answer)}"
            return "answer-place", f"{what}. Correct the answer, or remove it."
    return None


def check_places(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a row's answers: each must be in the context at its `start`.

    The name of a check is part of the fingerprint of the rows that were read with it.
    """
    if fault := check_texts(row):
        return fault
    for answer in row.get("answers") or ():
        if not is_at_start(row["context"], answer):
            what = f"{_named(row)}{describe_misplaced(row['context'], answer)}"
            instead = "Correct its start, or take the nearest with --set task.misplaced_answers=nearest"
            return "answer-place", f"{what}. {instead}"
    return None


def _named(row: Mapping[str, Any]) -> str:
    return f"question {shortened(row['id'])}: " if row.get("id") else ""


def _f1(options: SpanOptions, gold: Sequence[Mapping[str, Any]], predicted: str) -> float:
    texts = [answer["text"] for answer in gold]
    return metrics.answer_scores(texts, predicted, options.f1_unit == "character")[1]


def _windows(
    question: Sequence[int], context: TokenizedText, frame: Frame, tokenizer: PreTrainedTokenizerBase, window: Window
) -> list[SpanFeature]:
    """A feature for each window of the context."""
    shown = views(window, frame, len(question), len(context.ids))
    total = len(question) + len(context.ids)
    seen = sum(count_covered(part for view in shown for part in view[text]) for text in (0, 1))
    features: list[SpanFeature] = []
    for question_ranges, context_ranges in shown:
        low, high = context_ranges[0] if context_ranges else (0, 0)
        before = take_ranges(question, question_ranges)
        counts = (0, 0) if features else (total, total - seen)
        feature = cast(SpanFeature, flat(frame.put_around(before, context.ids[low:high]), *counts))
        feature["context_start"] = len(frame.before) + len(before) + len(frame.between)
        feature["context_range"] = (low, high)
        feature["no_answer_position"] = _no_answer_position(feature["input_ids"], tokenizer.cls_token_id)
        feature["offsets"] = context.offsets
        feature["padded_left"] = tokenizer.padding_side == "left"
        features.append(feature)
    return features


def _no_answer_position(ids: Sequence[int], cls_token_id: int | None) -> int:
    """The CLS token, wherever the tokenizer puts it, else the first token."""
    return ids.index(cls_token_id) if cls_token_id in ids else 0


def _targets(answers: Sequence[Mapping[str, Any]], context: str, text: TokenizedText) -> list[tuple[int, int]]:
    """The tokens of each answer, from the first to before the last."""
    targets = []
    for answer in answers:
        start = nearest_start(context, answer) or 0
        tokens = char_span_to_tokens(text.offsets, start, start + len(answer["text"]))
        if tokens is None:
            what = f"the answer {shortened(answer['text'])} at {start} of {shortened(context)}"
            raise DataError(f"{what} has no token: this model's tokenizer drops its characters. Remove the row.")
        targets.append(tokens)
    return targets


def _with_target(feature: SpanFeature, targets: Sequence[tuple[int, int]], length: int) -> SpanFeature:
    """A feature to learn from: the positions of the first answer that the window shows whole, or of none."""
    offset, (low, high), none = feature["context_start"], feature["context_range"], feature["no_answer_position"]
    inside = (
        (offset + first - low, offset + stop - 1 - low) for first, stop in targets if low <= first and stop <= high
    )
    reading = ("context_start", "context_range", "no_answer_position", "offsets", "padded_left")
    target = cast(SpanFeature, {name: value for name, value in feature.items() if name not in reading})
    target["start_positions"], target["end_positions"] = next(inside, (none, none))
    target["length"] = length
    return target


TASK = Span
