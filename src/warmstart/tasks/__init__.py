"""What can be learned: one file a task, found by scanning this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from warmstart.data.schema import Schema
from warmstart.errors import RecipeError, nearest
from warmstart.options import Options
from warmstart.tasks.base import Task


def names() -> tuple[str, ...]:
    """The names of all tasks, without importing one."""
    modules = pkgutil.iter_modules(__path__)
    return tuple(sorted(module.name for module in modules if not module.ispkg and module.name != "base"))


def find(name: str) -> type[Task[Any]]:
    """The class of a task by its name."""
    if name not in names():
        raise RecipeError(f"task: {name!r} is not a task; {nearest(name, names())}")
    module = importlib.import_module(f"warmstart.tasks.{name}")
    found: type[Task[Any]] = module.TASK
    return found


def schema_of(name: str, values: Mapping[str, Any]) -> Schema:
    """The columns that a task reads, given its own options."""
    return find(name).schema(options_of(name, values))


def options_of(name: str, values: Mapping[str, Any], where: str = "task") -> Options:
    """A task's own options, checked."""
    return find(name).options_class.check(values, f"{where} (options of {name})")
