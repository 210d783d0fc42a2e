"""Learning rate schedules: the learning rate at every step of a training, as a factor of its peak.

All are closed forms of the step, so that any of them can be plotted, checked and resumed at any step. Another package
adds one by an entry point of the group `warmstart.schedules`: see `Schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from warmstart.errors import PluginError
from warmstart.runtime import plugins

Form = Callable[[float, float], float]
"""The factor after the warm-up, given the progress, from 0 to 1, and the lowest factor, 1/`lr_ratio`."""
Schedule = tuple[Callable[[float], float], Form]
"""Where the warm-up starts, given the lowest factor, and the form after it. A plugin may be a `Form` alone, with a
warm-up from zero."""


@dataclass(frozen=True)
class Phases:
    """The phases of a training in which layers are unfrozen, each with a schedule of its own.

    So are the learning rates of ULMFiT (Howard and Ruder 2018): each newly unfrozen layer starts with a warm-up.

    Args:
        length: Steps of a phase.
        count: How many there are; the last one lasts until the training ends.
    """

    length: int
    count: int

    def locate(self, step: int, steps: int) -> tuple[int, int]:
        """A step's number within its phase, and the steps of that phase.

        Args:
            step: Counted from 0 over the whole training.
            steps: The total number of training steps, which may end any phase early.
        """
        phase = min(step // self.length, self.count - 1, max(steps - 1, 0) // self.length)
        start = phase * self.length
        end = steps if phase == self.count - 1 else min(start + self.length, steps)
        return step - start, end - start


def lr_factor(name: str, step: int, steps: int, warmup: float = 0.1, lr_ratio: float = 32.0) -> float:
    """The factor of the peak learning rate at a step, counted from 0.

    Args:
        name: One of `SCHEDULES`, or a schedule that another package adds.
        steps: The total number of training steps.
        warmup: Over how many steps the learning rate rises linearly: a share of all steps if below 1, else a number.
        lr_ratio: The ratio of the peak learning rate to the lowest, for the schedules that use it.
    """
    warmup_steps = math.ceil(steps * warmup) if warmup < 1 else min(int(warmup), steps)
    low = 1 / lr_ratio
    start, form = _schedule(name)
    if step < warmup_steps:
        bottom, top = start(low), form(0.0, low)
        return bottom + (top - bottom) * step / warmup_steps
    return form(min((step - warmup_steps) / max(steps - warmup_steps, 1), 1.0), low)


def lr_factor_in(
    phases: Phases | None, name: str, step: int, steps: int, warmup: float = 0.1, lr_ratio: float = 32.0
) -> float:
    """The same where each phase has a schedule of its own; without phases, that of the whole training."""
    if phases is None:
        return lr_factor(name, step, steps, warmup, lr_ratio)
    own_step, own_steps = phases.locate(step, steps)
    # A phase of a single step would be all warm-up, at a learning rate of 0.
    return 1.0 if own_steps == 1 else lr_factor(name, own_step, own_steps, warmup, lr_ratio)


def make_scheduler(
    optimizer: Optimizer,
    name: str,
    steps: int,
    warmup: float = 0.1,
    lr_ratio: float = 32.0,
    uncorrected_betas: tuple[float, float] | None = None,
    phases: Phases | None = None,
) -> LambdaLR:
    """A PyTorch scheduler for any optimizer; each parameter group follows the schedule from its own peak.

    Args:
        uncorrected_betas: The betas of an Adam whose bias correction is undone, see `undo_bias_correction`.
        phases: Each has a schedule of its own; None for one schedule over the whole training.
    """
    check_schedule(name)

    def factor(step: int) -> float:
        value = lr_factor_in(phases, name, step, steps, warmup, lr_ratio)
        return value * undo_bias_correction(step, uncorrected_betas) if uncorrected_betas else value

    return LambdaLR(optimizer, factor)


def check_schedule(name: str) -> None:
    """Refuse a name that no schedule has."""
    plugins.check("schedules", name, "training.lr_schedule")


def undo_bias_correction(step: int, betas: tuple[float, float] = (0.9, 0.999)) -> float:
    """The factor that turns Adam's learning rate into that of BERT's original optimizer, without bias correction.

    Its first steps are up to three times too long, which makes some seeds fail on small data ("Revisiting Few-sample
    BERT Fine-tuning", Zhang et al. 2021, §4). For studying that, not for use.
    """
    first, second = betas
    return (1 - first ** (step + 1)) / math.sqrt(1 - second ** (step + 1))


def _schedule(name: str) -> Schedule:
    check_schedule(name)
    built_in: Mapping[str, Schedule | Form] = SCHEDULES
    schedule = plugins.load("schedules", name, built_in)
    pair = schedule if isinstance(schedule, tuple) else (_zero, schedule)
    if len(pair) != 2 or not all(map(callable, pair)):
        raise PluginError(
            f"{plugins.described('schedules', name)}: found {schedule!r}, expected a function, or a pair of functions"
        )
    return pair


def _linear(progress: float, low: float) -> float:
    return 1 - progress


def _cosine(progress: float, low: float) -> float:
    """Half a cosine from the peak to zero ("SGDR", Loshchilov and Hutter 2017, eq. 5), in one cycle."""
    return (1 + math.cos(math.pi * progress)) / 2


def _slanted_triangular(progress: float, low: float) -> float:
    """The long side of the slanted triangle, down to the lowest factor (ULMFiT, Howard and Ruder 2018, eq. 3)."""
    return low + (1 - low) * (1 - progress)


def _reverse_annealing(progress: float, low: float) -> float:
    """Annealing in reverse: half a cosine from the lowest factor up to the peak, reached at the last step."""
    return low + (1 - low) * (1 - math.cos(math.pi * progress)) / 2


def _stable_decay(progress: float, low: float) -> float:
    """At its peak, then over the last fifth linearly to zero ("MiniCPM", Hu et al. 2024, eq. 1)."""
    return 1.0 if progress <= 0.8 else (1 - progress) / 0.2


def _constant(progress: float, low: float) -> float:
    return 1.0


def _zero(low: float) -> float:
    return 0.0


def _low(low: float) -> float:
    return low


SCHEDULES: dict[str, Schedule] = {
    "linear": (_zero, _linear),
    "cosine": (_zero, _cosine),
    "constant": (_zero, _constant),
    "slanted-triangular": (_low, _slanted_triangular),
    "reverse-annealing": (_zero, _reverse_annealing),
    "warmup-stable-decay": (_zero, _stable_decay),
}
"""Our own schedules."""
