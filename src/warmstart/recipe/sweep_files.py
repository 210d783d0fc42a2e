"""Reading a sweep with the recipe that it starts from, every choice checked against that recipe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warmstart.errors import RecipeError, nearest
from warmstart.options import Value, Values
from warmstart.recipe.recipe import SHIPPED, Recipe, load_recipe, put, recipe_of
from warmstart.recipe.sweep import SearchRange, Sweep
from warmstart.storage.yaml_files import read_yaml

MEASURED_ON = ("data.dev", "data.test", "data.split")
"""Fields that a search may not change: trials measured on different rows cannot be compared."""


def is_sweep(path: str | Path) -> bool:
    """Whether a YAML file is a sweep, and not a recipe."""
    return bool({"search", "recipe"} & set(read_yaml(Path(path))[0]))


def shipped_sweeps() -> dict[str, Path]:
    """The sweeps that come with warmstart, by name, as the folder has them."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "shipped" / "sweeps").glob("*.yaml"))}


def load_sweep(
    path: str | Path | None = None,
    changes: Mapping[str, Value] | None = None,
    recipe: Recipe | None = None,
    recipe_changes: Mapping[str, Value] | None = None,
) -> tuple[Sweep, Recipe]:
    """A sweep and the recipe that it starts from, every choice checked; paths are relative to the sweep's folder.

    Args:
        path: The file, or the name of one that comes with warmstart; None where `changes` hold everything.
        changes: Fields that replace the file's; what they search is added to what the file searches.
        recipe: Takes the place of the file's.
        recipe_changes: Dotted keys and values that replace those of the file's recipe.
    """
    where, values, lines = _read(path)
    changes = dict(changes or {})
    search = {**(values.get("search") or {}), **changes.pop("search", {})}
    values = {**values, **changes, **({"search": search} if search else {})}
    _check_ranges(search, where, lines)
    sweep = Sweep.check(values, where, lines).resolved()
    if recipe is None:
        folder = Path(path).parent if path is not None else Path()
        recipe = _recipe(sweep, where, lines, folder, recipe_changes or {})
    _check_recipe(sweep, recipe, where, lines)
    return sweep, recipe


def settings_in(recipe: Recipe, settings: Mapping[str, Value], where: str) -> Recipe:
    """The recipe with some of its fields set."""
    values = recipe.model_dump(mode="json")
    for key, value in settings.items():
        put(values, key, value)
    return Recipe.check(values, where)


def _read(path: str | Path | None) -> tuple[str, Values, dict[str, int]]:
    if path is None:
        return "sweep", {}, {}
    if Path(path).suffix in (".yaml", ".yml"):
        return str(path), *read_yaml(Path(path))
    known = shipped_sweeps()
    if str(path) not in known:
        raise RecipeError(f"{path}: no sweep of that name comes with warmstart; {nearest(str(path), known)}")
    return str(path), *read_yaml(known[str(path)])


def _recipe(sweep: Sweep, where: str, lines: Mapping[str, int], folder: Path, changes: Mapping[str, Value]) -> Recipe:
    """The recipe that a sweep names or holds."""
    if sweep.recipe is None:
        raise RecipeError(f"{where}: recipe is missing; set it there, or give a recipe or a data file")
    if isinstance(sweep.recipe, str):
        path = sweep.recipe if sweep.recipe.startswith(SHIPPED) else folder / sweep.recipe
        return load_recipe(path, changes)
    values = dict(sweep.recipe)
    for key, value in changes.items():
        put(values, key, value)
    own_lines = {key.removeprefix("recipe."): line for key, line in lines.items() if key.startswith("recipe.")}
    return recipe_of(values, where, own_lines, folder)


def _check_ranges(search: object, where: str, lines: Mapping[str, int]) -> None:
    """Refuse what is neither choices nor a range, in words about the field."""
    for key, space in search.items() if isinstance(search, dict) else ():
        at = _at(where, lines, key)
        if isinstance(space, dict):
            SearchRange.check(space, f"{at}: search.{key}")
        elif not isinstance(space, list | SearchRange):
            raise RecipeError(f"{at}: search.{key}: found {space!r}, expected choices [a, b] or {{low: …, high: …}}")


def _check_recipe(sweep: Sweep, recipe: Recipe, where: str, lines: Mapping[str, int]) -> None:
    """Refuse a recipe without dev rows, and choices that it does not take."""
    data = recipe.data
    if data.dev is None and not data.split.dev:
        raise RecipeError(f"{where}: there are no dev rows to choose by; set data.dev, or data.split.dev: 0.1")
    for several in (name for name in ("seeds", "baseline", "ablate") if getattr(recipe, name)):
        raise RecipeError(f"{where}: a trial is one training; leave {several} out of the recipe, and repeat the best")
    for key, space in sweep.search.items():
        at = _at(where, lines, key)
        if key.startswith(MEASURED_ON) or (key == "seed" and data.dev is None):
            raise RecipeError(f"{at}: search.{key}: it changes the rows that trials are measured on; leave it out")
        for value in space.bounds() if isinstance(space, SearchRange) else space:
            settings_in(recipe, {key: value}, f"{at}: search")


def _at(where: str, lines: Mapping[str, int], key: str) -> str:
    line = lines.get(f"search.{key}")
    return f"{where}:{line}" if line else where
