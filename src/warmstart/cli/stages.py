"""warmstart stages: the stages that are kept for every run, why one is wanted anew, and removing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.pipeline.earlier_stages import Stage
    from warmstart.pipeline.stage_store import Stored


def command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe, to see which of its stages are finished.", metavar="RECIPE")
    ] = "",
    prune: Annotated[
        list[str] | None,
        typer.Option("--prune", help="Remove a stage by its name, or `unfinished` or `all` of them.", metavar="NAME"),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the stages kept for all runs, say why a recipe's are not among them, or remove some."""
    from warmstart.pipeline.stage_store import remove, stored
    from warmstart.storage.cache import cache_folder

    if recipe:
        _show_recipe(recipe, json)
        return
    found = stored(cache_folder() / "stages")
    if prune:
        gone = _chosen(found, prune)
        for one in gone:
            remove(one)
        found = [one for one in found if one not in gone]
        if not json:
            typer.echo(f"removed {len(gone)}: {', '.join(one.folder.name for one in gone) or 'none'}")
    _show(found, json)


def _chosen(found: list[Stored], names: list[str]) -> list[Stored]:
    """The stages to remove; a name that is none of them is an error."""
    from warmstart.errors import RunError, nearest

    known = {one.folder.name: one for one in found}
    chosen: dict[str, Stored] = {}
    for name in names:
        if name in ("all", "unfinished"):
            chosen |= {key: one for key, one in known.items() if name == "all" or not one.finished}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise RunError(f"--prune {name}: no such stage; {nearest(name, known)}")
    return list(chosen.values())


def _show(found: list[Stored], as_json: bool) -> None:
    from warmstart.cli import screen

    rows = [
        {
            "stage": one.folder.name,
            "finished": one.finished,
            "begun": one.made,
            "megabytes": round(one.bytes / 1e6),
            "from": str(one.identity.get("model", ""))[:22],
        }
        for one in found
    ]
    if as_json:
        screen.print_json([{**row, "identity": one.identity} for row, one in zip(rows, found, strict=True)])
    elif rows:
        screen.grid("stages", rows)
    else:
        typer.echo("no stages are kept yet; a recipe with `before` makes them")


def _show_recipe(path: str, as_json: bool) -> None:
    from warmstart.cli import screen
    from warmstart.pipeline.run_recipe import plan_stages
    from warmstart.recipe import load_recipe

    found = [_told(number, stage) for number, stage in enumerate(plan_stages(load_recipe(path)), 1)]
    if as_json:
        screen.print_json(found)
        return
    if not found:
        typer.echo(f"{path} has no stages before its training (before: …)")
    for one in found:
        typer.echo(f"{one['stage']}: {'finished, and used as it stands' if one['finished'] else one['why']}")
        for line in one["differences"]:
            typer.echo(f"  {line}")


def _told(number: int, stage: Stage) -> dict[str, Any]:
    from warmstart.pipeline.stage_store import differences

    stale = [] if stage.finished else differences(stage.identity, stage.name, stage.folder.parent)
    why = "not made yet; the nearest that is differs in" if stale else "not made yet, nor any like it"
    if stage.folder.is_dir() and not stage.finished:
        why = "begun, and goes on from where it was stopped" + ("; the nearest finished differs in" if stale else "")
    return {
        "stage": f"{number:02d}-{stage.name}",
        "store": stage.folder.name,
        "finished": stage.finished,
        "why": "" if stage.finished else why,
        "differences": stale,
    }
