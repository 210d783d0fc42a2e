"""The options of the task `masked`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from warmstart.options import Options

Probability = Annotated[float, Field(gt=0, lt=1)]


class MaskedOptions(Options):
    """Options of `task: {name: masked, …}`."""

    objective: Literal["mlm", "mlm+nsp", "mlm+sop", "clm"] = "mlm"
    """What is learned: masked tokens (`mlm`, Devlin et al. 2019); also whether the second of two segments follows the
    first (`mlm+nsp`), or whether the two are in the right order (`mlm+sop`, Lan et al. 2020); or, with a model that
    reads from left to right, every next token (`clm`)."""
    mlm_probability: Probability | Annotated[list[Probability], Field(min_length=2, max_length=2)] = 0.15
    """The share of tokens to mask, which are chosen anew in each epoch. With a range, such as `[0.1, 0.3]`, a share is
    drawn from it for each sequence and epoch."""
    mlm_probability_end: Probability | None = None
    """The share in the last epoch, which `mlm_probability` approaches in equal steps. Default: the same in all
    epochs."""
    masking: Literal["token", "whole-word", "span"] = "token"
    """What is masked as a whole: a `token`, a word (`whole-word`), or a `span` of up to 10 words (Joshi et al. 2020).
    In a script without spaces, a word is a token together with the `##` tokens that continue it."""
    bptt: Annotated[int, Field(ge=2)] | None = None
    """With `clm` and a recurrent model: the tokens that gradients go back through, about, as they vary from step to
    step (truncated back-propagation through time). Documents are joined into streams, as many as `batch_size`, and the
    model's state is carried from step to step; no document is cut. Default: each document by itself, in windows."""
    language: Annotated[str, Field(pattern="^[a-z]{2,3}$")] = "en"
    """The language whose rules are used to split sentences, such as `ja`; for `mlm+nsp` and `mlm+sop`."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "mask_prob": "mlm_probability",
        "masking_probability": "mlm_probability",
        "masked_lm_prob": "mlm_probability",
        "whole_word_mask": "masking: whole-word",
        "whole_word_masking": "masking: whole-word",
    }

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        if self.mlm_probability_end is not None and isinstance(self.mlm_probability, list):
            raise ValueError(
                f"mlm_probability_end: found {self.mlm_probability_end}, but mlm_probability is a range; "
                "set it to one number"
            )
        if self.bptt is not None and self.objective != "clm":
            raise ValueError(f"bptt: found {self.bptt}, but objective is {self.objective}; set objective: clm")
        return self

    def probability(self, random: np.random.Generator, progress: float) -> float:
        """The share to mask at a point of the training, from 0 to 1."""
        if isinstance(self.mlm_probability, list):
            low, high = self.mlm_probability
            return float(random.uniform(low, high))
        start, end = self.mlm_probability, self.mlm_probability_end
        return start + ((end or start) - start) * progress
