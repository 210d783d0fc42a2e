"""The notebooks of the tutorials are valid, and have every block that a page runs, in its order."""

import importlib.util

import pytest

from built_site import ROOT
from test_docs import blocks

nbformat = pytest.importorskip("nbformat")
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.fixture(scope="module")
def notebooks():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_the_blocks_of_its_page(notebooks, page):
    book = notebooks.notebook(page)
    nbformat.validate(book)
    shown = [block for block in blocks(page) if block.language in {"bash", "python"} and ".norun" not in block.info]
    cells = [cell["source"] for cell in book.cells if cell["cell_type"] == "code"]
    assert [cell.rpartition("set -euo pipefail\n")[2] for cell in cells] == [block.text.rstrip("\n") for block in shown]
    for cell, block in zip(cells, shown, strict=True):
        assert cell.startswith("%%bash") == (block.language == "bash")
        assert cell.startswith("%%bash --no-raise-error") == block.fails
    assert notebooks.notebook(page) == book, "written twice, it is the same"


def test_a_notebook_runs(notebooks, tmp_path):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nname = 'warm'\n```\n\n```bash\necho start\n```\n\n```python\nprint(name)\n```\n"
    )
    book = notebooks.notebook(page)
    notebooks.execute(book, tmp_path)
    outputs = [cell["outputs"][0]["text"] for cell in book.cells if cell.get("outputs")]
    assert outputs == ["start\n", "warm\n"]


def test_what_is_fetched_is_left_out_on_stand_ins(notebooks):
    book = notebooks.notebook(ROOT / "docs" / "tutorials" / "bank-messages.md")
    notebooks.skip_fetching(book, ("curl -f",))
    skipped = [cell["source"] for cell in book.cells if "skip-execution" in cell["metadata"].get("tags", [])]
    assert len(skipped) == 1
    assert "curl -fL" in skipped[0]
