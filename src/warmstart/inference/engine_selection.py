"""Engines by their names: which there are, and which are for a model."""

from __future__ import annotations

import importlib
from functools import partial

from warmstart.errors import PluginError, RecipeError, nearest
from warmstart.inference.engine_trial import EngineCandidate, UndecidedEngine
from warmstart.inference.engines.base import AUTO, Engine, ModelSource
from warmstart.runtime import plugins


def names() -> tuple[str, ...]:
    """The names of all engines, without importing one."""
    return plugins.names("engines")


def find(name: str) -> type[Engine]:
    """The class of an engine by its name."""
    plugins.check("engines", name, "engine")
    engine = plugins.load("engines", name, plugins.Lazy(plugins.built_in_names("engines"), _built_in))
    if not (isinstance(engine, type) and issubclass(engine, Engine)):
        raise PluginError(f"{plugins.described('engines', name)}: found {engine!r}, expected a subclass of Engine")
    return engine


def load_engine(source: ModelSource, name: str, precision: str) -> Engine:
    """An engine with a model; with `auto` one that is still to be chosen."""
    check_names(name, precision)
    if name != AUTO:
        return find(name).load(source, precision)
    # What needs no export comes first: it computes until a trial was made.
    engines = sorted(map(find, names()), key=lambda engine: (engine.needs_export, engine.name))
    return UndecidedEngine(
        [
            EngineCandidate(engine.name, usable, partial(engine.load, source, usable))
            for engine in engines
            for usable in engine.usable_precisions(source, precision)
        ]
    )


def check_settled(name: str, precision: str) -> None:
    """Refuse what every copy of a model would choose for itself, on its own machine; and names that do not exist."""
    for option, value in {"--engine": name, "--precision": precision}.items():
        if value == AUTO:
            raise RecipeError(f"{option} auto: copies of a model would differ, each choosing for itself; name one")
    check_names(name, precision)


def check_names(name: str, precision: str) -> None:
    """Refuse an engine that does not exist, and a precision that it does not have."""
    if name not in {*names(), AUTO}:
        raise RecipeError(f"engine: found {name!r}; {nearest(name, (*names(), AUTO))}")
    if precision == AUTO or (name != AUTO and precision in find(name).precisions):
        return
    engines = [find(other) for other in names()]
    known = {every for engine in engines for every in engine.precisions}
    if precision not in known:
        raise RecipeError(f"precision: found {precision!r}; {nearest(precision, (*sorted(known), AUTO))}")
    if name != AUTO:
        others = sorted(engine.name for engine in engines if precision in engine.precisions)
        raise RecipeError(
            f"precision: found {precision}, but the engine {name} computes in {' or '.join(find(name).precisions)}; "
            f"set one of those, or use --engine {' or '.join(others)}"
        )


def _built_in(name: str) -> type[Engine]:
    engine: type[Engine] = importlib.import_module(f"warmstart.inference.engines.{name}").ENGINE
    return engine
