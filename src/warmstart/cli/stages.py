"""warmstart stages: the cached stages, why a recipe needs a new one, and removing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.pipeline.earlier_stages import EarlierStage
    from warmstart.pipeline.stage_store import StoredStage


def command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe, to show which of its stages are cached.", metavar="RECIPE")
    ] = "",
    prune: Annotated[
        list[str] | None,
        typer.Option("--prune", help="Remove the stage of this name, all `unfinished` ones, or `all`.", metavar="NAME"),
    ] = None,
    json: options.Json = False,
) -> None:
    """List the cached stages, explain why a recipe's are not among them, or remove some."""
    from warmstart.pipeline.stage_store import remove_stage, stored_stages
    from warmstart.storage.cache import cache_folder

    if recipe:
        _show_recipe(recipe, json)
        return
    stages = stored_stages(cache_folder() / "stages")
    if prune:
        removed = _chosen(stages, prune)
        for stage in removed:
            remove_stage(stage)
        stages = [stage for stage in stages if stage not in removed]
        if not json:
            typer.echo(f"removed {len(removed)}: {', '.join(stage.folder.name for stage in removed) or 'none'}")
    _show(stages, json)


def _chosen(stages: list[StoredStage], names: list[str]) -> list[StoredStage]:
    """The stages to remove; a name that is none of them is an error."""
    from warmstart.errors import RunError, nearest

    known = {stage.folder.name: stage for stage in stages}
    chosen: dict[str, StoredStage] = {}
    for name in names:
        if name in ("all", "unfinished"):
            chosen |= {key: stage for key, stage in known.items() if name == "all" or not stage.finished}
        elif name in known:
            chosen[name] = known[name]
        else:
            raise RunError(f"--prune {name}: no such stage; {nearest(name, known)}")
    return list(chosen.values())


def _show(stages: list[StoredStage], as_json: bool) -> None:
    from warmstart.cli import screen

    rows = [
        {
            "stage": stage.folder.name,
            "finished": stage.finished,
            "started": stage.made,
            "megabytes": round(stage.bytes / 1e6),
            "from": str(stage.identity.get("model", ""))[:22],
        }
        for stage in stages
    ]
    if as_json:
        screen.print_json([{**row, "identity": stage.identity} for row, stage in zip(rows, stages, strict=True)])
    elif rows:
        screen.grid("stages", rows)
    else:
        typer.echo("no stages are cached yet; they are created by a recipe with `stages`")


def _show_recipe(path: str, as_json: bool) -> None:
    from warmstart.cli import screen
    from warmstart.pipeline.run_recipe import plan_stages
    from warmstart.recipe import load_recipe

    rows = [_row(number, stage) for number, stage in enumerate(plan_stages(load_recipe(path)), 1)]
    if as_json:
        screen.print_json(rows)
        return
    if not rows:
        typer.echo(f"{path} has no stages before fine-tuning (stages: …)")
    for row in rows:
        typer.echo(f"{row['stage']}: {'finished, and reused' if row['finished'] else row['why']}")
        for line in row["differences"]:
            typer.echo(f"  {line}")


def _row(number: int, stage: EarlierStage) -> dict[str, Any]:
    from warmstart.pipeline.stage_store import differences

    stale = [] if stage.finished else differences(stage.identity, stage.name, stage.folder.parent)
    why = "not trained yet; the closest one differs in" if stale else "not trained yet, and nothing similar is cached"
    if stage.folder.is_dir() and not stage.finished:
        why = "stopped, and will be resumed" + ("; the closest finished one differs in" if stale else "")
    return {
        "stage": f"{number:02d}-{stage.name}",
        "store": stage.folder.name,
        "finished": stage.finished,
        "why": "" if stage.finished else why,
        "differences": stale,
    }
