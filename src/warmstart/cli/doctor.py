"""warmstart doctor: this machine, what is missing on it, and what is known to go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.doctor.packages import Package


def command(
    recipe: Annotated[
        str, typer.Argument(help="A recipe, to be warned of settings known to go wrong.", metavar="RECIPE")
    ] = "",
    json: options.Json = False,
) -> None:
    """Show versions, hardware and what is missing, and warn of what is known to go wrong."""
    from warmstart.cli import screen
    from warmstart.doctor.machine import machine
    from warmstart.doctor.packages import packages
    from warmstart.doctor.warnings import machine_warnings, recipe_warnings
    from warmstart.recipe import load_recipe
    from warmstart.storage.cache import cache_folder

    found, wanted = machine(cache_folder()), packages()
    warnings = [*machine_warnings(found, wanted), *(recipe_warnings(load_recipe(recipe), found) if recipe else ())]
    if json:
        told = [{"package": one.name, "found": one.found, "wanted": one.wanted, "extra": one.extra} for one in wanted]
        screen.print_json({"machine": found, "packages": told, "warnings": warnings})
        return
    screen.table("this machine", _readable(found))
    screen.grid("packages", [_line(one) for one in wanted])
    for warning in warnings:
        screen.warn(warning)
    if not warnings:
        typer.echo("nothing is known to go wrong here")


def _readable(found: dict[str, Any]) -> dict[str, Any]:
    """The facts with their units, what is not there said so."""
    return {
        "Python": f"{found['python']} on {found['system']}",
        "processor": f"{found['processor']}, {found['cores']} cores, {found['threads']} threads used",
        "memory": f"{found['memory_gb']:g} GB",
        "accelerator": _accelerator(found),
        "trains in": f"{found['precision']} (bf16 arithmetic: {'yes' if found['bf16'] else 'no'})",
        "free disk": f"{found['here_free_gb']:g} GB here, {found['cache_free_gb']:g} GB in the cache",
        "cache": found["cache"],
        "PDF reports": found["browser"] or "no browser found; install Chromium for `report --pdf`",
    }


def _accelerator(found: dict[str, Any]) -> str:
    if not found["accelerator"]:
        return "none"
    memory = found["accelerator_memory_gb"]
    return f"{found['accelerator']}{f', {memory:g} GB' if memory else ''}"


def _line(one: Package) -> dict[str, str]:
    return {
        "package": one.name,
        "found": one.found or "–",
        "wanted": one.wanted or "any",
        "for": one.extra or "everything",
        "type": "" if one.fits else one.repair,
    }
