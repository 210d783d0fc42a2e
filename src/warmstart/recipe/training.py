"""The section `training` of a recipe; never imports torch."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from warmstart.options import OneOf, Options
from warmstart.recipe.fields import Fraction
from warmstart.runtime import plugins

_NOT_CONTRASTIVE = {
    "batch_tokens": "draws batches by label",
    "batching": "draws batches by label",
    "label_smoothing": "does not use the classifier",
    "r_drop": "does not use the classifier",
    "early_stopping_patience": "does not train the classifier, by which dev rows would be judged",
}
"""What cannot be set with a contrastive loss, and why."""

_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(value: object) -> object:
    """Seconds, given as a number or as text such as `90s`, `10m` and `2h`."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", value.strip())
    if match is None:
        raise ValueError(f"found {value!r}, expected a time such as 90s, 10m or 2h")
    return float(match[1]) * _UNITS[match[2] or "s"]


USUAL_LEARNING_RATE = 5e-5
"""That of the Trainer, where neither a recipe nor a rule says another."""
USUAL_BATCH_SIZE = 32
"""Rows of a step where neither says another."""


class TrainingOptions(Options):
    """How the model is trained."""

    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """The peak learning rate. Default: 5e-5, or another one where there is a rule for the task and the encoder."""
    lr_schedule: Annotated[str, OneOf(lambda: plugins.names("schedules"))] = "linear"
    """The learning rate schedule after the warm-up."""
    warmup: Annotated[float, Field(ge=0)] = 0.1
    """Warm-up, during which the learning rate rises to its peak: a share of all steps if below 1, otherwise a number of
    steps."""
    lr_ratio: Annotated[float, Field(ge=1)] = 32.0
    """The ratio of the peak learning rate to the lowest, for `slanted-triangular` and `reverse-annealing`."""
    epochs: Annotated[float, Field(gt=0)] | None = None
    """The number of epochs. Default: 3, or more if `min_steps` requires it."""
    min_steps: Annotated[int, Field(ge=1)] | None = 300
    """The minimum number of optimizer steps if `epochs` is not set: small data is then trained on for more epochs.
    `null` for no minimum."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """The maximum number of optimizer steps, whatever `epochs` is."""
    time_limit: Annotated[float, BeforeValidator(seconds_of), Field(gt=0)] | None = None
    """The most time for all that comes before the model is measured, such as `90s`, `10m` or `2h`. Steps are timed
    first, and there are as many as fit; where hardly any do, the linear probe is kept. No rows are held out then to
    choose the final model by. Default: no limit."""
    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Rows per optimizer step, in each process. Default: 32, or another one where there is a rule."""
    batch_tokens: Annotated[int, Field(ge=1)] | None = None
    """Instead of `batch_size`: tokens per optimizer step, in each process, filled with rows of similar length."""
    slices_per_text: Annotated[int, Field(ge=1)] | None = None
    """With `window.method: slices`, how many slices of each text an epoch trains on, drawn at random. Default: all of
    them."""
    batching: Literal["by-length", "random"] = "by-length"
    """How rows are batched: `by-length`, rows of similar length together, so that there is little padding; or at
    `random`."""
    optimizer: Literal["adamw", "nt-asgd"] = "adamw"
    """The optimizer: `adamw`; or `nt-asgd`, plain SGD whose weights are averaged from the epoch on after which the dev
    rows are predicted no better than five epochs before (Merity et al. 2018), with learning rates from 10 to 30 for a
    language model. Others of `transformers` by `trainer.optim`."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW; biases and layer norms are excluded."""
    max_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    """Gradients are clipped to this norm; 0 for no clipping."""
    adam_bias_correction: bool = True
    """Whether to use Adam's bias correction. BERT's original optimizer did not, which made some seeds fail."""
    label_smoothing: Fraction = 0.0
    """The share of the target probability that is spread evenly over all labels."""
    r_drop: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the R-Drop loss, the divergence between two forward passes with different dropout; 0 for no R-Drop."""
    loss: Literal["auto", "task", "supervised-contrastive"] = "auto"
    """The loss: that of the `task`; or `supervised-contrastive` (Khosla et al. 2020), for `classify` with one
    label a row and `head.type: linear`, which draws the vectors of texts of one label together. Batches are then drawn
    by label, so that every row has another of its label beside it. The classifier gets no gradient and is frozen, so
    that weight decay does not move it either: have it solved by a regression, with `head.init: linear-probe` and
    `head.refit: true`. auto: by the [rules](../explanation/rules.md)."""
    temperature: Annotated[float, Field(gt=0)] = 0.1
    """The temperature of `loss: supervised-contrastive`: the lower, the more the most similar rows matter."""
    final_model: Literal["auto", "fine-tuned", "weight-average", "dev"] = "auto"
    """The model that a run ends with, for a head that starts from a linear probe: the `fine-tuned` one; the
    `weight-average`, whose weights are the mean of those before and after training, with the head solved anew
    (Wortsman et al. 2022); or, of these and the linear probe itself, the one that is best on the `dev` rows. auto: by
    the [rules](../explanation/rules.md)."""
    average_last_epochs: Annotated[int, Field(ge=1)] = 1
    """Average the weights at the end of each of the last N epochs; 1 to use the final weights alone."""
    early_stopping_patience: Annotated[int, Field(ge=1)] | None = None
    """Evaluate on the dev rows after every epoch, stop after this many epochs without improvement, and keep the best
    weights. Default: no early stopping."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Floating-point precision of the training. auto: bf16 if the hardware supports it, otherwise fp32."""
    dropout_kernel: Literal["auto", "torch", "fast"] = "auto"
    """How dropout is computed on a processor: by PyTorch (`torch`), or from random bits that cost less (`fast`), with
    attention in pieces that fit into its caches. auto: what a trial of a second at the start shows to be faster; on a
    GPU, and in a short training, `torch`."""
    fsdp: bool = False
    """Whether weights, gradients and optimizer state are sharded over the processes that `torchrun` starts (FSDP2),
    instead of copied to each (DDP): for encoders that are too large for the memory of one process. Default: copied."""

    @model_validator(mode="after")
    def _sharded_weights_have_limits(self) -> Self:
        if self.fsdp and self.precision == "fp16":
            raise ValueError("precision: found fp16, but fsdp: true is for fp32 and bf16; set one of them")
        if self.fsdp and self.time_limit is not None:
            raise ValueError("time_limit: steps are timed without sharding; set max_steps, or leave fsdp out")
        return self

    @property
    def peak_learning_rate(self) -> float:
        """The learning rate that is set, or the usual one."""
        return USUAL_LEARNING_RATE if self.learning_rate is None else self.learning_rate

    @property
    def rows_per_step(self) -> int:
        """The batch size that is set, or the usual one."""
        return USUAL_BATCH_SIZE if self.batch_size is None else self.batch_size

    def completed(self) -> Self:
        """The same with the usual values of what is left open."""
        usual = {"learning_rate": self.peak_learning_rate, "batch_size": self.rows_per_step}
        return self.model_copy(update=usual)

    def for_trainer(self) -> dict[str, Any]:
        """The fields that a training itself takes."""
        return self.completed().model_dump(exclude={"final_model", "time_limit"})

    @model_validator(mode="after")
    def _temperature_needs_its_loss(self) -> Self:
        if self.loss != "supervised-contrastive" and self.temperature != type(self).model_fields["temperature"].default:
            raise ValueError(
                f"temperature: found {self.temperature}, but loss is {self.loss}; set loss: supervised-contrastive"
            )
        return self

    @model_validator(mode="after")
    def _a_contrastive_loss_stands_alone(self) -> Self:
        if self.loss != "supervised-contrastive":
            return self
        for name, reason in _NOT_CONTRASTIVE.items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise ValueError(f"{name}: found {value}, but loss: {self.loss} {reason}; leave one of them out")
        if self.rows_per_step < 4:
            raise ValueError(
                f"batch_size: found {self.batch_size}, but loss: {self.loss} compares pairs of rows; expected 4 or more"
            )
        return self
