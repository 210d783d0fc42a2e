"""The recipe: which model to train, on what data, and how. Typed and read from YAML; never imports torch."""

from warmstart.recipe.distil import DistilOptions
from warmstart.recipe.fields import (
    CheckpointOptions,
    DataOptions,
    FileOptions,
    Format,
    HeadOptions,
    SplitOptions,
    TaskChoice,
    WindowOptions,
)
from warmstart.recipe.forgetting import ForgettingOptions
from warmstart.recipe.layers import LayerOptions, LoraOptions
from warmstart.recipe.multitask import MultitaskOptions
from warmstart.recipe.recipe import (
    FILES,
    MEMORY,
    SHIPPED,
    Recipe,
    absolute,
    flat,
    load_recipe,
    make_recipe,
    put,
    shipped,
)
from warmstart.recipe.stages import WITHIN, FromScratchOptions, PretrainOptions, StageOptions
from warmstart.recipe.sweep import SearchRange, Sweep
from warmstart.recipe.sweep_files import load_sweep, shipped_sweeps
from warmstart.recipe.training import TrainingOptions

__all__ = [
    "FILES",
    "MEMORY",
    "SHIPPED",
    "WITHIN",
    "CheckpointOptions",
    "DataOptions",
    "DistilOptions",
    "FileOptions",
    "ForgettingOptions",
    "Format",
    "FromScratchOptions",
    "HeadOptions",
    "LayerOptions",
    "LoraOptions",
    "MultitaskOptions",
    "PretrainOptions",
    "Recipe",
    "SearchRange",
    "SplitOptions",
    "StageOptions",
    "Sweep",
    "TaskChoice",
    "TrainingOptions",
    "WindowOptions",
    "absolute",
    "flat",
    "load_recipe",
    "load_sweep",
    "make_recipe",
    "put",
    "shipped",
    "shipped_sweeps",
]
