"""The recipe: which model, on what data, trained how; typed, read from YAML, and never importing torch."""

from warmstart.recipe.fields import (
    Checkpoints,
    Data,
    File,
    Format,
    Head,
    Layers,
    Lora,
    Split,
    TaskChoice,
    Training,
    Window,
)
from warmstart.recipe.forgetting import Forgetting
from warmstart.recipe.multitask import Multitask
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
from warmstart.recipe.stages import WITHIN, FromScratch, Pretrain, Stage
from warmstart.recipe.sweep import Range, Sweep
from warmstart.recipe.sweep_files import load_sweep, shipped_sweeps

__all__ = [
    "FILES",
    "MEMORY",
    "SHIPPED",
    "WITHIN",
    "Checkpoints",
    "Data",
    "File",
    "Forgetting",
    "Format",
    "FromScratch",
    "Head",
    "Layers",
    "Lora",
    "Multitask",
    "Pretrain",
    "Range",
    "Recipe",
    "Split",
    "Stage",
    "Sweep",
    "TaskChoice",
    "Training",
    "Window",
    "absolute",
    "flat",
    "load_recipe",
    "load_sweep",
    "make_recipe",
    "put",
    "shipped",
    "shipped_sweeps",
]
