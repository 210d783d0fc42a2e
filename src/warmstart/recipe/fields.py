"""The sections of a recipe: data, window, head, checkpoints; each field's meaning is under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart.options import OneOf, Options, Value, Values
from warmstart.runtime import plugins
from warmstart.text import windows

Fraction = Annotated[float, Field(ge=0, lt=1)]
Format = Literal["csv", "tsv", "jsonl", "json", "conll", "qrels", "txt", "parquet", "xlsx", "ods"]


_READING = (
    "format",
    "header",
    "delimiter",
    "sheet",
    "quotes",
    "encoding",
    "extra_columns",
    "document",
    "label_separator",
)
"""Fields that say how a file is read, of all data or of one file."""


class FileOptions(Options):
    """A file that is read differently from the rest of the data."""

    file: str | list[str]
    """A path, a list of paths, or `hub:NAME[@REVISION][:CONFIG]:SPLIT`."""
    columns: dict[str, str | list[str]] = {}
    """Like `data.columns`, for this file; columns not given here are taken from there."""
    format: Format | None = None
    """Like `data.format`, for this file."""
    header: bool | None = None
    """Like `data.header`, for this file."""
    delimiter: str | None = None
    """Like `data.delimiter`, for this file."""
    sheet: str | None = None
    """Like `data.sheet`, for this file."""
    quotes: Literal["double", "none"] | None = None
    """Like `data.quotes`, for this file."""
    encoding: str | None = None
    """Like `data.encoding`, for this file."""
    extra_columns: Literal["refuse", "ignore"] | None = None
    """Like `data.extra_columns`, for this file."""
    document: Literal["paragraph", "line"] | None = None
    """Like `data.document`, for this file."""
    label_separator: str | None = None
    """Like `data.label_separator`, for this file."""
    queries: str | list[str] | FileOptions | None = None
    """Like `data.queries`, for this file."""
    documents: str | list[str] | FileOptions | None = None
    """Like `data.documents`, for this file."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_name_columns(cls, value: object) -> object:
        return _column_names(value)


class SplitOptions(Options):
    """Rows held out from the training file for test and dev, if those have no file of their own."""

    test: Fraction = 0.1
    """Share of the training rows held out for testing, if there is no `data.test`; 0 for none."""
    dev: Fraction = 0.0
    """Share of the training rows held out as dev rows, if there is no `data.dev`."""
    seed: int | None = None
    """Seed of the split. Default: the recipe's `seed`."""


class DataOptions(Options):
    """Where the rows are and how they are read."""

    train: str | list[str] | FileOptions
    """The training rows: a path, a list of paths, `hub:NAME[@REVISION][:CONFIG]:SPLIT`, or a mapping with `file`."""
    dev: str | list[str] | FileOptions | None = None
    """Rows for early stopping, model selection and tuning. Default: `data.split.dev` of the training rows."""
    test: str | list[str] | FileOptions | None = None
    """Rows to evaluate the finished model on. Default: `data.split.test` of the training rows, held out."""
    add: str | list[str] | FileOptions | None = None
    """More training rows, such as those that `warmstart ask` chose, once they are labelled. They come after the split:
    no row of `data.train` moves to another part, and none of these is held out."""
    columns: dict[str, str | list[str]] = {}
    """Which column of the file to use for each column of the task, such as `{text: review, label: stars}`; without a
    header, by its number. A list of texts can come from several columns: `{endings: [choice0, choice1]}`; the last
    cells may be empty."""
    format: Format | None = None
    """The file format: csv, tsv, jsonl, json, conll, qrels, txt, parquet, xlsx or ods. Default: by the suffix."""
    header: bool = True
    """Whether the first line of a csv or tsv file, or the first row of a sheet, has the column names. Without a header,
    columns are numbered from 1."""
    delimiter: str | None = None
    """The character between the cells of a csv or tsv file, such as `;`. Default: a comma in csv, a tab in tsv."""
    sheet: str | None = None
    """The sheet of an xlsx or ods file. Default: the only one."""
    quotes: Literal["double", "none"] | None = None
    """Whether `"` encloses cells (double) or is an ordinary character (none). Default: double in csv, none in tsv."""
    encoding: str = "utf-8"
    """The encoding of text files; it is never guessed."""
    extra_columns: Literal["refuse", "ignore"] = "refuse"
    """What to do with a row that has more cells than the first one: `refuse` it, or `ignore` the extra cells."""
    document: Literal["paragraph", "line"] = "paragraph"
    """What counts as a document in a txt file: a `paragraph`, all lines up to a blank one, or a `line`."""
    label_separator: str | None = None
    """What separates several labels in one cell, such as `;`."""
    queries: str | list[str] | FileOptions | None = None
    """For `rank`, if rows refer to queries by id (`query_id`, or a qrels file): the file with their texts, in the
    columns `id` and `text`; without a header, in the first two columns."""
    documents: str | list[str] | FileOptions | None = None
    """The same for documents (`document_id`); all of them are then candidates when the model is evaluated."""
    prompt: Annotated[str, Field(max_length=1000)] = "auto"
    """What is put before every text, such as `"query: "`, for an encoder that was trained with it; empty for nothing.
    In a pair that is read as one input, it comes before the first text. auto: what the encoder's
    `config_sentence_transformers.json` says, or else what its family (such as E5) is known to be trained with, or else
    nothing. The prompt counts as the beginning of the text, also where the text is truncated or sliced. For `classify`
    and `score`; `rank` has `query_prompt` and `document_prompt`, and other tasks take none."""
    drop: list[Literal["unlabelled", "empty", "leaked"]] = []
    """Rows to leave out, counted and recorded: `unlabelled` training rows, `empty` rows, which are blank or have no
    text, and `leaked` training rows, which are also in dev or test."""
    split: SplitOptions = SplitOptions()
    """Rows held out from the training file for test and dev, if those have no file of their own."""
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training rows to train on, for learning curves: stratified by label, with at least one text of each
    label, and nested, so that with one seed the rows of 0.01 are among those of 0.1."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_name_columns(cls, value: object) -> object:
        return _column_names(value)

    def reading(self, part: str) -> Values | None:
        """How to read train, dev or test: `files` and the reading options, or None where there is no such file."""
        value = getattr(self, part)
        if value is None:
            return None
        own = value if isinstance(value, FileOptions) else FileOptions(file=value)
        options = {name: getattr(self, name) if getattr(own, name) is None else getattr(own, name) for name in _READING}
        files = (own.file,) if isinstance(own.file, str) else tuple(own.file)
        texts = {
            name: self._texts(getattr(own, name) or getattr(self, name), options) for name in ("queries", "documents")
        }
        return {"files": files, "columns": {**self.columns, **own.columns}, **options, **texts}

    def _texts(self, value: str | list[str] | FileOptions | None, rows: Mapping[str, Value]) -> Values | None:
        """How to read a file of queries or documents: as the rows' own, but for its format and columns."""
        if value is None:
            return None
        own = value if isinstance(value, FileOptions) else FileOptions(file=value)
        header = rows["header"] if own.header is None else own.header
        names = ("delimiter", "quotes", "encoding", "extra_columns")
        return {
            "files": (own.file,) if isinstance(own.file, str) else tuple(own.file),
            "columns": own.columns or ({} if header else {"id": "1", "text": "2"}),
            "format": own.format,
            "header": header,
            **{name: rows[name] if getattr(own, name) is None else getattr(own, name) for name in names},
        }


class WindowOptions(Options):
    """Which tokens of a text the encoder sees."""

    method: Literal["auto", "head", "tail", "head+tail", "slices"] = "auto"
    """What the encoder sees of a text that is too long: its `head`, its `tail`, both (`head+tail`), or all of it, in
    `slices` whose vectors are pooled. `auto`: `head`, or `slices` where a rule
    for few long texts says so. In a pair that is too long, the longer text is truncated first, then both
    equally; with `slices`, the second text is sliced, and the head of the first is repeated in each slice, where it
    takes up at most half of the tokens."""
    max_tokens: Annotated[int, Field(ge=4)] | None = None
    """The maximum number of tokens in an input, including special tokens. Default: as many as the encoder supports, but
    at most 512."""
    head_tokens: Annotated[int, Field(ge=1)] | None = None
    """With `head+tail`, how many tokens come from the head; the rest come from the tail. Default: 128 of 510, as in Sun
    et al. (2019), and the same proportion, rounded up, for other lengths."""
    slice_tokens: Annotated[int, Field(ge=4)] | None = None
    """With `slices`, how many tokens each slice has, including special tokens. Default: `max_tokens`."""
    overlap: Annotated[int, Field(ge=0)] | None = None
    """With `slices`, how many tokens each slice shares with the one before it. Default: 0, but a quarter of the window
    for `tag` and `span`, which read long texts in overlapping windows whatever the `method`. `masked` also reads long
    texts in windows, but without overlap."""
    max_slices: Annotated[int, Field(ge=1)] | None = None
    """With `slices`, the maximum number of slices per text; the rest is truncated, counted and reported. Default: no
    limit."""
    slice_pooling: Literal["mean", "max", "attention"] = "mean"
    """With `slices`, how their vectors are pooled: by their `mean`, their `max`, or a mean weighted by learned
    `attention`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.slice_pooling != "mean" and self.method != "slices":
            raise ValueError(
                f"slice_pooling: found {self.slice_pooling}, but method is {self.method}; "
                "set method: slices, or leave slice_pooling out"
            )
        if self.slice_tokens is not None and self.method not in {"slices", "auto"}:
            raise ValueError(
                f"slice_tokens: found {self.slice_tokens}, but method is {self.method}; "
                "set method: slices, or leave slice_tokens out"
            )
        if self.slice_tokens is not None and self.slice_tokens > (self.max_tokens or self.slice_tokens):
            raise ValueError(f"slice_tokens: found {self.slice_tokens}, but max_tokens is {self.max_tokens}; lower it")
        # Whether an overlap without slices makes sense depends on the task.
        if self.method == "slices" or self.overlap is None:
            windows.Window(
                self.max_tokens or 1, self.method_or_head, self.head_tokens, self.overlap or 0, self.max_slices
            )
        return self

    @property
    def method_or_head(self) -> str:
        """The method, which is `head` where no rule has decided otherwise."""
        return "head" if self.method == "auto" else self.method


class HeadOptions(Options):
    """The head on top of the encoder, and what it reads."""

    type: Literal["auto", "linear", "pooler", "mlp", "bilstm"] = "auto"
    """The head: one `linear` layer; the `pooler` that stock heads have before it, a layer with an activation such as
    tanh; two layers with an activation between them (`mlp`); or a `bilstm` over the tokens, followed by a linear layer.
    auto: the encoder's stock head if it fits `layers` and `pooling` and the encoder is not frozen. Otherwise `pooler`,
    if only `layers` does not fit: so every layer is read as the stock head reads the last one; else `linear`."""
    layers: str | int = "last"
    """The layers the head reads: `last`; one layer by its number (0 for the embeddings, 1 for the first block, -1 for
    the last); `concat-N`, `sum-N`, `mean-N` or `max-N` of the last N layers, or of `all`, such as `concat-4`;
    `concat-first-N`, `mean-first-N` and so on of the first N; `first-N` or `last-N`, short for their concatenation; or
    `scalar-mix`, a learned weighted mean."""
    bilstm_layers: Annotated[int, Field(ge=1, le=64)] = 1
    """How many layers a `bilstm` has, with dropout between them."""
    bilstm_size: Annotated[int, Field(ge=2, multiple_of=2)] | None = None
    """The size of a `bilstm`'s states, both directions together. Default: that of the vectors it reads."""
    pooling: Annotated[str, OneOf(lambda: ("auto", "final", *plugins.names("poolings")))] = "auto"
    """How the vectors of the tokens are pooled: the first (`cls`), the `last`, the `mean` or `max` of all, a
    concatenation (`last+max+mean`), or a mean weighted by learned `attention`; of a `bilstm`, also the `final` states:
    the forward one of the last token and the backward one of the first. auto: what the encoder's stock head reads;
    for a head of our own, what the encoder's folder names, otherwise `mean`; of a `bilstm`, `final`. The heads of
    `tag` and `span` read every token."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """A separate peak learning rate for the head. Default: `training.learning_rate`, as for the layers below it."""
    init: Literal["auto", "random", "zero", "linear-probe"] = "auto"
    """Initial weights of the head's last layer: `random`; `zero`, so that all answers start out equally likely; or
    `linear-probe`, the solution of a logistic regression (for `score`, a ridge regression) on the encoder's features
    before training. With `layers.freeze: encoder` that solution is the model, and nothing is trained unless `epochs` or
    `max_steps` is set. auto: by the rules for a new head."""
    refit: bool | None = None
    """Whether the head is solved once more by that regression after training, on the features of the trained encoder.
    For `init: linear-probe`. Default: by the rules for a new head."""
    reuse: bool = True
    """Whether to reuse the head that the model comes with, if its labels are those of the data."""

    @model_validator(mode="after")
    def _lstm_options_need_one(self) -> Self:
        for name in ("bilstm_layers", "bilstm_size"):
            value = getattr(self, name)
            if self.type != "bilstm" and value != type(self).model_fields[name].default:
                raise ValueError(f"{name}: found {value}, but type is {self.type}; set type: bilstm")
        return self

    @model_validator(mode="after")
    def _a_probe_is_linear(self) -> Self:
        if self.init != "linear-probe":
            if self.refit and self.init != "auto":
                raise ValueError(f"refit: found true, but init is {self.init}; set init: linear-probe")
            return self
        for name, value, refused in (
            ("type", self.type, {"pooler", "mlp", "bilstm"}),
            ("pooling", self.pooling, {"attention"}),
            ("layers", self.layers, {"scalar-mix"}),
        ):
            if value in refused:
                raise ValueError(
                    f"{name}: found {value}, but init: linear-probe solves a linear head over fixed features; "
                    "leave one out"
                )
        return self


class CheckpointOptions(Options):
    """When checkpoints are saved, so that training can resume after a crash."""

    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Save every N optimizer steps."""
    every_minutes: Annotated[float, Field(gt=0)] | None = 5
    """Save every N minutes."""
    keep_last: Annotated[int, Field(ge=1)] = 2
    """How many checkpoints to keep; an older one is removed only when a newer one is complete."""
    when_finished: Literal["remove", "keep"] = "remove"
    """What to do with the checkpoints when the run is finished; `keep` also saves one of the last step."""


class TaskChoice(Options, extra="allow"):
    """A task by its name, and its own options."""

    name: str = "classify"
    """The task, such as `classify`; the page *Tasks* lists all of them."""

    @property
    def options(self) -> Values:
        return dict(self.model_extra or {})


def _column_names(value: object) -> object:
    """YAML reads `label: 1` as a number; a column's number is its name."""
    if not isinstance(value, dict):
        return value
    return {
        key: list(map(_column_name, names)) if isinstance(names, list) else _column_name(names)
        for key, names in value.items()
    }


def _column_name(name: object) -> object:
    return str(name) if isinstance(name, int) else name
