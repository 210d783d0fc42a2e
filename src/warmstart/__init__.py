"""warmstart: turn a pretrained language encoder and labelled text into a small, fast, well-measured model.

The public names are loaded when they are first used, so that importing warmstart costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmstart.api import compare, export, features, fit, load
    from warmstart.deploy.features import Extractor
    from warmstart.deploy.predictor import Predictor
    from warmstart.encoders.layers import LayerMap
    from warmstart.errors import WarmstartError
    from warmstart.estimator import TextClassifier, TextScorer
    from warmstart.recipe import Recipe
    from warmstart.run import Run

_HOMES = {
    "Extractor": "warmstart.deploy.features",
    "LayerMap": "warmstart.encoders.layers",
    "Predictor": "warmstart.deploy.predictor",
    "Recipe": "warmstart.recipe",
    "Run": "warmstart.run",
    "TextClassifier": "warmstart.estimator",
    "TextScorer": "warmstart.estimator",
    "WarmstartError": "warmstart.errors",
    "compare": "warmstart.api",
    "export": "warmstart.api",
    "features": "warmstart.api",
    "fit": "warmstart.api",
    "load": "warmstart.api",
}

__all__ = [
    "Extractor",
    "LayerMap",
    "Predictor",
    "Recipe",
    "Run",
    "TextClassifier",
    "TextScorer",
    "WarmstartError",
    "compare",
    "export",
    "features",
    "fit",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'warmstart' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
