"""A report in a real browser: nothing is fetched or said, nothing overflows, nothing is hidden from a screen reader."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

import warmstart
from report_samples import diagnosis, evidence
from warmstart.report.pdf import find_browser, print_pdf

sys.path.insert(0, str(Path(__file__).parents[2] / "proofs"))

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium in the PATH"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no playwright: the extra browser"),
]


@pytest.fixture(scope="module")
def page(run, tmp_path_factory):
    folder = shutil.copytree(run.folder, tmp_path_factory.mktemp("report") / "reviews")
    (folder / "evidence.json").write_text(json.dumps(evidence()), encoding="utf-8")
    labels = [f"a label of some length, number {number}" for number in range(77)]
    (folder / "diagnosis.json").write_text(json.dumps(diagnosis(labels)), encoding="utf-8")
    return warmstart.Run(folder).report()


def test_it_opens_clean_wherever_it_is_read(page):
    from browser import axe_script, chromium, look

    with chromium() as browser:
        for width, theme in ((1280, "light"), (390, "dark")):
            seen = look(browser, page, width, theme, axe_script())
            assert seen.messages == []
            assert seen.requests == []
            assert seen.overflow <= 0
            assert seen.grave == []


def test_it_prints(page):
    assert print_pdf(page).read_bytes().startswith(b"%PDF")
