"""The temperature that makes a classifier's probabilities believable; the most probable answer stays the same.

"On Calibration of Modern Neural Networks", Guo et al. 2017: the logits are divided by one number, chosen by the
likelihood of rows that the classifier has not learned from.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_TEMPERATURE, MAX_TEMPERATURE = 0.05, 20.0
"""What logits may be divided by."""


def fit_temperature(logits: NDArray[np.float64], targets: NDArray[np.int64]) -> float:
    """The temperature that gives the true answers the highest likelihood."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    rows = np.arange(len(targets))

    def loss(power: float) -> float:
        scaled = logits / np.exp(power)
        return float((logsumexp(scaled, axis=1) - scaled[rows, targets]).mean())

    minimum = minimize_scalar(loss, bounds=(np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE)), method="bounded")
    return float(np.clip(np.exp(minimum.x), MIN_TEMPERATURE, MAX_TEMPERATURE))
