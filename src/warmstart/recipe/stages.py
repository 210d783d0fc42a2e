"""What a recipe says of the stages before its fine-tuning, and of an encoder that starts from nothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from warmstart.options import Options
from warmstart.recipe.fields import File, Fraction, Layers, Training
from warmstart.recipe.multitask import Multitask

WITHIN = "within-task"
"""Stands for the texts of the recipe's own training rows."""
DOMAINS = ("in-domain", "cross-domain")
"""What other texts can be, by how near they are to the task's; each names files."""
Corpus = dict[Literal["in-domain", "cross-domain"], list[str | File]]


class FromScratch(Options):
    """An encoder with random weights, and a tokenizer trained on the texts of the first stage."""

    architecture: str = "bert"
    """Its architecture, by its name in `transformers`."""
    num_layers: Annotated[int, Field(ge=1)] = 4
    """Number of blocks."""
    hidden_size: Annotated[int, Field(ge=4)] = 256
    """Width of the hidden states."""
    num_heads: Annotated[int, Field(ge=1)] = 4
    """Attention heads of a block; the hidden size must be divisible by them."""
    vocab_size: Annotated[int, Field(ge=300)] = 8000
    """The most tokens in the tokenizer's vocabulary."""
    max_tokens: Annotated[int, Field(ge=8)] = 512
    """The longest text it takes, in tokens."""

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.hidden_size % self.num_heads:
            raise ValueError(
                f"num_heads: found {self.num_heads}, which does not divide the hidden size {self.hidden_size}"
            )
        return self


class Pretrain(Options):
    """Pre-training on raw text before the task: further pre-training, or the first one of an encoder from scratch."""

    corpus: Literal["within-task"] | Corpus = "within-task"
    """The texts: `within-task`, those of the recipe's own training rows; `in-domain: [files]`, of its kind; or
    `cross-domain: [files]`, of others. A file may be a mapping with `file` and `columns`, and `within-task` one too."""
    objective: Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] = "mlm"
    """What is learned: masked tokens (`mlm`), with them which sentences follow one another (`mlm+nsp`) or in which
    order two stand (`mlm+sop`); or each token from those before it (`clm`)."""
    task: dict[str, Any] = {}
    """Further options of the task `masked`, such as `mask` and `unit`."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """The most tokens of a sequence, special tokens included."""
    steps: Annotated[int, Field(ge=1)] | None = None
    """Optimizer steps. None: as `training` says."""
    hold_out: Fraction = 0.05
    """Share of the texts that is not learned from but measured on; 0 for none."""
    training: Training = Training(epochs=1)
    """How it is trained; by default every text is seen once."""
    layers: Layers = Layers()
    """Which layers are trained, when, and at which learning rate."""
    seed: int = 0
    """Seed of this stage, so that fine-tunings with other seeds share it."""

    @field_validator("corpus", mode="before")
    @classmethod
    def _texts_in_words(cls, value: Any) -> Any:
        files = isinstance(value, dict) and len(value) == 1 and set(value) <= set(DOMAINS)
        if value != WITHIN and not (files and all(isinstance(one, list) and one for one in value.values())):
            raise ValueError("expected within-task, or in-domain: [files], or cross-domain: [files]")
        return value

    @model_validator(mode="after")
    def _steps_once(self) -> Self:
        if self.steps is not None and self.training.max_steps is not None:
            raise ValueError("steps: and training.max_steps say the same; drop one")
        return self

    @property
    def files(self) -> list[str | File]:
        """The files of texts, in order; `within-task` for the task's own."""
        return [WITHIN] if isinstance(self.corpus, str) else next(iter(self.corpus.values()))


class Stage(Options):
    """One stage before the fine-tuning."""

    pretrain: Pretrain | None = None
    """Learn from raw text."""
    multitask: Multitask | None = None
    """Learn several tasks at once."""

    @model_validator(mode="after")
    def _one_stage(self) -> Self:
        if len([name for name in type(self).model_fields if getattr(self, name) is not None]) != 1:
            raise ValueError(f"expected one of {', '.join(type(self).model_fields)}, with its settings")
        return self

    @property
    def name(self) -> str:
        """Which stage it is."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)
