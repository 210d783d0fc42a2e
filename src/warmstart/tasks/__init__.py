"""The tasks: one file each in this folder, and those that other packages register.

    [project.entry-points."warmstart.tasks"]
    summarize = "my_package.summarize:Summarize"

A class that is not registered can be passed to `warmstart.fit(task=…)` and `warmstart.load(…, task=…)`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from warmstart.data.schema import Schema
from warmstart.errors import PluginError, RecipeError, nearest
from warmstart.options import Options
from warmstart.runtime import plugins
from warmstart.tasks.base import AnyTask, Task

_passed: dict[str, type[AnyTask]] = {}
"""Classes that were passed to `fit` or `load` in this process, by their names."""


def names() -> tuple[str, ...]:
    """The names of all tasks, without importing one."""
    return plugins.names("tasks")


def find(name: str) -> type[AnyTask]:
    """The class of a task by its name."""
    check_name(name)
    if name in _passed:
        return _passed[name]
    built_in = plugins.Lazy(plugins.built_in_names("tasks"), _built_in)
    return check_class(plugins.load("tasks", name, built_in))


def check_name(name: str) -> None:
    """Refuse the name of a task that is not known, without importing one."""
    if name in _passed or name in names():
        return
    if ":" in name:
        raise RecipeError(
            f"task: {name!r} is a class that is not registered; pass it as task={name.rpartition(':')[2]}, or have "
            "its package register it as an entry point of warmstart.tasks"
        )
    raise RecipeError(f"task: {name!r} is not a task; {nearest(name, names())}")


def find_or_base(name: str) -> type[AnyTask]:
    """The class of a task by its name, or `Task` itself where it is not registered, whose defaults then have to do.

    For what only describes a run: it may have been trained with a class that was passed to `fit`.
    """
    return find(name) if name in names() or name in _passed else Task


def use(task: type[AnyTask]) -> str:
    """Make a class known to this process, and return the name it has in recipes and model folders."""
    name = name_of(check_class(task))
    if name not in names():
        _passed[name] = task
    return name


def name_of(task: type[AnyTask]) -> str:
    """The name of a class in recipes and model folders: that of its entry point, or `module:Class` without one."""
    value = f"{task.__module__}:{task.__qualname__}"
    if value == f"{__name__}.{task.name}:{task.__qualname__}":
        return task.name
    return plugins.name_of("tasks", value) or value


def check_class(task: object) -> type[AnyTask]:
    """Refuse what is not a complete task."""
    if not (isinstance(task, type) and issubclass(task, Task)):
        raise PluginError(f"task: found {task!r}, expected a subclass of warmstart.tasks.base.Task")
    missing = sorted(task.__abstractmethods__) if inspect.isabstract(task) else []
    missing += [name for name in ("name", "options_class", "auto_class") if not hasattr(task, name)]
    if missing:
        raise PluginError(f"task: {task.__module__}:{task.__qualname__} lacks {', '.join(missing)}")
    return task


def schema_of(name: str, values: Mapping[str, Any]) -> Schema:
    """The columns that a task reads, given its own options."""
    return find(name).schema(options_of(name, values))


def with_options(name: str, values: Mapping[str, Any]) -> tuple[type[AnyTask], Options]:
    """The class of a run's task, as `find_or_base` gives it, and its options."""
    task = find_or_base(name)
    return task, Options() if task is Task else options_of(name, values)


def options_of(name: str, values: Mapping[str, Any], where: str = "task") -> Options:
    """A task's own options, checked."""
    return find(name).options_class.check(values, f"{where} (options of {name})")


def _built_in(name: str) -> type[AnyTask]:
    task: type[AnyTask] = importlib.import_module(f"{__name__}.{name}").TASK
    return task
