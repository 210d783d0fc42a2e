"""Jupyter notebooks of the tutorials, from the same source as the pages: `make notebooks` writes and executes them.

A Python block becomes a cell, a block of commands a cell of `%%bash`, everything else Markdown. What a page only shows
(`{.norun}`), and what it prints, stays Markdown; commands that must be refused (`{.fails}`) may fail.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
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

    # Commands are those of this Python.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    NotebookClient(book, timeout=3600, resources={"metadata": {"path": str(folder)}}).execute()


def main() -> None:
    """Write the notebooks, and execute them."""
    import shutil
    import tempfile

    import nbformat

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "notebooks", help="the folder to write to (default notebooks/)"
    )
    parser.add_argument("--write-only", action="store_true", help="do not execute them")
    parser.add_argument("--only", help="the name of one tutorial")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for page in TUTORIALS:
        if args.only in (None, page.stem):
            book = notebook(page)
            if not args.write_only:
                with tempfile.TemporaryDirectory() as folder:
                    shutil.copytree(ROOT / "examples", Path(folder) / "examples")
                    execute(book, Path(folder))
            nbformat.write(book, args.out / f"{page.stem}.ipynb")
            print(args.out / f"{page.stem}.ipynb", flush=True)


if __name__ == "__main__":
    main()
