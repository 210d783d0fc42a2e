"""The parts of a recipe: data, window, layers, learning, saving. Each field's meaning is the text under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart import windows
from warmstart.options import Options

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
    drop: list[Literal["unlabelled", "shared"]] = []
    """Rows left out of training, counted and recorded: `unlabelled` ones, and ones `shared` with dev or test."""
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

    keep: Literal["head", "tail", "head+tail", "slices"] = "head"
    """What is kept of a text too long: its `head`, its `tail`, both (`head+tail`), or all, in `slices` pooled together.
    Of a pair too long the longer text gives way first, then both alike; with `slices` the second text is sliced,
    and the head of the first is repeated in each slice, at most half of the room."""
    tokens: Annotated[int, Field(ge=4)] | None = None
    """The most tokens the encoder sees at once, special ones included. None: all it can take, at most 512."""
    head: Annotated[int, Field(ge=1)] | None = None
    """With `head+tail`, how many of the kept tokens are the text's first; the rest are its last. None: 128 of 510, as
    Sun et al. (2019) have it, and the same share, rounded up, where there is another room for a text."""
    overlap: Annotated[int, Field(ge=0)] | None = None
    """With `slices`, how many tokens a slice shares with the one before. None: 0; but a quarter of the window in tasks
    that find places in a text, `tag` and `span`, which see a long text in overlapping windows whatever `keep` says.
    `masked` sees a long text in windows, too, and they share nothing."""
    most: Annotated[int, Field(ge=1)] | None = None
    """With `slices`, the most slices a text; what is beyond is cut, counted and told. None: all."""
    pool: Literal["mean", "max", "attention"] = "mean"
    """With `slices`, how their vectors become one: their `mean`, their `max`, or a mean by learned `attention`."""

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        if self.pool != "mean" and self.keep != "slices":
            raise ValueError(f"pool: found {self.pool}, and keep is {self.keep}; say keep: slices, or leave pool out")
        if self.keep == "slices" or self.overlap is None:  # whether an overlap alone is right, the task says
            windows.Window(self.tokens or 1, self.keep, self.head, self.overlap or 0, self.most)
        return self


class Lora(Options):
    """A small product of two matrices learned beside each weight of the blocks, which are held still."""

    rank: Annotated[int, Field(ge=1)] = 8
    """Columns of the one matrix and rows of the other."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """What the product is scaled by, divided by the rank. None: twice the rank."""
    dropout: Fraction = 0.0
    """Share of the inputs of the product that are dropped in training."""


class Layers(Options):
    """Which layers learn, when, at what rate, from what start, and which the head reads."""

    pool: str | int = "last"
    """The layers the head reads: `last`; one by its number (0 the embeddings, 1 the first block, -1 the last);
    `concat-N`, `sum-N`, `mean-N` or `max-N` of the last N, or of `all`, as `concat-4`; `mix`, a learned mean."""
    tokens: Literal["auto", "cls", "mean", "max", "last", "last+max+mean", "attention"] = "auto"
    """The tokens the head reads: the first (`cls`), the `last`, the `mean` or `max` of all, three of these side by side
    (`last+max+mean`), or a learned mean (`attention`). auto: what the encoder's stock head reads, else `mean`. Those of
    `tag` and `span` read every token."""
    head: Literal["auto", "linear", "mlp", "bilstm"] = "auto"
    """What is learned on top: one `linear` layer, two with a bend between (`mlp`), or a `bilstm` over the tokens, then
    one. auto: the encoder's stock head where it reads what is asked for and the encoder learns, else `linear`."""
    decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """What a layer's rate is multiplied by to give that of the layer below, from head to embeddings."""
    head_rate: Annotated[float, Field(gt=0)] | None = None
    """A peak rate for the head alone. None: `learn.rate`, as for the layers below it."""
    freeze: Annotated[int, Field(ge=0)] | Literal["encoder"] = 0
    """How many of the lowest layers never learn: 1 is the embeddings, 2 the first block too. `encoder`: all below the
    head; what it gives is then computed once, without dropout, and kept on disk while the head learns from it."""
    unfreeze: Literal["all", "gradual", "head-first", "chain-thaw"] = "all"
    """Which layers learn when: `all` from the start; `gradual`: the head, then one more block a phase from the top;
    `head-first`: the head alone, then all; `chain-thaw`: the head, then each layer alone from the bottom, then all."""
    unfreeze_every: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps of a phase of `unfreeze`. None: an epoch."""
    renew: Annotated[int, Field(ge=0)] = 0
    """How many of the topmost blocks are drawn anew before training, a pooler with them."""
    norms: Literal["keep", "reset"] = "keep"
    """`reset` starts every norm with gain 1 and bias 0 instead of what pretraining gave it."""
    head_start: Literal["drawn", "zero"] = "drawn"
    """Whether the head's last layer starts from random numbers or from `zero`, every answer equally likely."""
    lora: Lora | None = None
    """Learn a small product of matrices beside each weight of the blocks instead of the weights; wants `peft`."""

    @field_validator("freeze", mode="before")
    @classmethod
    def _a_number_or_the_encoder(cls, value: Any) -> Any:
        if value != "encoder" and (type(value) is not int or value < 0):
            raise ValueError("expected a whole number from 0 on, or encoder")
        return value

    @model_validator(mode="after")
    def _a_still_encoder_is_still(self) -> Self:
        if self.freeze == "encoder":
            if self.unfreeze != "all" or self.lora or self.renew:
                said = next(
                    name for name in ("lora", "renew", "unfreeze") if getattr(self, name) not in (None, 0, "all")
                )
                raise ValueError(f"freeze: encoder holds all below the head still; leave {said} out")
            if self.pool == "mix":
                raise ValueError(
                    "freeze: encoder keeps one layer, or several joined, and mix is learned; choose another pool"
                )
        return self


class Learn(Options):
    """How the model is trained."""

    rate: Annotated[float, Field(gt=0)] = 5e-5
    """The peak learning rate."""
    schedule: Literal["linear", "cosine", "constant", "slanted-triangular", "reverse-annealing", "stable-decay"] = (
        "linear"
    )
    """How the rate goes on after the warm-up."""
    warmup: Fraction = 0.1
    """Share of the steps over which the rate rises to its peak."""
    ratio: Annotated[float, Field(ge=1)] = 32.0
    """How many times smaller than the peak the lowest rate is, in `slanted-triangular` and `reverse-annealing`."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """How often each row is seen. None: 3 times, or as often as `least_steps` needs."""
    least_steps: Annotated[int, Field(ge=1)] | None = 300
    """Where `epochs` is left open, the fewest optimizer steps: small data is seen as often as that needs. None: any."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after so many optimizer steps, whatever `epochs` says."""
    batch: Annotated[int, Field(ge=1)] = 32
    """Rows an optimizer step learns from, on each process."""
    order: Literal["by-length", "random"] = "by-length"
    """How rows come together in a batch: with rows of like length, which leaves little to pad, or by chance."""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Instead of `batch`: a step learns from as many rows of like length as fit so many tokens on each process."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW; biases and norms are left out of it."""
    clip: Annotated[float, Field(ge=0)] = 1.0
    """The norm that gradients are clipped to; 0 for no clipping."""
    bias_correction: bool = True
    """Adam's correction of its first steps; BERT's first optimizer left it out, and failed with some seeds."""
    smoothing: Fraction = 0.0
    """Share of the target spread over all labels (label smoothing)."""
    rdrop: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the difference between two passes with different dropout (R-Drop); 0 for one pass."""
    average: Annotated[int, Field(ge=1)] = 1
    """Take the mean of the weights after each of so many last epochs; 1 for the last weights as they are."""
    stop_early: Annotated[int, Field(ge=1)] | None = None
    """Measure on dev after every epoch, stop when so many in a row are no better, and keep the best."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Number format of the training arithmetic. auto: bf16 where the hardware has it, else fp32."""


class Saves(Options):
    """When a training saves itself, so that it can go on after a kill."""

    steps: Annotated[int, Field(ge=1)] | None = None
    """Save every so many optimizer steps."""
    minutes: Annotated[float, Field(gt=0)] | None = 5
    """Save whenever so many minutes have passed."""
    keep: Annotated[int, Field(ge=1)] = 2
    """How many checkpoints are kept; an older one goes only after a newer one is in its place."""
    after: Literal["remove", "keep"] = "remove"
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
