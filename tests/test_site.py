"""The site: a few pages in a real browser, and the results as a gallery."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from built_site import ROOT, built_site
from warmstart.report.pdf import find_browser

sys.path[:0] = [str(ROOT / "proofs"), str(ROOT / "benchmarks")]

RESULTS = sorted(page.stem for page in (ROOT / "docs" / "results").glob("*.md") if page.name != "index.md")
PAGES = ["", "howto/learning-rate-schedules/"]
"""One with a picture and a table, and one with a drawing made by the code."""

in_a_browser = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium in the PATH"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no playwright: the extra browser"),
]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return built_site(tmp_path_factory.mktemp("site"))


def plain(text: str) -> str:
    """A text without markup and line ends."""
    return " ".join(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).split())


def test_the_gallery_has_every_result_once_with_its_conclusion(hooks):
    gallery = hooks.results()
    assert sorted(re.findall(r"\]\(([\w-]+)\.md\)", gallery)) == RESULTS
    for name in RESULTS:
        line = next(line for line in gallery.splitlines() if f"({name}.md)" in line)
        headline = hooks.conclusion(name)
        page = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
        opening = plain(page.split("\n\n")[1])
        assert line.endswith(headline), name
        assert opening.startswith(headline), f"{name} does not open with {headline!r}"
        assert headline.endswith("."), f"{name} opens with no sentence: {headline!r}"
        assert 40 < len(headline) < 400, f"{name} opens with too few words, or too many: {headline!r}"


def test_the_comparison_has_no_number_but_those_of_the_results(hooks):
    page = (ROOT / "docs" / "explanation" / "why.md").read_text(encoding="utf-8")
    by_hand = re.sub(r"<!-- generate: .*?<!-- end: \w+ -->", "", page, flags=re.S).partition("# ")[2]
    assert re.findall(r"\d", by_hand) == []
    blocks = re.findall(r"<!-- generate: against_(\w+) -->\n(.*?)<!-- end", page, flags=re.S)
    measured = {tool: block for tool, block in blocks if "Not measured here" not in block}
    assert {"trainer", "transformers", "sentence_transformers", "tfidf", "frozen"} <= set(measured)
    assert {"spacy", "flair", "autogluon", "fastai", "simpletransformers", "llm"} <= {tool for tool, _ in blocks}
    for tool, block in measured.items():
        results = (ROOT / "docs" / "results" / re.search(r"results/([\w-]+\.md)", block)[1]).read_text(encoding="utf-8")
        rows = [line.strip("|").split("|")[1:] for line in block.splitlines() if line.startswith("|")][2:]
        assert rows, tool
        cells = [cell.strip() for row in rows for cell in row]
        assert [cell for cell in cells if f"| {cell} |" not in results] == [], tool


@pytest.mark.parametrize("wrong", ["gone/", "howto/plan/#gone", "../images/gone.png"])
def test_a_broken_link_is_seen(wrong, tmp_path):
    from site_pages import broken_links

    (tmp_path / "howto" / "plan").mkdir(parents=True)
    (tmp_path / "howto" / "plan" / "index.html").write_text('<h1 id="there">Plan</h1>')
    tag = f'<img src="{wrong}">' if wrong.endswith("png") else f'<a href="{wrong}">here</a>'
    (tmp_path / "index.html").write_text(f'<a href="howto/plan/#there">plan</a>{tag}')
    assert broken_links(tmp_path, ["", "howto/plan/"]) == [f"index: {wrong}"]


def test_no_link_of_the_site_is_broken(site):
    from site_pages import broken_links, page_names

    assert broken_links(site, page_names(site)) == []


@pytest.mark.parametrize("page", PAGES)
class TestInABrowser:
    pytestmark = in_a_browser

    def test_a_page_is_clean_at_both_widths_and_in_both_themes(self, page, site):
        from browser import axe_script
        from site_pages import look_at_all

        views = list(look_at_all(site, [page], axe_script(), None))
        assert [fault for view in views for fault in view.faults()] == []
        assert {view.scheme for view in views} == {"default", "slate"}
        assert len(views) == 4


class TestWhatTheBrowserSees:
    pytestmark = in_a_browser

    def test_blank_figures_wide_pages_and_tables_are_seen(self, tmp_path):
        from browser import axe_script
        from site_pages import look_at_all

        wide = '<div class="md-typeset__scrollwrap" style="overflow:auto"><div style="width:3000px">table</div></div>'
        blank = '<svg role="img" aria-label="empty" width="200" height="100"></svg>'
        drawn = '<svg role="img" aria-label="drawn" width="99" height="99"><circle cx="50" cy="50" r="40"/></svg>'
        body = f'<article>{wide}{blank}{drawn}<p style="width:2000px">wide</p></article>'
        Path(tmp_path / "index.html").write_text(f"<html><body>{body}</body></html>")
        view, *_ = look_at_all(tmp_path, [""], axe_script(), None)
        faults = "\n".join(view.faults())
        assert "px too wide" in faults
        assert "wide table" in faults
        assert "blank figure: empty" in faults
        assert "drawn" not in faults
        assert "html-has-lang" in faults
