"""cosine-restarts: a cosine that starts again twice."""

import math

CYCLES = 3


def cosine_restarts(progress: float, low: float) -> float:
    """Cosine annealing with warm restarts ("SGDR", Loshchilov and Hutter 2017): the share of the peak learning rate.

    Args:
        progress: How much of the training after the warm-up is done, from 0 to 1.
        low: The lowest share, 1/`training.lr_ratio`.
    """
    if progress >= 1:
        return low
    return low + (1 - low) * (1 + math.cos(math.pi * (progress * CYCLES % 1))) / 2
