"""warmstart export: a run's model for another engine, or for another server."""

from __future__ import annotations

from typing import Annotated

import typer

from warmstart.cli import options
from warmstart.errors import RecipeError, nearest

TARGETS = ("onnx", "tei", "vllm")


def command(
    run: Annotated[str, typer.Argument(help="A run.")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="onnx: write a graph for ONNX Runtime and OpenVINO. tei, vllm: say how text-embeddings-inference or "
            "vLLM serves the run's model folder, and what they would not do.",
        ),
    ] = "onnx",
    int8: Annotated[
        bool, typer.Option("--int8", help="Write the weights in whole numbers of 8 bits, too, if that loses little.")
    ] = False,
    max_drop: Annotated[
        float, typer.Option("--max-drop", help="Points of the headline, out of 100, that int8 may lose.", min=0)
    ] = 0.5,
    out: Annotated[
        str | None, typer.Option("--out", help="Where to put it; the folder onnx in the run by default.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Write a run's model for another engine, checked on the run's test rows."""
    if to not in TARGETS:
        raise RecipeError(f"--to {to}: {nearest(to, TARGETS)}")
    if to != "onnx" and (int8 or out):
        raise RecipeError(f"--to {to}: writes nothing, so --int8 and --out have no use; leave them out")
    from warmstart.cli import screen

    if to != "onnx":
        from warmstart.deploy.export.servers import hand_off

        found = hand_off(run, to)
        if json:
            screen.print_json(found)
            return
        screen.console.print(found["command"], markup=False, highlight=False, soft_wrap=True)
        for note in found["notes"]:
            screen.errors.print(note, markup=False, highlight=False, soft_wrap=True)
        return
    from warmstart.deploy.export.export_run import export

    found = export(run, out, int8=int8, max_drop=max_drop, progress=screen.Lines() if json else screen.Bars())
    if json:
        screen.print_json(found)
        return
    worst = {name: one.get("worst") for name, one in found["engines"].items()}
    rows = [
        {"engine": name, found["headline"]: value, "numbers apart": _apart(worst, name)}
        for name, value in found["values"].items()
    ]
    if "int8" in found:
        rows.append({"engine": "onnx int8", found["headline"]: found["int8"]["value"], "numbers apart": "–"})
    screen.grid(f"{found['folder']}, checked on {found['rows']:,} of {found['of']:,} test rows", rows)
    refused = found["engines"].get("openvino", {}).get("refused")
    if refused:
        screen.warn(f"not for --engine openvino: {refused}")


def _apart(worst: dict[str, float | None], name: str) -> str:
    found = worst.get(name.split()[0])
    return "–" if found is None else f"{found:.1e}"
