"""The sections of a recipe for stages before fine-tuning, and for an encoder trained from scratch."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart.options import Options, Values
from warmstart.recipe.distil import DistilOptions
from warmstart.recipe.fields import FileOptions, Fraction
from warmstart.recipe.layers import LayerOptions
from warmstart.recipe.multitask import MultitaskOptions
from warmstart.recipe.training import TrainingOptions

WITHIN = "within-task"
"""Stands for the texts of the recipe's own training rows."""
CROSS = "cross-domain"
DOMAINS = ("in-domain", CROSS)
"""Kinds of other texts, by how close they are to the task's; each lists files."""
Corpus = dict[Literal["in-domain", "cross-domain"], list[str | FileOptions]]


AWD_LSTM = "awd-lstm"
NO_LIMIT = 1 << 20
"""The longest text of a model that reads texts of any length, in tokens."""
_SIZES: dict[bool, dict[str, int]] = {
    False: {"num_layers": 4, "hidden_size": 256, "max_tokens": 512},
    True: {"num_layers": 3, "hidden_size": 1152, "max_tokens": NO_LIMIT},
}
"""Sizes where none are set, of a recurrent encoder or not."""


class FromScratchOptions(Options):
    """An encoder with random weights, and a tokenizer trained on the texts of the first stage."""

    architecture: str = "bert"
    """The architecture, by its `model_type` in `transformers`; or `awd-lstm`, a recurrent language model (Merity et al.
    2018), which reads texts of any length."""
    num_layers: Annotated[int, Field(ge=1)] | None = None
    """The number of blocks. Default: 4; of an `awd-lstm`, 3."""
    hidden_size: Annotated[int, Field(ge=4)] | None = None
    """The width of the hidden states. Default: 256; of an `awd-lstm`, 1152."""
    num_heads: Annotated[int, Field(ge=1)] = 4
    """Attention heads per block; their number must divide the hidden size."""
    vocab_size: Annotated[int, Field(ge=300)] = 8000
    """The maximum vocabulary size of the tokenizer."""
    max_tokens: Annotated[int, Field(ge=8)] | None = None
    """The maximum input length, in tokens. Default: 512; of an `awd-lstm`, a million."""
    causal: bool = False
    """Whether a token only attends to itself and those before it, as `objective: clm` needs it; for `bert`, `electra`
    and `roberta`."""
    tokenizer: Literal["auto", "words", "unigram"] = "auto"
    """For an `awd-lstm`, the tokenizer: whole `words` in lower case, of which those seen once are unknown; or subwords
    of a `unigram` model, as SentencePiece has them, for languages without spaces or with many forms of a word. auto:
    `words`; of other architectures, their own kind."""
    case_marks: bool = False
    """With `words`, whether a word in capitals is preceded by a token `xxup`, and one that begins with a capital by
    `xxmaj`."""
    embedding_size: Annotated[int, Field(ge=4)] = 400
    """For an `awd-lstm`, the size of its embeddings and of its last layer."""
    direction: Literal["forward", "backward", "both"] = "forward"
    """For an `awd-lstm`, which way texts are read. With `both`, two models are trained, from the first stage on, and
    their answers averaged."""
    dropout: Annotated[float, Field(ge=0)] = 1.0
    """For an `awd-lstm`, what each of its dropouts is multiplied by."""

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        size = self.shape["hidden_size"]
        if not self.is_recurrent and size % self.num_heads:
            raise ValueError(f"num_heads: found {self.num_heads}, which does not divide the hidden size {size}")
        return self

    @model_validator(mode="after")
    def _recurrent_options_need_one(self) -> Self:
        for name in ("tokenizer", "case_marks", "embedding_size", "direction", "dropout"):
            value = getattr(self, name)
            if not self.is_recurrent and value != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name}: found {value}, but architecture is {self.architecture}; set architecture: {AWD_LSTM}"
                )
        if self.case_marks and self.tokenizer == "unigram":
            raise ValueError("case_marks: found true, but tokenizer: unigram keeps capitals as they are; leave one out")
        return self

    @property
    def is_recurrent(self) -> bool:
        """Whether the encoder is a recurrent one."""
        return self.architecture == AWD_LSTM

    @property
    def shape(self) -> Values:
        """All of it, with the sizes that are not set."""
        given = {name: value for name, value in self.model_dump().items() if value is not None}
        return {**_SIZES[self.is_recurrent], **given}


class PretrainOptions(Options):
    """Pretraining on raw text before fine-tuning: continued pretraining, or that of an encoder trained from scratch."""

    corpus: Literal["within-task"] | Corpus = "within-task"
    """The texts (Sun et al. 2019): `within-task`, those of the recipe's own training rows; `in-domain: [files]`, from
    the same domain; or `cross-domain: [files]`, from other domains, which are added to those of the training rows. A
    file may be a mapping with `file` and `columns`, or `within-task` itself."""
    objective: Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] = "mlm"
    """The objective: masked language modeling (`mlm`), also with next-sentence prediction (`mlm+nsp`) or sentence-order
    prediction (`mlm+sop`), which need rows of several sentences; or causal language modeling (`clm`)."""
    task: Values = {}
    """Other options of the task `masked`, such as `mlm_probability` and `masking`."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """The maximum number of tokens in a sequence, including special tokens."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """The number of optimizer steps. Default: as in `training`."""
    hold_out: Fraction = 0.05
    """The share of the texts that is held out to measure the loss on; 0 for none."""
    training: TrainingOptions = TrainingOptions(epochs=1)
    """How the stage is trained; for one epoch by default."""
    layers: LayerOptions = LayerOptions()
    """Which layers are trained, when, and at which learning rate."""
    seed: int = 0
    """Seed of this stage; the same stage can thus be shared by several seeds of fine-tuning."""

    @field_validator("corpus", mode="before")
    @classmethod
    def _check_corpus(cls, value: object) -> object:
        if value == WITHIN:
            return value
        kinds = value if isinstance(value, dict) else {}
        known = len(kinds) == 1 and set(kinds) <= set(DOMAINS)
        if not known or not all(isinstance(files, list) and files for files in kinds.values()):
            raise ValueError("expected within-task, or in-domain: [files], or cross-domain: [files]")
        return value

    @model_validator(mode="after")
    def _steps_once(self) -> Self:
        if self.steps is not None and self.training.max_steps is not None:
            raise ValueError("steps and training.max_steps are the same setting; leave one out")
        return self

    @property
    def files(self) -> list[str | FileOptions]:
        """The files of texts, in order; `within-task` for the task's own."""
        if isinstance(self.corpus, str):
            return [WITHIN]
        [(kind, listed)] = self.corpus.items()
        # Sun et al. (2019) pretrain on the target's own domain and others, not on others alone.
        return [WITHIN, *listed] if kind == CROSS and WITHIN not in listed else listed


class StageOptions(Options):
    """One stage before fine-tuning."""

    pretrain: PretrainOptions | None = None
    """Pretraining on raw text."""
    multitask: MultitaskOptions | None = None
    """Training on several tasks at once."""
    distil: DistilOptions | None = None
    """A teacher's answers to texts without labels, which the fine-tuning learns with the labelled rows."""

    @model_validator(mode="after")
    def _one_stage(self) -> Self:
        if len([name for name in type(self).model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"expected one of {', '.join(type(self).model_fields)}, with its options")
        return self

    @property
    def name(self) -> str:
        """Which stage it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)
