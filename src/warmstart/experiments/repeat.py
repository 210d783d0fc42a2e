"""Repeating: a recipe in several variants, each over several seeds, one run folder each.

The run folders are the only state, so a kill loses nothing that was saved: the same call reads the finished runs,
resumes the stopped one and starts the others. Several processes may make the same call at once and share the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from warmstart.errors import RecipeError, RunError, TrainingError
from warmstart.evaluation.records import metrics
from warmstart.evaluation.run import RunFolder
from warmstart.evaluation.run_result import FAILURE, RunResult, read_result
from warmstart.options import Value
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, Recipe, absolute, flat, make_recipe, put
from warmstart.runtime.progress import Progress, silent
from warmstart.storage.artifacts import checksum, remove_stale_staging
from warmstart.storage.damages import unlist_folders
from warmstart.storage.files import write_json, write_text
from warmstart.storage.folders import discard, make_folder
from warmstart.storage.json_files import read_object
from warmstart.storage.locks import lock_holder, try_lock

WEIGHTS = ("model", "checkpoints")
"""Folders of a run that its numbers do not need."""
FILES = "files.json"
"""Size and SHA-256 of the data files that the runs were trained on."""
PAUSE = 1.0
"""Seconds between two checks of a run that another process is training."""


def repeat(
    recipe: Recipe | Mapping[str, Value],
    variants: Mapping[str, Mapping[str, Value]],
    seeds: Sequence[int],
    folder: str | Path,
    progress: Progress = silent,
    keep: Literal["all", "numbers"] | Sequence[str] = "all",
    resume_anyway: Iterable[str] = (),
) -> list[RunResult]:
    """Train every variant of a recipe with every seed into `folder/<variant>/seed-<n>`; one result per run.

    A training with a NaN loss gives a failed result; any other error stops, and the same call resumes. Seeds
    come outermost: an experiment that was stopped has compared all variants on fewer seeds.

    Args:
        recipe: A `Recipe`, or its dotted keys and values.
        variants: Dotted keys and values that make each variant; none for the recipe as it is.
        keep: `numbers` removes each run's model and checkpoints once it is measured; names of variants remove those of
            all others.
        resume_anyway: As in `run_recipe`.
    """
    folder = Path(folder)
    plan = {
        (name, seed): made for seed in _different(seeds) for name, made in make_variants(recipe, variants, seed).items()
    }
    check_files(folder, list(plan.values()))
    light = [name for name in variants if keep == "numbers" or (keep != "all" and name not in keep)]
    results: dict[tuple[str, int], RunResult] = {}
    logged: set[tuple[str, int]] = set()
    while missing := [run for run in plan if run not in results]:
        before = len(results)
        for name, seed in missing:
            path, lock = run_folder(folder, name, seed), folder / name / f".seed-{seed}.lock"
            with try_lock(lock) as mine:
                if mine:
                    results[name, seed] = _run_once(plan[name, seed], path, name, progress, resume_anyway)
                    if name in light:
                        remove_weights(path)
                elif (name, seed) not in logged:
                    logged.add((name, seed))
                    progress.log(f"{name}, seed {seed}: {lock_holder(lock)} is training it")
        if len(results) == before:
            time.sleep(PAUSE)
    return [results[name, seed] for name in variants for seed in seeds]


def read_results(folder: str | Path, variants: Sequence[str] | None = None) -> list[RunResult]:
    """The results of the finished and failed runs in an experiment's folder, by variant and seed; trains nothing."""
    names = (
        variants if variants is not None else sorted(path.name for path in Path(folder).glob("[!.]*") if path.is_dir())
    )
    results = []
    for name in names:
        runs = [(int(path.name.removeprefix("seed-")), path) for path in (Path(folder) / name).glob("seed-*")]
        results += [read_result(path, name, seed) for seed, path in sorted(runs) if _ended(path)]
    return results


def run_folder(folder: Path, variant: str, seed: int) -> Path:
    """Where a run of an experiment is."""
    return folder / variant / f"seed-{seed}"


def make_variants(
    recipe: Recipe | Mapping[str, Value], variants: Mapping[str, Mapping[str, Value]], seed: int = 0
) -> dict[str, Recipe]:
    """The recipe of each variant, all of them checked before any is trained."""
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


def _run_once(recipe: Recipe, folder: Path, name: str, progress: Progress, anyway: Iterable[str]) -> RunResult:
    """The result of one run, which is trained if it has not ended yet."""
    if _ended(folder):
        check_same_recipe(recipe, folder)
    else:
        progress.log(f"{name}, seed {recipe.seed}")
        try:
            run_recipe(recipe, folder, progress, resume_anyway=anyway)
        except TrainingError as error:
            progress.log(f"{folder}: {error}")
            write_text(folder / FAILURE, f"{error}\n")
    return read_result(folder, name, recipe.seed)


def remove_weights(folder: Path) -> None:
    """Remove a run's model and checkpoints; its numbers stay."""
    for name in WEIGHTS:
        unlist_folders(folder, name)
        discard(folder / name)
    remove_stale_staging(folder)  # of a removal that a kill interrupted


def _ended(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (metrics.FILE, FAILURE))


def check_same_recipe(recipe: Recipe, folder: Path) -> None:
    """Refuse a run of another recipe than this one, with the differences."""
    there, here = _settings(RunFolder(folder).recipe), _settings(recipe)
    other = [key for key in here if there.get(key) != here[key]]
    if other:
        lines = "\n".join(f"  {key}: there {there.get(key)!r}, here {here[key]!r}" for key in other)
        raise RunError(
            f"{folder} holds a run of another recipe:\n{lines}\nRemove it, or choose another folder with --out"
        )


def _settings(recipe: Recipe) -> dict[str, object]:
    """The recipe's dotted keys and values, except when it saves checkpoints: that changes no result."""
    return flat(recipe.model_dump(mode="json", exclude={"checkpoints"}))


def _different(seeds: Sequence[int]) -> Sequence[int]:
    if not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(
            f"seeds: found {list(seeds)}, expected one or more, all different: the same one teaches nothing"
        )
    return seeds


def check_files(folder: Path, recipes: Sequence[Recipe]) -> None:
    """Refuse data files that changed since runs were trained on them; record those that are new here."""
    names = {
        name
        for recipe in recipes
        for part in ("train", "dev", "test")
        for name in (recipe.data.reading(part) or {"files": ()})["files"]
        if not name.startswith("hub:") and name != MEMORY
    }
    checksums = {name: checksum(Path(name)) for name in sorted(names) if Path(name).is_file()}
    path = folder / FILES
    known = read_object(path, RunError) if path.is_file() else {}
    changed = [name for name in checksums if known.get(name, checksums[name]) != checksums[name]]
    if changed:
        raise RunError(
            f"{', '.join(changed)} changed since the runs in {folder} were trained; choose another folder, or remove it"
        )
    if not checksums.keys() <= known.keys():
        make_folder(folder)
        write_json(path, {**known, **checksums})
