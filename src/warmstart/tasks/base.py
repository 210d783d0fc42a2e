"""What a task is: columns, options, head, encoding, loss, decoding and metrics, in one class of one file.

`Task` has what every task needs. What only some tasks do, such as searching documents or reading a long text in
windows, is in `tasks.shared.protocols`: a task does it by having those methods, and callers ask with `isinstance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from typing_extensions import TypedDict  # pydantic reads no TypedDict of typing before Python 3.12

from warmstart.data.schema import Row, Schema, Value
from warmstart.errors import DataError, Location, RecipeError
from warmstart.options import Options
from warmstart.text.windows import METHODS, Window

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase

    from warmstart.models.prompts import PromptUse

Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""Rows as columns, by name; what their values are follows from the kinds of the schema's columns."""
Answer: TypeAlias = dict[str, Any]
"""A model's answer to one row; `answer_schema` names its fields, and the first is the answer proper."""
Input: TypeAlias = Any
"""What a user passes to `predict` as one text; `parse_input` makes a row of it, or refuses it."""
Batch: TypeAlias = dict[str, Any]
"""Padded tensors by name; `labels` may hold several, by the names of the loss's parts."""
Outputs: TypeAlias = "Mapping[str, torch.Tensor]"
"""What a model computes for a batch, by name."""
LossFunction: TypeAlias = Callable[..., Any]
"""A function of outputs and labels: the mean over a batch, or a mean for each part of the loss by its name."""
Averaging = Literal["softmax", "sigmoid", "mean"]
"""What is averaged over the members of an ensemble: probabilities, from logits of one label (`softmax`) or of several
(`sigmoid`), or the outputs themselves (`mean`)."""
MIN_HEADLINE = 0.05
"""The headline below which a run counts as failed, where its task knows no better."""
EXAMPLE = "Alice left the book in Paris."


class Feature(TypedDict, total=False):
    """One encoded row, or one window of it; a task adds the token ids and what else its head reads."""

    tokens: int
    """How many tokens the row has; 0 in all of its windows but the first."""
    cut: int
    """How many of those are seen nowhere."""
    sample: int
    """Which of the rows that were encoded together it belongs to, where a row may have several features."""
    length: int
    """The length that batches are formed by, where it is not that of its own token ids."""


class FlatFeature(Feature):
    """A feature with one sequence of tokens."""

    input_ids: list[int]


class NestedFeature(Feature):
    """A feature with several sequences of tokens: slices of a text, or texts that belong together."""

    input_ids: list[list[int]]


class TextFeature(Feature):
    """A text in one sequence, or in slices."""

    input_ids: list[int] | list[list[int]]


class ErrorTable(TypedDict):
    """A table of one kind of error, for people."""

    title: str
    note: str
    columns: list[str]
    rows: list[list[Any]]


AnyFeature: TypeAlias = Mapping[str, Any]
"""A feature, whatever the task is."""
OptionsT = TypeVar("OptionsT", bound=Options)
FeatureT = TypeVar("FeatureT", bound=Feature)


class Task(ABC, Generic[OptionsT, FeatureT]):
    """One kind of thing to learn, fitted to one data set (its labels, its options)."""

    name: ClassVar[str]
    """The name of the file that holds the task, or of its entry point."""
    options_class: ClassVar[type[Options]]
    pipeline_tag: ClassVar[str] = "feature-extraction"
    """What the Hugging Face Hub calls a model of this task."""
    auto_class: str
    """The `transformers` Auto class whose head fits."""
    headline: str
    """The metric that is shown first, and by which runs are compared."""
    window_methods: ClassVar[tuple[str, ...]] = METHODS
    """The methods of `Window` that it supports."""
    new_tokens: tuple[str, ...] = ()
    """Tokens of its own that are added to the tokenizer."""
    separate_texts: bool = False
    """Whether each text of a pair is an input of its own, as a bi-encoder reads them."""
    pooling: str = "auto"
    """The tokens that the head reads, as `Pooling` names them, where the task decides that."""
    max_batch: ClassVar[int | None] = None
    """The most sequences that are computed at once, where the outputs of one are large."""
    single_choice: bool = False
    """Whether an answer is the most probable of several by a softmax over `logits`: a `label` with its `probability`
    among `probabilities`. Only such answers can be calibrated, and withheld where the model is not sure."""
    answer_fields: ClassVar[tuple[str, ...]] = ()
    """The fields of an answer that are the answer itself, not how sure it is: they are left empty where it is withheld,
    and rows are scored by them. Empty for all."""
    reads_words: ClassVar[bool] = False
    """Whether its head reads words of a text, not the whole of it, which encoders of sentences were not trained for."""
    supports_r_drop: bool = True
    """Whether two passes over one batch can be compared, as R-Drop does."""
    has_row_labels: bool = False
    """Whether each row has one label of several, by which a supervised contrastive loss compares the rows."""
    rows_independent: ClassVar[bool] = True
    """Whether the score of a row is its own, and not that of a group of rows."""
    row_score_name: ClassVar[str] = ""
    """What the mean of the rows' scores is, where it is not the headline; empty if it means nothing to a reader."""
    confusion_unit: ClassVar[str] = "rows"
    """What a confusion matrix counts."""
    stores_row_scores: ClassVar[bool] = False
    """Whether the scores of rows are stored with predictions, since true and predicted answers do not suffice."""

    def __init__(self, options: OptionsT, pair: bool) -> None:
        self.options = options
        self.pair = pair
        self.auto_class = self.auto_class_for(options)

    # The data and the model.

    @classmethod
    @abstractmethod
    def schema(cls, options: OptionsT) -> Schema:
        """The columns to read."""

    @classmethod
    @abstractmethod
    def from_answers(
        cls, options: OptionsT, answers: Iterable[Any], pair: bool, config: PreTrainedConfig | None = None
    ) -> Self:
        """Fit the task to the training answers: collect the labels they have.

        Args:
            pair: Whether the rows have two texts.
            config: The config of a model whose head is reused; its labels must be the data's.
        """

    @classmethod
    @abstractmethod
    def from_config(cls, options: OptionsT, pair: bool, config: PreTrainedConfig) -> Self:
        """The task of a saved model, by its config."""

    @classmethod
    def auto_class_for(cls, options: OptionsT) -> str:
        """The Auto class, where it depends on the options."""
        return cls.auto_class

    @abstractmethod
    def config_kwargs(self) -> dict[str, Any]:
        """What the model's config must hold: labels, `problem_type`."""

    @classmethod
    def prompt_uses(cls, options: OptionsT) -> Mapping[str, PromptUse]:
        """The recipe fields that hold a prompt for its texts, and what an encoder knows such a text as.

        Empty for a task that takes no prompt, as one whose answers are positions in the text.
        """
        return {}

    # Training.

    @abstractmethod
    def encode(self, rows: Columns, tokenizer: PreTrainedTokenizerBase, window: Window) -> list[FeatureT]:
        """Rows as columns → one feature a row, or several, with the answers where the rows have them."""

    @abstractmethod
    def collate(self, features: Sequence[FeatureT], tokenizer: PreTrainedTokenizerBase) -> Batch:
        """Features → one padded batch of tensors."""

    def loss(self, label_smoothing: float = 0.0) -> LossFunction | None:
        """A loss of the task's own, the mean over a batch; None for the head's.

        A loss of several parts gives each by its name, the mean over what `CountsLossItems` counts; the parts are
        summed.

        Args:
            label_smoothing: Share of the target that is spread over all labels.
        """
        if label_smoothing:
            raise RecipeError(
                f"training.label_smoothing: found {label_smoothing}, but {self.name} has no labels to spread it over"
            )
        return None

    def r_drop_logits(self, outputs: Outputs, labels: torch.Tensor | None) -> torch.Tensor:
        """The logits whose distributions R-Drop compares, one row for each of the batch."""
        return outputs["logits"]

    # Predicting.

    @abstractmethod
    def decode(self, outputs: Outputs, features: Sequence[FeatureT]) -> list[Any]:
        """What a batch's outputs mean for each of its features: the answer, or what `merge` makes the answer of."""

    def merge(self, row: Mapping[str, Value], features: Sequence[FeatureT], parts: Sequence[Any]) -> Answer:
        """The answer to a row, from what was decoded for each of its features."""
        answer: Answer = parts[0]
        return answer

    @property
    @abstractmethod
    def answer_schema(self) -> dict[str, str]:
        """The fields of an answer: `text` (lists and mappings as JSON), `number`, or `whole` number."""

    @classmethod
    def ensemble_averaging(cls, options: OptionsT) -> Averaging | None:
        """How the outputs of several models become one answer; None where no mean of outputs is an answer."""
        return None

    def confidence(self, answer: Answer) -> float | None:
        """How sure the model is of an answer; None where the task has no such number."""
        return float(answer["probability"]) if "probability" in answer else None

    # Inputs of users.

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The columns that a row to be answered has."""
        return self.schema(self.options).without_answers().names

    def parse_input(self, text: Input, number: int) -> Row:
        """What a user passes as text `number`, as a row of the input columns."""
        wanted = {"text", "pair"} if self.pair else {"text"}
        if isinstance(text, str | Mapping):
            row: Row = {"text": text} if isinstance(text, str) else dict(text)
        else:
            both = isinstance(text, Sequence) and len(text) == 2
            row = dict(zip(("text", "pair"), text, strict=True)) if both else {}
        if set(row) & {"text", "pair"} != wanted or not all(isinstance(row[name], str) for name in wanted):
            form = 'a pair of texts, as ("first", "second")' if self.pair else "one text, a string"
            raise DataError(f"text {number}: found {text!r}; this model reads {form}")
        if not row["text"].strip():
            raise DataError(f"text {number} is empty; expected text, as in a file")
        return row

    def parse_cli(self, words: Sequence[str]) -> list[Input]:
        """The texts of a command line, in the form that `parse_input` takes."""
        if not self.pair:
            return list(words)
        if len(words) % 2:
            raise RecipeError(f"predict: found {len(words)} texts; this model reads pairs, so give them two by two")
        return list(zip(words[::2], words[1::2], strict=True))

    @property
    def example(self) -> Input:
        """An input that the model can answer, for a server's page and its warm-up."""
        return [EXAMPLE, "Nobody wants it back."] if self.pair else EXAMPLE

    @classmethod
    def placeholder(cls, pair: bool) -> Input:
        """An input in words, such as "a text", for the next command to type and for model cards."""
        return ("a text", "its pair") if pair else "a text"

    # Evaluation.

    @property
    def metric_columns(self) -> tuple[str, ...]:
        """The columns that `compute_metrics` needs: the answers, and whatever else a metric looks at."""
        return self.schema(self.options).answers[:1]

    @abstractmethod
    def compute_metrics(self, columns: Columns, predictions: Sequence[Answer]) -> dict[str, float]:
        """How good predictions are, given the rows' metric columns; the headline comes first."""

    @classmethod
    def row_scores(cls, options: OptionsT, columns: Columns, predictions: Sequence[Answer]) -> Sequence[float]:
        """How good each answer is by itself, more is better; by default 1 where it is the true one, and 0 elsewhere.

        NaN where a row is scored together with another; whoever averages leaves it out.

        Args:
            columns: The metric columns; where scores are not stored, the true answers alone.
            predictions: Their answer fields, at least.
        """
        truth = next(iter(columns.values()))
        both = zip(truth, predictions, strict=True)
        return [float(next(iter(answer.values())) == true) for true, answer in both]

    @classmethod
    def why_failed(
        cls, options: OptionsT, headline: str, value: float, truth: Sequence[Any] | None, predictions: Sequence[Answer]
    ) -> str:
        """Why a run of this task counts as failed, or nothing where it has learned something.

        Args:
            value: That of the headline, NaN where it is undefined.
            truth: The true answers, where the task has any.
        """
        return "" if value >= MIN_HEADLINE else f"the {headline} is {value:.3f}"

    def check_answers(self, answers: Iterable[Any], where: Callable[[int], Location]) -> None:
        """Refuse answers that this task has not learned; `where(i)` names the row of answer i."""
        return


AnyTask: TypeAlias = Task[Any, Any]
"""A task, whatever its options and features are."""
