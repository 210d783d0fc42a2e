"""score: a number for a text or a pair of texts (regression)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NotRequired, Self, cast

import torch

from warmstart.data.schema import Row, Schema
from warmstart.errors import ModelError
from warmstart.tasks.base import Answer, Averaging, Batch, Columns, ErrorTable, Outputs, Task, TextFeature
from warmstart.tasks.shared import metrics
from warmstart.tasks.shared.error_tables import quantiles, table
from warmstart.tasks.shared.label_columns import label_columns
from warmstart.tasks.shared.pair_encoder import PairOptions, reads_separately
from warmstart.tasks.shared.prompts import PROMPT
from warmstart.tasks.shared.text_inputs import PAIR, TEXT, encode_texts, pad
from warmstart.tasks.shared.token_origins import FeatureOrigins, text_origins
from warmstart.text.windows import Window

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

    from warmstart.models.linear_probe import ProbeKind
    from warmstart.models.prompts import PromptUse

MIN_PEARSON = 0.1
"""The correlation below which a regression has failed."""


class ScoreOptions(PairOptions):
    """Options of `task: {name: score, …}`."""


class ScoreFeature(TextFeature):
    """A text with its number."""

    labels: NotRequired[float]


class Score(Task[ScoreOptions, ScoreFeature]):
    """What number; trained on it as it is, by mean squared error; of several that are probable, on their mean."""

    name = "score"
    options_class = ScoreOptions
    pipeline_tag = "text-classification"
    auto_class = "AutoModelForSequenceClassification"
    headline = "pearson"
    answer_fields = ("score",)
    row_score_name = "minus the mean absolute error of a row"
    taught_columns: ClassVar[Mapping[str, str]] = {"label": "score"}

    def __init__(self, options: ScoreOptions, pair: bool) -> None:
        super().__init__(options, pair)
        self.separate_texts = reads_separately(options, pair)

    @classmethod
    def schema(cls, options: ScoreOptions) -> Schema:
        return Schema((TEXT, PAIR, *label_columns("number", "the number to predict")))

    @classmethod
    def from_answers(
        cls, options: ScoreOptions, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        if config is not None and config.num_labels != 1:
            raise ModelError(
                f"the model has a head for {config.num_labels} labels, and a score needs one number; "
                "set head.reuse: false"
            )
        return cls(options, pair)

    @classmethod
    def from_config(cls, options: ScoreOptions, pair: bool, config: PreTrainedConfig) -> Self:
        return cls(options, pair)

    def config_kwargs(self) -> dict[str, Any]:
        names = {"id2label": {0: "score"}, "label2id": {"score": 0}}
        return {"num_labels": 1, **names, "problem_type": "regression"}

    @classmethod
    def prompt_uses(cls, options: ScoreOptions) -> Mapping[str, PromptUse]:
        return {PROMPT: "classification"}

    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[ScoreFeature]:
        features = cast(list[ScoreFeature], encode_texts(rows, tokenizer, window, self.pair, self.separate_texts))
        for feature, answer in zip(features, rows.get("label", ()), strict=False):
            feature["labels"] = float(answer)
        return features

    def collate(self, features: Sequence[ScoreFeature], tokenizer: PreTrainedTokenizerBase) -> Batch:
        batch: Batch = pad(features, tokenizer)
        if "labels" in features[0]:
            batch["labels"] = torch.tensor([feature["labels"] for feature in features], dtype=torch.float)
        return batch

    def decode(self, outputs: Outputs, features: Sequence[ScoreFeature]) -> list[Answer]:
        return [{"score": score} for score in outputs["logits"].double().reshape(-1).tolist()]

    def token_origins(self, row: Row, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[FeatureOrigins]:
        return text_origins(row, tokenizer, window, self.pair, self.separate_texts)

    def explained_output(self, outputs: Outputs, features: Sequence[ScoreFeature], answer: Answer) -> torch.Tensor:
        """The number itself."""
        return outputs["logits"].reshape(-1)[0]

    @property
    def probe_kind(self) -> ProbeKind:
        return "ridge"

    @property
    def label_names(self) -> Sequence[str]:
        return ()

    @property
    def answer_schema(self) -> dict[str, str]:
        return {"score": "number"}

    @classmethod
    def ensemble_averaging(cls, options: ScoreOptions) -> Averaging | None:
        return "mean"

    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        return metrics.numbers(list(columns["label"]), [answer["score"] for answer in predictions])

    @classmethod
    def row_scores(cls, options: ScoreOptions, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """Minus the absolute error."""
        both = zip(columns["label"], predictions, strict=True)
        return [-abs(float(truth) - float(answer["score"])) for truth, answer in both]

    @classmethod
    def why_failed(
        cls,
        options: ScoreOptions,
        headline: str,
        value: float,
        truth: Sequence[Any] | None,
        predictions: Sequence[Answer],
    ) -> str:
        """A run whose numbers have next to nothing to do with the true ones has failed."""
        if value >= MIN_PEARSON:
            return ""
        return f"the correlation is {value:.3f}" if value == value else "the correlation is undefined"

    def error_tables(self, columns: Columns, predictions: Sequence[Answer]) -> list[ErrorTable]:
        """How far off the numbers are, by the range of the true one."""
        both = [(float(true), answer["score"]) for true, answer in zip(columns["label"], predictions, strict=True)]
        rows: list[list[Any]] = []
        for low, high, chosen in quantiles([true for true, _ in both], 5):
            errors = [both[index][1] - both[index][0] for index in chosen]
            sizes = [abs(error) for error in errors]
            means = [sum(errors) / len(errors), sum(sizes) / len(sizes), max(sizes)]
            rows.append([f"{low:g} to {high:g}", len(chosen), *means])
        note = "predicted number minus true number, by the range of the true one"
        return [table("Residuals", note, ["range", "rows", "mean error", "mean size", "largest"], rows)]


TASK = Score
