"""Schedules: how the learning rate goes over a training, as a factor of its peak at every step.

All are closed forms of the step, so that any of them can be plotted, checked and gone on with from any step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch.optim.lr_scheduler import LambdaLR

from warmstart.errors import RecipeError, nearest

Form = Callable[[float, float], float]
"""Factor at a place in what follows the warm-up, 0 to 1, given 1/ratio."""


def factor(name: str, step: int, steps: int, warmup: float = 0.1, ratio: float = 32.0) -> float:
    """What the peak rate is multiplied by at a step, counted from 0.

    Args:
        name: One of `SCHEDULES`.
        steps: All steps of the training.
        warmup: The share of them over which the rate rises in a straight line.
        ratio: How many times smaller the lowest rate is than the peak, for the schedules that have a lowest one.
    """
    check(name)
    cut = math.ceil(steps * warmup) if warmup < 1 else min(int(warmup), steps)
    low = 1 / ratio
    start, after = SCHEDULES[name]
    if step < cut:
        bottom, top = start(low), after(0.0, low)
        return bottom + (top - bottom) * step / cut
    return after(min((step - cut) / max(steps - cut, 1), 1.0), low)


def schedule(
    optimizer: Any,
    name: str,
    steps: int,
    warmup: float = 0.1,
    ratio: float = 32.0,
    without_correction: tuple[float, float] | None = None,
) -> LambdaLR:
    """A PyTorch scheduler for any optimizer; each parameter group goes from its own peak rate.

    Args:
        without_correction: The betas of an Adam whose correction is taken back, see `uncorrected`; None to leave it.
    """
    check(name)

    def at(step: int) -> float:
        found = factor(name, step, steps, warmup, ratio)
        return found * uncorrected(step, without_correction) if without_correction else found

    return LambdaLR(optimizer, at)


def check(name: str) -> None:
    """Refuse a name that is no schedule's."""
    if name not in SCHEDULES:
        raise RecipeError(f"training.lr_schedule: found {name!r}; {nearest(name, SCHEDULES)}")


def uncorrected(step: int, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """What turns the rate of Adam into that of BERT's first optimizer, which left the correction of its bias out.

    Its first steps are then up to three times too long, which is what makes small data sets fail by the seed
    ("Revisiting Few-sample BERT Fine-tuning", Zhang et al. 2021, §4). For looking at that, not for use.
    """
    first, second = betas
    return (1 - first ** (step + 1)) / math.sqrt(1 - second ** (step + 1))


def _line_down(place: float, low: float) -> float:
    return 1 - place


def _cosine_down(place: float, low: float) -> float:
    """Half a cosine from the peak to zero ("SGDR", Loshchilov and Hutter 2017, eq. 5), in one cycle."""
    return (1 + math.cos(math.pi * place)) / 2


def _slanted(place: float, low: float) -> float:
    """The long side of the slanted triangle, down to the lowest rate (ULMFiT, Howard and Ruder 2018, eq. 3)."""
    return low + (1 - low) * (1 - place)


def _cosine_up(place: float, low: float) -> float:
    """Annealing run backwards: half a cosine from the lowest rate up to the peak, reached at the last step."""
    return low + (1 - low) * (1 - math.cos(math.pi * place)) / 2


def _stable_then_down(place: float, low: float) -> float:
    """At its peak, then over the last fifth in a straight line to zero ("MiniCPM", Hu et al. 2024, eq. 1)."""
    return 1.0 if place <= 0.8 else (1 - place) / 0.2


def _flat(place: float, low: float) -> float:
    return 1.0


def _zero(low: float) -> float:
    return 0.0


def _low(low: float) -> float:
    return low


SCHEDULES: dict[str, tuple[Callable[[float], float], Form]] = {
    "linear": (_zero, _line_down),
    "cosine": (_zero, _cosine_down),
    "constant": (_zero, _flat),
    "slanted-triangular": (_low, _slanted),
    "reverse-annealing": (_zero, _cosine_up),
    "warmup-stable-decay": (_zero, _stable_then_down),
}
"""Each schedule: where its warm-up starts, and its form after the warm-up."""
