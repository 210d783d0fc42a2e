"""Repeating: a recipe in several variants, each over several seeds, one run folder each.

Nothing is kept but the run folders, so a kill loses nothing that was saved: the same call reads the finished runs,
goes on with the stopped one and starts the others. Several processes may make the same call at once and share the work.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from warmstart.errors import RecipeError, RunError, TrainingError
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import FAILURE, Row, read_row
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, Recipe, absolute, flat, make_recipe, put
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import describe, write_json, write_text
from warmstart.storage.json_files import read_object
from warmstart.storage.locks import claimed, holder

HEAVY = ("model", "checkpoints")
"""Parts of a run that its numbers do not need."""
FILES = "files.json"
"""Size and SHA-256 of the data files that the runs were made from."""
PAUSE = 1.0
"""Seconds between two looks at a run that another process has under way."""


def repeat(
    recipe: Recipe | Mapping[str, Any],
    variants: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    folder: str | Path,
    progress: Progress = silent,
    keep: Literal["all", "numbers"] | Sequence[str] = "all",
    resume_anyway: Iterable[str] = (),
) -> list[Row]:
    """Carry out every variant of a recipe with every seed into `folder/<variant>/seed-<n>`; one row a run.

    A training whose loss is no number gives a row that says so; any other error stops, and the same call goes on. Seeds
    come outermost: an experiment that was stopped has compared all variants on fewer seeds.

    Args:
        recipe: A `Recipe`, or its dotted keys and values.
        variants: Dotted keys and values that make each variant; none for the recipe as it stands.
        keep: `numbers` removes each run's model and checkpoints once it is measured; names of variants do so for all
            others.
        resume_anyway: As in `run_recipe`.
    """
    folder = Path(folder)
    plan = {
        (name, seed): made for seed in _different(seeds) for name, made in make_variants(recipe, variants, seed).items()
    }
    check_files(folder, list(plan.values()))
    light = [name for name in variants if keep == "numbers" or (keep != "all" and name not in keep)]
    rows: dict[tuple[str, int], Row] = {}
    told: set[tuple[str, int]] = set()
    while missing := [which for which in plan if which not in rows]:
        before = len(rows)
        for name, seed in missing:
            place, lock = run_folder(folder, name, seed), folder / name / f".seed-{seed}.lock"
            with claimed(lock) as mine:
                if mine:
                    rows[name, seed] = _one(plan[name, seed], place, name, progress, resume_anyway)
                    if name in light:
                        strip(place)
                elif (name, seed) not in told:
                    told.add((name, seed))
                    progress.say(f"{name}, seed {seed}: {holder(lock)} has it under way")
        if len(rows) == before:
            time.sleep(PAUSE)
    return [rows[name, seed] for name in variants for seed in seeds]


def read_rows(folder: str | Path, variants: Sequence[str] | None = None) -> list[Row]:
    """The rows of the ended runs in an experiment's folder, by variant and seed; nothing is trained."""
    names = (
        variants if variants is not None else sorted(path.name for path in Path(folder).glob("[!.]*") if path.is_dir())
    )
    found = []
    for name in names:
        runs = [(int(path.name.removeprefix("seed-")), path) for path in (Path(folder) / name).glob("seed-*")]
        found += [read_row(path, name, seed) for seed, path in sorted(runs) if _ended(path)]
    return found


def run_folder(folder: Path, variant: str, seed: int) -> Path:
    """Where a run of an experiment is."""
    return folder / variant / f"seed-{seed}"


def make_variants(
    recipe: Recipe | Mapping[str, Any], variants: Mapping[str, Mapping[str, Any]], seed: int = 0
) -> dict[str, Recipe]:
    """The recipe of each variant, all of them checked before any is carried out."""
    base = recipe if isinstance(recipe, Recipe) else make_recipe(recipe, "recipe")
    made = {}
    for name, changes in variants.items():
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise RecipeError(f"variant {name!r}: expected a name that a folder can have, without / and a dot in front")
        values = base.model_dump(mode="json")
        for key, value in {**changes, "seed": seed}.items():
            put(values, key, value)
        made[name] = absolute(Recipe.check(values, f"variant {name}"))
    return made


def _one(recipe: Recipe, place: Path, name: str, progress: Progress, anyway: Iterable[str]) -> Row:
    """One run, carried out if it has not come to its end yet."""
    if _ended(place):
        check_same(recipe, place)
    else:
        progress.say(f"{name}, seed {recipe.seed}")
        try:
            run_recipe(recipe, place, progress, resume_anyway=anyway)
        except TrainingError as error:
            progress.say(f"{place}: {error}")
            write_text(place / FAILURE, f"{error}\n")
    return read_row(place, name, recipe.seed)


def strip(place: Path) -> None:
    """Remove a run's model and checkpoints; its numbers stay."""
    for part in HEAVY:
        shutil.rmtree(place / part, ignore_errors=True)


def _ended(place: Path) -> bool:
    return any((place / name).is_file() for name in ("metrics.json", FAILURE))


def check_same(recipe: Recipe, place: Path) -> None:
    """Refuse a run that was made by another recipe than the one asked for, with the differences."""
    there, asked = _settings(RunFolder(place).recipe), _settings(recipe)
    other = [key for key in asked if there.get(key) != asked[key]]
    if other:
        told = "\n".join(f"  {key}: there {there.get(key)!r}, asked for {asked[key]!r}" for key in other)
        raise RunError(f"{place} holds a run of another recipe:\n{told}\nRemove it, or choose another folder")


def _settings(recipe: Recipe) -> dict[str, Any]:
    """The recipe's dotted keys and values, but for when it saves itself: that changes no result."""
    return flat(recipe.model_dump(mode="json", exclude={"checkpoints"}))


def _different(seeds: Sequence[int]) -> Sequence[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(
            f"seeds: found {list(seeds)}, expected one or more, all different: the same one teaches nothing"
        )
    return seeds


def check_files(folder: Path, recipes: Sequence[Recipe]) -> None:
    """Refuse data files that changed since runs were made from them; note those that are new here."""
    names = {
        name
        for recipe in recipes
        for part in ("train", "dev", "test")
        for name in (recipe.data.reading(part) or {"files": ()})["files"]
        if not name.startswith("hub:") and name != MEMORY
    }
    found = {name: describe(Path(name)) for name in sorted(names) if Path(name).is_file()}
    path = folder / FILES
    known = read_object(path, RunError) if path.is_file() else {}
    changed = [name for name in found if known.get(name, found[name]) != found[name]]
    if changed:
        raise RunError(
            f"{', '.join(changed)} changed since the runs in {folder} were made; choose another folder, or remove it"
        )
    if not found.keys() <= known.keys():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, {**known, **found})
