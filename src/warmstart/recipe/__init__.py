"""The recipe: which model, on what data, trained how; typed, read from YAML, and never importing torch."""

from warmstart.recipe.forgetting import Forgetting
from warmstart.recipe.multitask import Multitask
from warmstart.recipe.parts import Data, File, Format, Layers, Learn, Lora, Saves, Split, TaskChoice, Window
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
from warmstart.recipe.stages import WITHIN, Before, Pretrain, Scratch
from warmstart.recipe.sweep import Range, Sweep
from warmstart.recipe.sweeps import load_sweep, shipped_sweeps

__all__ = [
    "FILES",
    "MEMORY",
    "SHIPPED",
    "WITHIN",
    "Before",
    "Data",
    "File",
    "Forgetting",
    "Format",
    "Layers",
    "Learn",
    "Lora",
    "Multitask",
    "Pretrain",
    "Range",
    "Recipe",
    "Saves",
    "Scratch",
    "Split",
    "Sweep",
    "TaskChoice",
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
