"""warmstart: turn a pretrained language encoder and labelled text into a small, fast, well-measured model.

The public names are loaded when they are first used, so that importing warmstart costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warmstart.api import Run, ask, compare, export, features, fit, inspect, load
    from warmstart.errors import WarmstartError
    from warmstart.estimators import TextClassifier, TextScorer
    from warmstart.inference.features import Extractor
    from warmstart.inference.predictor import Predictor
    from warmstart.models.layer_map import LayerMap
    from warmstart.models.switches import HeadsOff
    from warmstart.recipe import Recipe

__version__ = "0.1.0.dev0"

_HOMES = {
    "Extractor": "warmstart.inference.features",
    "HeadsOff": "warmstart.models.switches",
    "LayerMap": "warmstart.models.layer_map",
    "Predictor": "warmstart.inference.predictor",
    "Recipe": "warmstart.recipe",
    "Run": "warmstart.api",
    "TextClassifier": "warmstart.estimators",
    "TextScorer": "warmstart.estimators",
    "WarmstartError": "warmstart.errors",
    "ask": "warmstart.api",
    "compare": "warmstart.api",
    "export": "warmstart.api",
    "features": "warmstart.api",
    "fit": "warmstart.api",
    "inspect": "warmstart.api",
    "load": "warmstart.api",
}

__all__ = [
    "Extractor",
    "HeadsOff",
    "LayerMap",
    "Predictor",
    "Recipe",
    "Run",
    "TextClassifier",
    "TextScorer",
    "WarmstartError",
    "ask",
    "compare",
    "export",
    "features",
    "fit",
    "inspect",
    "load",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'warmstart' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
