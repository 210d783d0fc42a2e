"""Jupyter notebooks of the tutorials, from the same source as the pages: `make notebooks` writes and executes them.

A Python block becomes a cell, a block of commands a cell of `%%bash`, everything else Markdown. What a page only shows
(`{.norun}`), and what it prints, stays Markdown; commands that must be refused (`{.fails}`) may fail.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
_BLOCK = re.compile(r"^```(bash|python)([^\n]*)\n(.*?)^```$", re.M | re.S)
_FRONT = re.compile(r"\A---\n.*?\n---\n", re.S)


def notebook(page: Path) -> Any:
    """The notebook of a page."""
    from nbformat import v4

    text, cells, end = _FRONT.sub("", page.read_text(encoding="utf-8")), [], 0
    for match in _BLOCK.finditer(text):
        language, info, code = match.groups()
        if ".norun" in info:
            continue  # it stays in the Markdown around it
        cells += _prose(text[end : match.start()])
        if language == "bash":
            code = f"%%bash{' --no-raise-error' if '.fails' in info else ''}\nset -euo pipefail\n{code}"
        cells.append(v4.new_code_cell(code.rstrip("\n")))
        end = match.end()
    cells += _prose(text[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # else random, and every notebook new each time
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _prose(text: str) -> list[Any]:
    from nbformat import v4

    # Attributes of a fence are the site's own.
    shown = re.sub(r"^(```\w+) \{[^}]*\}$", r"\1", text.strip(), flags=re.M)
    return [v4.new_markdown_cell(shown)] if shown else []


def execute(book: Any, folder: Path) -> None:
    """Run all cells in a folder, as a reader would beside `examples/`."""
    from nbclient import NotebookClient

    NotebookClient(book, timeout=3600, coalesce_streams=True, resources={"metadata": {"path": str(folder)}}).execute()


def skip_fetching(book: Any, starts: tuple[str, ...]) -> None:
    """Leave out cells with a line that starts so when the notebook is executed."""
    for cell in book.cells:
        if cell["cell_type"] == "code" and any(line.startswith(starts) for line in cell["source"].splitlines()):
            cell["metadata"]["tags"] = ["skip-execution"]


@contextmanager
def commands(bin_folder: Path) -> Iterator[None]:
    """The commands of a folder before all others."""
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{bin_folder}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


@contextmanager
def beside(stand_ins: bool) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A folder with what lies beside a notebook, and how lines of cells start that are not executed.

    Args:
        stand_ins: Take the rows and tiny encoders of the tests for what a page fetches, and need no network.
    """
    if not stand_ins:
        with commands(Path(sys.executable).parent), tempfile.TemporaryDirectory() as place:
            shutil.copytree(ROOT / "examples", Path(place) / "examples")
            yield Path(place), ()
        return
    sys.path.insert(0, str(ROOT / "tests"))
    import warm
    from stand_ins import NOT_RUN, stand_in_folder

    with tempfile.TemporaryDirectory() as place, warm.start(Path(place) / "warm") as bin_folder, commands(bin_folder):
        os.environ |= {"WARMSTART_CACHE": f"{place}/cache", "HF_HUB_OFFLINE": "1", warm.SHORT: "1"}
        (Path(place) / "files").mkdir()
        yield stand_in_folder(Path(place) / "files"), NOT_RUN


def main() -> None:
    """Write the notebooks, and execute them."""
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "notebooks", help="the folder to write to (default notebooks/)"
    )
    parser.add_argument("--write-only", action="store_true", help="do not execute them")
    parser.add_argument("--stand-ins", action="store_true", help="execute them offline, on small rows of our own")
    parser.add_argument("--only", help="the name of one tutorial")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with nullcontext() if args.write_only else beside(args.stand_ins) as files:
        for page in TUTORIALS:
            if args.only in (None, page.stem):
                book = notebook(page)
                if files:
                    skip_fetching(book, files[1])
                    with tempfile.TemporaryDirectory() as folder:
                        execute(book, shutil.copytree(files[0], folder, dirs_exist_ok=True))
                nbformat.write(book, args.out / f"{page.stem}.ipynb")
                print(args.out / f"{page.stem}.ipynb", flush=True)


if __name__ == "__main__":
    main()
