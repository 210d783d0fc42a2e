"""The parts of a recipe: data, window, layers, head, training, checkpoints; under each field stands what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart.options import Options
from warmstart.text import windows

Fraction = Annotated[float, Field(ge=0, lt=1)]
Format = Literal["csv", "tsv", "jsonl", "json", "conll", "qrels", "txt", "parquet"]


class File(Options):
    """One file read otherwise than the rest of the data."""

    file: str | list[str]
    """A path, a list of paths, or `hub:NAME[@REVISION][:CONFIG]:SPLIT`."""
    columns: dict[str, str | list[str]] = {}
    """As `data.columns`; what is not said here is taken from there."""
    format: Format | None = None
    """As `data.format`."""
    header: bool | None = None
    """As `data.header`."""
    quotes: Literal["double", "none"] | None = None
    """As `data.quotes`."""
    encoding: str | None = None
    """As `data.encoding`."""
    extra_columns: Literal["refuse", "ignore"] | None = None
    """As `data.extra_columns`."""
    document: Literal["paragraph", "line"] | None = None
    """As `data.document`."""
    label_separator: str | None = None
    """As `data.label_separator`."""
    queries: str | list[str] | File | None = None
    """As `data.queries`."""
    documents: str | list[str] | File | None = None
    """As `data.documents`."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_name_columns(cls, value: Any) -> Any:
        return _column_names(value)


class Split(Options):
    """What is held out of the training file where no file is given for it."""

    test: Fraction = 0.1
    """Share of the training rows held out to test on, if there is no `data.test`; 0 for none."""
    dev: Fraction = 0.0
    """Share of the training rows held out for choices made during training, if there is no `data.dev`."""
    seed: int | None = None
    """Seed that chooses these rows. None: the recipe's `seed`."""


class Data(Options):
    """Where the rows are and how they are read."""

    train: str | list[str] | File
    """What to learn from: a path, a list of paths, `hub:NAME[@REVISION][:CONFIG]:SPLIT`, or a mapping with `file`."""
    dev: str | list[str] | File | None = None
    """Rows for choices made during training. None: `data.split.dev` of the training rows."""
    test: str | list[str] | File | None = None
    """Rows to measure the finished model on. None: `data.split.test` of the training rows, held out."""
    columns: dict[str, str | list[str]] = {}
    """The file's column for each of the task's, as `{text: review, label: stars}`; without a header, its number. For a
    list of texts several columns can be named: `{endings: [choice0, choice1]}`; its last cells may be empty."""
    format: Format | None = None
    """csv, tsv, jsonl, json, conll, qrels, txt or parquet. None: by the file's suffix."""
    header: bool = True
    """Whether the first line of a csv or tsv names the columns. Without, columns are numbered from 1."""
    quotes: Literal["double", "none"] | None = None
    """Whether `"` encloses cells (double) or is text like any other (none). None: double in csv, none in tsv."""
    encoding: str = "utf-8"
    """The encoding of the text files; never guessed."""
    extra_columns: Literal["refuse", "ignore"] = "refuse"
    """What to do with a row that has more cells than the first one."""
    document: Literal["paragraph", "line"] = "paragraph"
    """What a document of a txt file is: a `paragraph`, all that stands between blank lines, or a `line`."""
    label_separator: str | None = None
    """What stands between several labels in one cell, as `|`."""
    queries: str | list[str] | File | None = None
    """For `rank`, where rows name queries by id (`query_id`, or a qrels file): a file of their texts, with the columns
    `id` and `text`; without a header, its first two."""
    documents: str | list[str] | File | None = None
    """The same for documents (`document_id`); all of them are then candidates when the model is measured."""
    drop: list[Literal["unlabelled", "leaked"]] = []
    """Rows left out of training, counted and recorded: `unlabelled` ones, and ones `leaked`, that are in dev or test
    too."""
    split: Split = Split()
    """What is held out of the training file where no file is given for it."""

    @field_validator("columns", mode="before")
    @classmethod
    def _numbers_name_columns(cls, value: Any) -> Any:
        return _column_names(value)

    def reading(self, part: str) -> dict[str, Any] | None:
        """How to read train, dev or test: `files` and the reading options, or None where there is no such file."""
        given = getattr(self, part)
        if given is None:
            return None
        own = given if isinstance(given, File) else File(file=given)
        options = {
            name: getattr(self, name) if getattr(own, name) is None else getattr(own, name)
            for name in ("format", "header", "quotes", "encoding", "extra_columns", "document", "label_separator")
        }
        files = (own.file,) if isinstance(own.file, str) else tuple(own.file)
        texts = {
            name: self._texts(getattr(own, name) or getattr(self, name), options) for name in ("queries", "documents")
        }
        return {"files": files, "columns": {**self.columns, **own.columns}, **options, **texts}

    def _texts(self, given: str | list[str] | File | None, rows: Mapping[str, Any]) -> dict[str, Any] | None:
        """How to read a file of queries or documents: as the rows' own, but for its format and columns."""
        if given is None:
            return None
        own = given if isinstance(given, File) else File(file=given)
        header = rows["header"] if own.header is None else own.header
        names = ("quotes", "encoding", "extra_columns")
        return {
            "files": (own.file,) if isinstance(own.file, str) else tuple(own.file),
            "columns": own.columns or ({} if header else {"id": "1", "text": "2"}),
            "format": own.format,
            "header": header,
            **{name: rows[name] if getattr(own, name) is None else getattr(own, name) for name in names},
        }


class Window(Options):
    """Which tokens of a text the encoder sees."""

    method: Literal["head", "tail", "head+tail", "slices"] = "head"
    """What is kept of a text that is too long: its `head`, its `tail`, both (`head+tail`), or all of it, in `slices`
    that are pooled. In a pair that is too long the longer text is truncated first, then both alike; with `slices` the
    second text is sliced, and the head of the first is repeated in each slice, in at most half of the room."""
    max_tokens: Annotated[int, Field(ge=4)] | None = None
    """The most tokens the encoder sees at once, special tokens included. None: as many as it takes, at most 512."""
    head_tokens: Annotated[int, Field(ge=1)] | None = None
    """With `head+tail`, how many of the kept tokens come from the head; the rest come from the tail. None: 128 of 510,
    as in Sun et al. (2019), and the same share, rounded up, where there is room for more or fewer."""
    overlap: Annotated[int, Field(ge=0)] | None = None
    """With `slices`, how many tokens a slice shares with the one before it. None: 0; but a quarter of the window in the
    tasks `tag` and `span`, which read a long text in overlapping windows whatever `method` says. `masked` reads a long
    text in windows, too, and they don't overlap."""
    max_slices: Annotated[int, Field(ge=1)] | None = None
    """With `slices`, the most slices of a text; what is beyond is truncated, counted and reported. None: all."""
    slice_pooling: Literal["mean", "max", "attention"] = "mean"
    """With `slices`, how their vectors are pooled: their `mean`, their `max`, or a mean weighted by learned
    `attention`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.slice_pooling != "mean" and self.method != "slices":
            raise ValueError(
                f"slice_pooling: found {self.slice_pooling}, but method is {self.method}; "
                "set method: slices, or leave slice_pooling out"
            )
        if self.method == "slices" or self.overlap is None:  # whether an overlap alone is right, the task says
            windows.Window(self.max_tokens or 1, self.method, self.head_tokens, self.overlap or 0, self.max_slices)
        return self


class Lora(Options):
    """Low-rank adapters: a small product of two matrices trained beside each weight of the frozen blocks."""

    rank: Annotated[int, Field(ge=1)] = 8
    """Rank of the product: columns of one matrix and rows of the other."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """Scale of the product, which is divided by the rank. None: twice the rank."""
    dropout: Fraction = 0.0
    """Dropout on the inputs of the product."""


class Layers(Options):
    """Which layers are trained, when, at which learning rate, and which are re-initialized."""

    lr_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Layer-wise learning rate decay: each layer's learning rate is this times that of the layer above it, from the
    head down to the embeddings (discriminative fine-tuning). 1 for one learning rate in all layers."""
    freeze: Annotated[int, Field(ge=0)] | Literal["encoder"] = 0
    """How many of the lowest layers are never trained: 1 freezes the embeddings, 2 the first block too. `encoder`: all
    below the head; its features are then computed once, without dropout, and cached on disk for the head."""
    unfreeze: Literal["all", "gradual", "head-first", "chain-thaw"] = "all"
    """Which layers are trained when: `all` from the start; `gradual`: the head, then one more block a phase from the
    top; `head-first`: the head alone, then all; `chain-thaw`: the head, then each layer alone from the bottom, then
    all."""
    unfreeze_every: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps of a phase of `unfreeze`. None: an epoch."""
    reinit_top: Annotated[int, Field(ge=0)] = 0
    """How many of the top blocks are re-initialized before training, and the pooler with them."""
    reinit_norms: bool = False
    """Re-initialize every layer norm, with weight 1 and bias 0."""
    lora: Lora | None = None
    """Train low-rank adapters instead of the weights of the blocks; needs `peft`."""

    @field_validator("freeze", mode="before")
    @classmethod
    def _a_number_or_the_encoder(cls, value: Any) -> Any:
        if value != "encoder" and (type(value) is not int or value < 0):
            raise ValueError("expected a whole number from 0 on, or encoder")
        return value

    @model_validator(mode="after")
    def _a_frozen_encoder_is_not_trained(self) -> Self:
        if self.freeze == "encoder" and (self.unfreeze != "all" or self.lora or self.reinit_top):
            conflict = next(
                name for name in ("lora", "reinit_top", "unfreeze") if getattr(self, name) not in (None, 0, "all")
            )
            raise ValueError(f"freeze: encoder freezes everything below the head; leave {conflict} out")
        return self


class Head(Options):
    """What is put on top of the encoder, and what it reads."""

    type: Literal["auto", "linear", "mlp", "bilstm"] = "auto"
    """The head: one `linear` layer, two with an activation between them (`mlp`), or a `bilstm` over the tokens and a
    linear layer. auto: the encoder's stock head where it reads what is asked for and the encoder is trained, else
    `linear`."""
    layers: str | int = "last"
    """The layers the head reads: `last`; one by its number (0 the embeddings, 1 the first block, -1 the last);
    `concat-N`, `sum-N`, `mean-N` or `max-N` of the last N, or of `all`, as `concat-4`; `scalar-mix`, a learned mean."""
    pooling: Literal["auto", "cls", "mean", "max", "last", "last+max+mean", "attention"] = "auto"
    """The tokens the head reads: the first (`cls`), the `last`, the `mean` or `max` of all, three of these concatenated
    (`last+max+mean`), or a mean weighted by learned `attention`. auto: what the encoder's stock head reads, else
    `mean`. The heads of `tag` and `span` read every token."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """A peak learning rate for the head alone. None: `training.learning_rate`, as for the layers below it."""
    init: Literal["random", "zero"] = "random"
    """Whether the head's last layer starts from `random` weights, or from `zero`, with every answer equally likely."""
    reuse: bool = True
    """Whether to reuse the head that the model comes with, if its labels are those of the data; false for a new one."""


class Training(Options):
    """How the model is trained."""

    learning_rate: Annotated[float, Field(gt=0)] = 5e-5
    """The peak learning rate."""
    lr_schedule: Literal[
        "linear", "cosine", "constant", "slanted-triangular", "reverse-annealing", "warmup-stable-decay"
    ] = "linear"
    """The learning rate schedule after the warm-up."""
    warmup: Annotated[float, Field(ge=0)] = 0.1
    """Warm-up, over which the learning rate rises to its peak: below 1 a share of all steps, from 1 on a number of
    steps."""
    lr_ratio: Annotated[float, Field(ge=1)] = 32.0
    """How many times smaller than the peak the lowest learning rate is, in `slanted-triangular` and
    `reverse-annealing`."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """How often each row is seen. None: 3 times, or as often as `min_steps` needs."""
    min_steps: Annotated[int, Field(ge=1)] | None = 300
    """Where `epochs` is not set, the fewest optimizer steps: small data is seen as often as that needs. None: no
    minimum."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many optimizer steps, whatever `epochs` says."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Rows of an optimizer step, on each process."""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Instead of `batch_size`: a step takes as many rows of like length as fit this many tokens, on each process."""
    batching: Literal["by-length", "random"] = "by-length"
    """How rows are put into batches: with rows of like length, which leaves little padding, or at random."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW; biases and layer norms are excluded from it."""
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    """The norm that gradients are clipped to; 0 for no clipping."""
    adam_bias_correction: bool = True
    """Adam's bias correction; BERT's original optimizer left it out, and failed with some seeds."""
    label_smoothing: Fraction = 0.0
    """Share of the target spread evenly over all labels."""
    r_drop: Annotated[float, Field(ge=0)] = 0.0
    """Weight of R-Drop's loss, the divergence between two passes with different dropout; 0 for one pass."""
    average_last_epochs: Annotated[int, Field(ge=1)] = 1
    """Average the weights after each of the last so many epochs; 1 for the last weights as they are."""
    early_stopping_patience: Annotated[int, Field(ge=1)] | None = None
    """Evaluate on dev after every epoch, stop after so many in a row without improvement, and keep the best."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Floating-point format of the training. auto: bf16 where the hardware has it, else fp32."""


class Checkpoints(Options):
    """When a training saves a checkpoint, so that it can resume after a kill."""

    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Save every so many optimizer steps."""
    every_minutes: Annotated[float, Field(gt=0)] | None = 5
    """Save whenever so many minutes have passed."""
    keep_last: Annotated[int, Field(ge=1)] = 2
    """How many checkpoints are kept; an older one goes only once a newer one is in its place."""
    when_finished: Literal["remove", "keep"] = "remove"
    """What becomes of them when the run is finished; `keep` saves the last step too."""


class TaskChoice(Options, extra="allow"):
    """A task and its own options."""

    name: str = "classify"
    """What is learned: `classify`, `score`, `tag`, `span`, `rank`, `choose` or `relate`."""

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _column_names(value: Any) -> Any:
    """YAML reads `label: 1` as a number; a column's number is its name."""
    if not isinstance(value, dict):
        return value
    return {
        key: list(map(_column_name, names)) if isinstance(names, list) else _column_name(names)
        for key, names in value.items()
    }


def _column_name(name: Any) -> Any:
    return str(name) if isinstance(name, int) else name
