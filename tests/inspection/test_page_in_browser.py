"""A page of an inspection in a real browser: nothing is fetched, nothing overflows, nothing is hidden from a reader."""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import warmstart
from warmstart.diagnosis.inspection_page import inspection_page
from warmstart.inspection.attention import AttentionMaps
from warmstart.inspection.page import PageSection, write_html
from warmstart.inspection.pictures import lines, thumbnails
from warmstart.report.pdf import find_browser

sys.path.insert(0, str(Path(__file__).parents[2] / "proofs"))

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium in the PATH"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no playwright: the extra browser"),
]
SECONDS = 3
"""In which a page of 512 tokens opens, on a machine that is busy with other tests; alone, it takes less than one."""


def test_pages_open_clean_and_a_long_text_opens_soon(run, tmp_path):
    from browser import axe_script, chromium, look

    inspector = warmstart.inspect(run.folder)
    results = {
        "heads": inspector.heads(limit=8, remove=1),
        "attention": inspector.attention(limit=2),
        "explain": inspector.explain(["the film 7 was good and very great", "東京 was bad"], "occlusion"),
    }
    with chromium() as browser:
        for name, result in results.items():
            page = tmp_path / f"{name}.html"
            page.write_text(inspection_page(inspector, result, head="1.2" if name == "attention" else None), "utf-8")
            for width, theme in ((1280, "light"), (390, "dark")):
                seen = look(browser, page, width, theme, axe_script())
                assert (seen.messages, seen.requests, seen.violations) == ([], [], []), name
                assert seen.overflow <= 0
        weights = np.random.default_rng(0).dirichlet(np.full(512, 0.02), (6, 12, 512)).astype(np.float32)
        maps = AttentionMaps([f"token{number}" for number in range(512)], [0] * 512, weights)
        sections = [PageSection("all", thumbnails(maps, {})), PageSection("one", lines(maps, 0, 0))]
        page = tmp_path / "long.html"
        page.write_text(write_html("long", "", sections), "utf-8")
        started = time.monotonic()
        look(browser, page, 1280, "light", None)
        assert time.monotonic() - started < SECONDS
