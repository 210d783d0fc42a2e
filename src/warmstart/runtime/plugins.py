"""Plugins: tasks, schedules, poolings, engines and architectures that other packages add, by entry points.

A package registers what it adds in its `pyproject.toml`, and needs no change here:

    [project.entry-points."warmstart.schedules"]
    one-cycle = "my_package.schedules:one_cycle"

Listing names imports nothing, neither torch nor a plugin; a plugin is imported when its name is used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from warmstart.errors import PluginError, RecipeError, nearest

Kind = Literal["architectures", "engines", "poolings", "schedules", "tasks"]
T = TypeVar("T")

_PACKAGE = Path(__file__).parents[1]
_FOLDERS = {"engines": _PACKAGE / "inference" / "engines", "tasks": _PACKAGE / "tasks"}
_BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "poolings": ("cls", "mean", "max", "last", "last+max+mean", "attention"),
    "schedules": (
        "linear",
        "cosine",
        "constant",
        "slanted-triangular",
        "reverse-annealing",
        "warmup-stable-decay",
    ),
}


@cache
def built_in_names(kind: Kind) -> tuple[str, ...]:
    """Our own names of a kind, in the order in which users see them.

    They are listed here because the recipe and `--help` need them without torch; a test compares them with the tables
    that hold what they stand for. Architectures have none: they are recognized, and never chosen by a user.
    """
    if kind in _FOLDERS:  # one file each
        modules = pkgutil.iter_modules([str(_FOLDERS[kind])])
        return tuple(sorted(module.name for module in modules if not module.ispkg and module.name != "base"))
    return _BUILT_IN.get(kind, ())


def names(kind: Kind) -> tuple[str, ...]:
    """All names of a kind: our own, then those of installed packages, sorted."""
    own = built_in_names(kind)
    return (*own, *sorted(_registered()[kind].keys() - set(own)))


def check(kind: Kind, name: str, key: str) -> None:
    """Refuse a name that nothing of a kind has.

    Args:
        key: The recipe key or option that holds the name, which the message starts with.
    """
    if name not in names(kind):
        raise RecipeError(f"{key}: found {name!r}; {nearest(name, names(kind))}")


def load(kind: Kind, name: str, built_in: Mapping[str, T]) -> T:
    """The object that a name stands for: one of our own, or what a package registers, imported now.

    Args:
        built_in: Our own objects by name; a `Lazy` mapping where they are imported one by one.

    Raises:
        PluginError: Two packages register the name, it is one of our own, or importing it fails.
        KeyError: Nothing has this name; see `check`.
    """
    points = _registered()[kind].get(name, ())
    if not points:
        return built_in[name]
    if name in built_in:
        raise PluginError(
            f"{described(kind, name)} has the name of a built-in of warmstart; rename it, or uninstall the package"
        )
    if len(points) > 1:
        raise PluginError(f"{described(kind, name)}: two packages register this name; uninstall one of them")
    try:
        return cast(T, points[0].load())
    # The code of another package runs here: whatever it raises, the message must name that package.
    except Exception as error:
        raise PluginError(
            f"{described(kind, name)} cannot be imported from {points[0].value}: {type(error).__name__}: {error}; "
            "repair or uninstall the package"
        ) from error


def name_of(kind: Kind, value: str) -> str | None:
    """The name under which an installed package registers an object, given as `module:object`; None without one."""
    values = {point.value: name for name, points in _registered()[kind].items() for point in points}
    return values.get(value)


def added() -> tuple[Plugin, ...]:
    """What installed packages add, by kind and name, without importing any of it."""
    return tuple(
        Plugin(kind.removesuffix("s"), name, point.dist.name if point.dist else "unknown", point.value)
        for kind, by_name in _registered().items()
        for name in sorted(by_name)
        for point in by_name[name]
    )


def described(kind: Kind, name: str) -> str:
    """Where a registered name comes from, as the beginning of a message."""
    packages = sorted(point.dist.name if point.dist else "unknown" for point in _registered()[kind].get(name, ()))
    return f"{name!r} of the entry points warmstart.{kind} of {' and '.join(packages) or 'no package'}"


@dataclass(frozen=True)
class Plugin:
    """What a package adds: its kind in the singular, its name, the package, and the object as `module:object`."""

    kind: str
    name: str
    package: str
    value: str


class Lazy(Mapping[str, T]):
    """A mapping whose values are made when they are asked for, such as classes in modules not yet imported."""

    def __init__(self, keys: tuple[str, ...], make: Callable[[str], T]) -> None:
        self._keys, self._make = keys, make

    def __getitem__(self, key: str) -> T:
        if key not in self._keys:
            raise KeyError(key)
        return self._make(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


@cache
def _registered() -> dict[str, dict[str, tuple[metadata.EntryPoint, ...]]]:
    """The entry points of all kinds, by kind and name; read once, which takes some 60 ms with 200 packages."""
    points = metadata.entry_points()
    by_kind: dict[str, dict[str, tuple[metadata.EntryPoint, ...]]] = {}
    for kind in get_args(Kind):
        by_name = by_kind.setdefault(kind, {})
        for point in points.select(group=f"warmstart.{kind}"):
            by_name[point.name] = (*by_name.get(point.name, ()), point)
    return by_kind
