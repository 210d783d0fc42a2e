"""warmstart doctor: this machine, what is missing on it, and known problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from warmstart.cli import options

if TYPE_CHECKING:
    from warmstart.doctor.packages import Package


def command(
    recipe: Annotated[
        str,
        typer.Argument(help="A recipe, to check it for settings known to cause problems.", metavar="RECIPE"),
    ] = "",
    json: options.Json = False,
) -> None:
    """Show versions, hardware and missing packages, and warn of known problems."""
    from warmstart.cli import screen
    from warmstart.doctor.machine import machine
    from warmstart.doctor.packages import packages
    from warmstart.doctor.warnings import machine_warnings, recipe_warnings
    from warmstart.recipe import load_recipe
    from warmstart.storage.cache import cache_folder

    facts, required = machine(cache_folder()), packages()
    warnings = [*machine_warnings(facts, required), *(recipe_warnings(load_recipe(recipe), facts) if recipe else ())]
    if json:
        rows = [
            {
                "package": package.name,
                "installed": package.installed,
                "required": package.required,
                "extra": package.extra,
            }
            for package in required
        ]
        screen.print_json({"machine": facts, "packages": rows, "warnings": warnings})
        return
    screen.table("this machine", _readable(facts))
    screen.grid("packages", [_line(package) for package in required])
    for warning in warnings:
        screen.warn(warning)
    if not warnings:
        typer.echo("no known problems here")


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with their units."""
    return {
        "Python": f"{facts['python']} on {facts['system']}",
        "processor": f"{facts['processor']}, {facts['cores']} cores, {facts['threads']} threads used",
        "memory": f"{facts['memory_gb']:g} GB",
        "accelerator": _accelerator(facts),
        "trains in": f"{facts['precision']} (bf16 arithmetic: {'yes' if facts['bf16'] else 'no'})",
        "free disk": f"{facts['here_free_gb']:g} GB here, {facts['cache_free_gb']:g} GB in the cache",
        "cache": facts["cache"],
        "PDF reports": facts["browser"] or "no browser found; install Chromium for `report --pdf`",
    }


def _accelerator(facts: dict[str, Any]) -> str:
    if not facts["accelerator"]:
        return "none"
    memory = facts["accelerator_memory_gb"]
    return f"{facts['accelerator']}{f', {memory:g} GB' if memory else ''}"


def _line(package: Package) -> dict[str, str]:
    return {
        "package": package.name,
        "installed": package.installed or "–",
        "required": package.required or "any",
        "extra": package.extra or "–",
        "to fix": "" if package.fits else package.repair,
    }
